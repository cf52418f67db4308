"""Charts as SVG text, for a page that needs nothing beside itself."""

from collections.abc import Sequence
from html import escape
from typing import Final

_WIDTH: Final = 640
_HEIGHT: Final = 240
_LEFT: Final = 64
_BOTTOM: Final = 36
_TOP: Final = 12
_RIGHT: Final = 12
_PLOT_WIDTH: Final = _WIDTH - _LEFT - _RIGHT
_PLOT_HEIGHT: Final = _HEIGHT - _TOP - _BOTTOM


def bar_chart(title: str, labels: Sequence[str], values: Sequence[float], unit: str) -> str:
    """Return bars side by side; the first and the last have their label below."""
    highest = max(*values, 1e-9)
    step = _PLOT_WIDTH / len(values)
    shapes = [
        f'<rect x="{_LEFT + i * step + 1:.1f}" y="{_y(value, highest):.1f}" width="{max(step - 2, 0.5):.1f}" '
        f'height="{_PLOT_HEIGHT * value / highest:.1f}">'
        f"<title>{escape(label)}: {value:,.0f} {escape(unit)}</title></rect>"
        for i, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
    return _chart(title, shapes, labels, highest, unit)


def line_chart(title: str, labels: Sequence[str], values: Sequence[float], unit: str) -> str:
    """Return a line through at least one value, in even steps; the first and the last have their label below."""
    highest = max(*values, 1e-9)
    step = _PLOT_WIDTH / max(len(values) - 1, 1)
    points = " ".join(f"{_LEFT + i * step:.1f},{_y(value, highest):.1f}" for i, value in enumerate(values))
    return _chart(title, [f'<polyline points="{points}"/>'], labels, highest, unit)


def _y(value: float, highest: float) -> float:
    return _TOP + _PLOT_HEIGHT * (1 - value / highest)


def _chart(title: str, shapes: Sequence[str], labels: Sequence[str], highest: float, unit: str) -> str:
    base = _TOP + _PLOT_HEIGHT
    texts = [
        f'<text x="{_LEFT}" y="{base + 18}">{escape(labels[0])}</text>',
        f'<text x="{_WIDTH - _RIGHT}" y="{base + 18}" text-anchor="end">{escape(labels[-1])}</text>',
        f'<text x="{_LEFT - 6}" y="{_TOP + 8}" text-anchor="end">{highest:,.4g}</text>',
        f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">0</text>',
        f'<text x="{_LEFT - 6}" y="{_TOP + 24}" text-anchor="end">{escape(unit)}</text>',
    ]
    axis = f'<path d="M{_LEFT} {_TOP}V{base}H{_WIDTH - _RIGHT}"/>'
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
    return f"<figure><figcaption>{escape(title)}</figcaption>{svg}{axis}{''.join((*shapes, *texts))}</svg></figure>"
