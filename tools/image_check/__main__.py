"""Builds deploy/Dockerfile without a container engine and tries what it promises: ``python -m tools.image_check``.

Every RUN and COPY is carried out in root directories made by debootstrap, then the result is started as process 1 of a
PID name space, as an unprivileged user, on a read-only root. Takes minutes; needs Linux, root, debootstrap and the
package registries that ``docker build`` would need.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests import models
from tools.image_check.build import Builder, Image
from tools.image_check.container import Container

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_START_S: Final = 120
_STOP_S: Final = 40
_COMPILERS: Final = ("cc", "gcc", "g++", "c++", "clang", "ld", "as", "make", "cmake", "rustc")

_CALL: Final = """
import numpy as np, tritonclient.grpc as triton
client = triton.InferenceServerClient("127.0.0.1:8001")
tensor = triton.InferInput("x", [1, 4], "FP32")
tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
print(client.infer("kit", [tensor], parameters={"signature": "embed"}).as_numpy("z").shape)
"""


def main() -> int:
    """Build, try, print what was found; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.image_check", description=__doc__)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu", help="which image to build")
    parser.add_argument("--directory", type=Path, help="where to build; kept, with Debian's files for the next time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        dockerfile = _REPOSITORY / "deploy" / "Dockerfile"
        image = Builder(_REPOSITORY, dockerfile, {"DEVICE": options.device}, directory).build()
        print(f"the last stage takes {image.root.mib()} MiB")
        model = models.export("kit", Path(temporary))
        failed = [check.__doc__ for check in _CHECKS if not check(image)]
        failed += _try_container(image, model)
    for text in failed:
        print(f"FAILED: {text}", file=sys.stderr)
    return 1 if failed else 0


def _has_no_compiler(image: Image) -> bool:
    """The last stage holds no compiler."""
    found = [
        file.name
        for directory in image.root.variables["PATH"].split(":")
        for file in (image.root.path / directory.lstrip("/")).glob("*")
        if file.name.split("-")[-1] in _COMPILERS
    ]
    print(f"compilers: {', '.join(found) or 'none'}")
    return not found


def _is_owned_by_root(image: Image) -> bool:
    """The server's user can change none of the server's files."""
    opened = [
        path
        for folder, _, files in os.walk(image.root.path / "opt/signet")
        for path in (os.path.join(folder, name) for name in files)  # noqa: PTH118 - 20,000 files
        if not os.path.islink(path) and ((found := os.stat(path)).st_uid or found.st_mode & 0o022)  # noqa: PTH114, PTH116
    ]
    print(f"files that others than root may change: {len(opened)}")
    return not opened


_CHECKS: Final[tuple[Callable[[Image], bool], ...]] = (_has_no_compiler, _is_owned_by_root)


def _try_container(image: Image, model: Path) -> list[str]:
    """Start the image's command, call it, stop it; return what went wrong."""
    failed = []
    with Container(image, model) as container:
        print(f"healthy after {container.wait_until_healthy(_START_S):.1f} s")
        called = container.run_outside([sys.executable, "-c", _CALL])
        print(f"a signature's answer has the shape {called.stdout.strip()}{called.stderr}")
        if called.returncode:
            failed.append("A stock client gets an answer.")
        code = container.stop(_STOP_S)
        print(f"SIGTERM to process 1: exit code {code}")
        if code:
            failed.append("SIGTERM ends process 1 with code 0.")
    return failed


if __name__ == "__main__":
    sys.exit(main())
