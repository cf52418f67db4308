"""A directory that is the root of a file system, and commands that see it as such. Needs root, and Linux."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

# How this machine reaches package registries; an image has none of it.
_SETTINGS: Final = ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
_VARIABLES: Final = ("PIP_", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Root:
    """A root directory.

    Attributes:
        path: where it lies.
        variables: the environment of its commands, which ENV adds to.
        directory: where they run, which WORKDIR changes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.variables = {"PATH": _PATH}
        self.directory = "/"

    @classmethod
    def of_debian(cls, release: str, path: Path) -> "Root":
        """Make one with the packages that Debian's own image has, about."""
        if not path.exists():
            subprocess.run(["debootstrap", "--variant=minbase", release, path], check=True, stdout=subprocess.DEVNULL)
        return cls(path)

    def copy(self, path: Path) -> "Root":
        """Return a copy with the same files and an environment of its own; what was at the path is gone."""
        shutil.rmtree(path, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", self.path, path], check=True)
        return Root(path)

    def run(self, command: Sequence[str], extra: Mapping[str, str] | None = None) -> None:
        """Run a command as root inside it, with this machine's ways to reach package registries.

        Raises:
            CalledProcessError: the command failed.
        """
        for file in filter(Path.exists, map(Path, _SETTINGS)):
            target = self.path / file.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        registries = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
        subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.path}/proc", "chroot", str(self.path),
             "/bin/sh", "-c", f'cd {self.directory} && exec "$@"', "sh", *command],
            env={**registries, **self.variables, **(extra or {})}, check=True,
        )  # fmt: skip

    def receive(self, sources: Sequence[Path], target: str) -> None:
        """Copy files into it, and directories' contents, as COPY does."""
        into = self.path / os.path.normpath(f"{self.directory}/{target}").lstrip("/")
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, into, symlinks=True, dirs_exist_ok=True)
            else:
                destination = into / source.name if target.endswith("/") else into
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, destination)

    def mib(self) -> int:
        """Return how much its files take on disk."""
        used = subprocess.run(["du", "-sxm", self.path], check=True, capture_output=True, text=True)
        return int(used.stdout.split()[0])
