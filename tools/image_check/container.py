"""A process in the built image, held as a container holds it."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tools.image_check.build import Image

_POLL_S: Final = 0.5

# Everything mounted is gone with the name space. The root is read-only; /tmp and the model are mounted as a pod has it.
_SETUP: Final = """
set -e
root=$1 model=$2 user=$3; shift 3
mount --bind "$root" "$root"
mkdir -p "$root/models/kit" "$root/proc"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$model" "$root/models/kit"
mount -o remount,bind,ro "$root/models/kit"
mount -o remount,bind,ro "$root"
ip link set lo up
cd "$root"
exec chroot "$root" /usr/bin/setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups --no-new-privs \
  --bounding-set=-all --inh-caps=-all -- "$@"
"""


class Container:
    """The image's own command as process 1: read-only root, no privileges, a network of its own.

    Attributes:
        pid: of process 1, as seen from outside.
    """

    pid: int

    def __init__(self, image: Image, model: Path) -> None:
        """Start it; ``model`` appears below /models."""
        self._image = image
        self._process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "/bin/sh", "-c", _SETUP, "sh",
             image.root.path, model, image.user, *image.entrypoint],
            env=image.root.variables,
        )  # fmt: skip
        self.pid = self._child()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def _child(self) -> int:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.01)
        return int(found[0])

    def run_inside(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of the image beside process 1, as the same user."""
        return self._enter(
            ["--all", f"--root=/proc/{self.pid}/root", "--wd=/", "setpriv", "--reuid", "65532", *command]
        )

    def run_outside(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of this machine in the container's network."""
        return self._enter(["--net", *command], os.environ)

    def _enter(
        self, command: Sequence[str], variables: "os._Environ[str] | None" = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", "--target", str(self.pid), *command],
            env=variables or self._image.root.variables, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def wait_until_healthy(self, timeout_s: float) -> float:
        """Return after how many seconds the image's health check passed.

        Raises:
            TimeoutError: it did not.
        """
        begun = time.monotonic()
        while (checked := self.run_inside(self._image.health_check)).returncode:
            if self._process.poll() is not None or time.monotonic() - begun > timeout_s:
                raise TimeoutError(f"not healthy: {checked.stderr.strip().splitlines()[-1:]}")
            time.sleep(_POLL_S)
        return time.monotonic() - begun

    def stop(self, timeout_s: float) -> int:
        """Send SIGTERM to process 1 and return its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self._process.wait(timeout_s)
