"""Carries out the steps of a Dockerfile in plain root directories."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.image_check.dockerfile import Stage, Step, expand, is_in_context, read_stages
from tools.image_check.rootfs import Root


class Image:
    """The last stage, built: its files, and how it is started.

    Attributes:
        root: its files and environment.
        user: of its process, as USER says.
        entrypoint: what is run, CMD included.
        health_check: the command of its HEALTHCHECK.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self.user = "0:0"
        self.entrypoint: list[str] = []
        self.health_check: list[str] = []


class Builder:
    """Builds the stages of one Dockerfile below a directory."""

    def __init__(self, repository: Path, dockerfile: Path, arguments: Mapping[str, str], directory: Path) -> None:
        self._arguments = arguments
        self._directory = directory
        self._stages = read_stages(dockerfile, arguments)
        self._context = _export_context(repository, directory / "context")
        self._built: dict[str, Root] = {}

    def build(self) -> Image:
        """Build all stages and return the last one.

        Raises:
            CalledProcessError: a command failed.
        """
        for number, stage in enumerate(self._stages):
            image = self._build_stage(stage, self._directory / f"stage-{number}")
            if stage.name:
                self._built[stage.name] = image.root
        return image

    def _build_stage(self, stage: Stage, path: Path) -> Image:
        release = stage.base.removeprefix("debian:").removesuffix("-slim")
        image = Image(Root.of_debian(release, self._directory / release).copy(path))
        arguments: dict[str, str] = {}
        for step in stage.steps:
            print(f"-- {step.keyword} {step.text[:110]}", flush=True)
            self._carry_out(step, image, arguments)
        return image

    def _carry_out(self, step: Step, image: Image, arguments: dict[str, str]) -> None:
        root = image.root
        match step.keyword:
            case "ARG":
                own = step.assignments()
                arguments |= own | {name: self._arguments[name] for name in own if name in self._arguments}
            case "RUN":
                root.run(["/bin/sh", "-c", step.text], arguments)
            case "COPY":
                *sources, target = expand(step.text, arguments).split()
                origin = self._built[step.flags["from"]].path if "from" in step.flags else self._context
                root.receive([origin / source.lstrip("/") for source in sources], target)
            case "ENV":
                root.variables |= {name: expand(text, root.variables) for name, text in step.assignments().items()}
            case "WORKDIR":
                root.directory = step.text
                (root.path / step.text.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "USER":
                image.user = step.text
            case "ENTRYPOINT" | "CMD":
                image.entrypoint += step.words()
            case "HEALTHCHECK":
                image.health_check = Step("CMD", {}, step.text.partition("CMD ")[2]).words()
            case "LABEL" | "EXPOSE":
                pass
            case other:
                raise ValueError(f"{other}: this builder does not know the instruction")


def _export_context(repository: Path, directory: Path) -> Path:
    """Copy the files that ``docker build`` would send."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if is_in_context(name, repository / ".dockerignore"):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes((repository / name).read_bytes())
    return directory
