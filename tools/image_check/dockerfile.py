"""Reads the part of a Dockerfile's language that the project's own uses; anything else is an error."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_FLAG: Final = re.compile(r"--([a-z-]+)=(\S+)\s+")


@dataclass(frozen=True)
class Step:
    """One instruction.

    Attributes:
        keyword: such as RUN.
        flags: such as ``from`` of ``COPY --from=build``.
        text: the rest, continued lines joined; variables as written.
    """

    keyword: str
    flags: Mapping[str, str]
    text: str

    def words(self) -> list[str]:
        """Return the rest as words: a JSON list's, or those that a shell would see."""
        return list(json.loads(self.text)) if self.text.startswith("[") else shlex.split(self.text)

    def assignments(self) -> dict[str, str]:
        """Return the NAME=VALUE pairs of ARG, ENV and LABEL."""
        return dict(word.split("=", 1) for word in self.words() if "=" in word)


@dataclass
class Stage:
    """What begins with FROM: its base image, its name if it has one, and the steps."""

    base: str
    name: str | None
    steps: list[Step] = field(default_factory=list)


def read_stages(path: Path, arguments: Mapping[str, str]) -> list[Stage]:
    """Return the stages of a Dockerfile.

    Args:
        path: the file.
        arguments: build arguments, as for ``docker build --build-arg``.
    """
    known: dict[str, str] = {}
    stages: list[Stage] = []
    for step in read_steps(path):
        if step.keyword == "ARG" and not stages:
            known |= step.assignments() | {name: arguments[name] for name in step.assignments() if name in arguments}
        elif step.keyword == "FROM":
            base, *rest = expand(step.text, known).split()
            stages.append(Stage(base, rest[1] if rest else None))
        else:
            stages[-1].steps.append(step)
    return stages


def read_steps(path: Path) -> Iterator[Step]:
    """Yield the instructions of a Dockerfile in order."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    for instruction in "\n".join(lines).replace("\\\n", " ").splitlines():
        if instruction.strip():
            keyword, text = instruction.split(maxsplit=1)
            flags = {}
            while found := _FLAG.match(text):
                flags[found[1]] = found[2]
                text = text[found.end() :].lstrip()
            yield Step(keyword, flags, text.strip())


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace the variables in a text; one that is not known becomes empty, as in Docker."""
    return _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], ""), text)


def is_in_context(path: str, ignore_file: Path) -> bool:
    """Whether a file belongs to what ``docker build`` sends, by a list that begins with ``*`` and names exceptions.

    Args:
        path: of the file, relative to the root of the repository.
        ignore_file: the .dockerignore.
    """
    patterns = [line for line in ignore_file.read_text().split("\n") if line and not line.startswith("#")]
    if patterns[0] != "*":
        raise ValueError(f"{ignore_file}: must begin with * and name what is wanted")
    kept = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    return any(path == one or path.startswith(f"{one}/") for one in kept)
