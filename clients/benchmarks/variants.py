"""The ways to start Signet that are measured side by side, and how whoever is measured computes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from clients.benchmarks.models import Signature, describe

OFF = "off"


@dataclass(frozen=True)
class Computing:
    """How a contender computes; what does not compute has none of these.

    Attributes:
        device: what it runs on, as the contender itself tells.
        xla: what XLA compiles: off, auto or on.
        mixed_precision: whether 16 bits may do: off or on.
    """

    device: str = "-"
    xla: str = "-"
    mixed_precision: str = "-"


@dataclass(frozen=True)
class Variant:
    """Signet with some options.

    Attributes:
        label: what tables and charts call it.
        options: of ``signet serve``.
        xla: see ``Computing``; of the signatures that are measured.
        mixed_precision: likewise, of the model.
    """

    label: str
    options: tuple[str, ...] = ()
    xla: str = OFF
    mixed_precision: str = OFF

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``LABEL`` or ``LABEL=WORDS``; the words ``xla=...`` and ``mixed_precision=...`` are for the model."""
        label, _, words = text.partition("=")
        own = {"xla": OFF, "mixed_precision": OFF}
        options = []
        for word in words.split():
            key, _, value = word.partition("=")
            if key in own:
                own[key] = value
            else:
                options.append(word)
        return cls(label, tuple(options), **own)

    @property
    def needs_configuration(self) -> bool:
        """Whether it asks for what only a model's config.pbtxt can say."""
        return (self.xla, self.mixed_precision) != (OFF, OFF)


def write_repository(directory: Path, variant: Variant, saved_model: Path, signatures: Mapping[str, Signature]) -> None:
    """Write a model repository that serves a SavedModel under its own name as a variant asks for.

    Args:
        directory: to be made.
        variant: with what a configuration says.
        saved_model: what is served.
        signatures: those that are measured, by name; with XLA ``on`` no others are compiled.
    """
    version = directory / saved_model.name / "1"
    version.mkdir(parents=True)
    (version / "model.savedmodel").symlink_to(saved_model.resolve())
    lines = [_parameter("mixed_precision", variant.mixed_precision)]
    if variant.xla != "on":
        lines.append(_parameter("xla", variant.xla))
    for name, signature in signatures.items():
        wishes = " ".join(_wishes(variant, signature))
        lines.append(f'signatures {{ key: "{name}" value {{ {wishes} }} }}')
    (directory / saved_model.name / "config.pbtxt").write_text("\n".join(lines) + "\n")


def _wishes(variant: Variant, signature: Signature) -> Iterator[str]:
    if variant.xla == "on":
        yield 'xla: "on"'
    if not signature.input.dims:
        yield f"input {{ {describe(signature.input)} }}"


def _parameter(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
