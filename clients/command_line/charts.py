"""Charts as SVG text, for a page that needs nothing beside itself."""

import math
from collections.abc import Sequence
from html import escape
from typing import Final

_WIDTH: Final = 640
_HEIGHT: Final = 240
_LEFT: Final = 64
_BOTTOM: Final = 28
_TOP: Final = 12
_RIGHT: Final = 16
_PLOT_WIDTH: Final = _WIDTH - _LEFT - _RIGHT
_PLOT_HEIGHT: Final = _HEIGHT - _TOP - _BOTTOM
_BASE: Final = _TOP + _PLOT_HEIGHT
_MOST_MARKS: Final = 8


def bar_chart(title: str, labels: Sequence[str], marks: Sequence[str], values: Sequence[float]) -> str:
    """Return at least one bar, side by side.

    Args:
        title: what the values are, with their unit.
        labels: what each bar stands for, shown where the pointer is.
        marks: the same in short; as many as there is room for stand below the bars.
        values: none is negative.
    """
    ticks = _ticks(max(values))
    step = _PLOT_WIDTH / len(values)
    shapes = [
        f'<rect x="{_LEFT + i * step + 1:.1f}" y="{_y(value, ticks):.1f}" width="{max(step - 2, 0.5):.1f}" '
        f'height="{_BASE - _y(value, ticks):.1f}"><title>{escape(label)}: {value:,.4g}</title></rect>'
        for i, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
    return _chart(title, shapes, ticks, [(_LEFT + (i + 0.5) * step, mark) for i, mark in enumerate(marks)])


def _ticks(highest: float) -> list[float]:
    """Return where lines stand, from 0 in even steps of 1, 2 or 5; the last is no less than ``highest``."""
    least = max(highest, 1e-9) / 4
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
    return [step * i for i in range(math.ceil(highest / step - 1e-9) + 1)] if highest > 0 else [0.0, step]


def _y(value: float, ticks: Sequence[float]) -> float:
    return _TOP + _PLOT_HEIGHT * (1 - value / ticks[-1])


def _chart(title: str, shapes: Sequence[str], ticks: Sequence[float], marks: Sequence[tuple[float, str]]) -> str:
    lines = "".join(f'<path d="M{_LEFT} {_y(tick, ticks):.1f}H{_WIDTH - _RIGHT}"/>' for tick in ticks)
    values = "".join(
        f'<text x="{_LEFT - 8}" y="{_y(tick, ticks) + 4:.1f}" text-anchor="end">{tick:,.4g}</text>' for tick in ticks
    )
    shown = marks[:: math.ceil(len(marks) / _MOST_MARKS)]
    below = "".join(
        f'<text x="{x:.1f}" y="{_BASE + 18}" text-anchor="middle">{escape(text)}</text>' for x, text in shown
    )
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>{svg}{lines}{''.join(shapes)}{values}{below}</svg></figure>"
    )
