"""The texts for people, and what stands in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: the file that it is in, the language, and the text."""

    file: Path
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}: {self.text.splitlines()[0]}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, and what it prints according to the text."""

    line: str
    printed: str


def blocks(*languages: str) -> list[Block]:
    """Return the fenced blocks of these languages in all files, in their order."""
    return [
        Block(file, match[1], match[2])
        for file in FILES
        for match in _FENCE.finditer(file.read_text())
        if match[1] in languages
    ]


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block: lines that begin with ``$``, with the lines that follow."""
    _, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    return [Command(line, printed) for line, _, printed in (part.partition("\n") for part in parts)]


def is_part_of(shown: str, printed: str) -> bool:
    """Return whether a program printed the lines that a text shows of it, in their order, apart from the figures.

    A line ``...`` stands for any others, and a figure that is not known is a ``-``.
    """
    places = iter(_without_figures(printed).splitlines())
    return all(line == "..." or line in places for line in _without_figures(shown).splitlines())


def _without_figures(text: str) -> str:
    without = re.sub(r"(?<![\w.,])([\d.,]*\d|-)(?![\w.,])", "0", text)
    return re.sub(r" +", " ", re.sub(r" +$", "", without, flags=re.MULTILINE))
