"""Generates the stubs in ``protos/`` from the ``.proto`` files there.

Run without arguments it writes them; with ``--check`` it changes nothing and fails, showing the difference, when the
stubs are not what it would write.
"""

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

PROTOS: Final = Path(__file__).resolve().parent.parent / "protos"

_SIBLING_IMPORT: Final = re.compile(r"^import (\w+_pb2) as ", re.MULTILINE)

_PRIVATE_POOL: Final = (
    ("from google.protobuf import descriptor_pool as _descriptor_pool\n", "from .pool import POOL as _POOL\n"),
    ("_descriptor_pool.Default().AddSerializedFile(", "_POOL.AddSerializedFile("),
    (
        "_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, '",
        "_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, 'protos.",
    ),
)
"""What protoc writes once into each module of messages, and what stands there instead."""


def generate(protos: Path) -> dict[str, str]:
    """Return the text of every stub, by file name.

    Args:
        protos: the directory that holds the ``.proto`` files.

    Raises:
        RuntimeError: protoc failed, or it writes something else than this tool knows how to rewrite.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for path in sorted(protos.glob("*.proto")):
            _run_protoc(path, scratch)
        return {path.name: _rewrite(path.name, path.read_text()) for path in sorted(Path(scratch).iterdir())}


def _run_protoc(path: Path, out: str) -> None:
    outputs = [f"--python_out={out}", f"--pyi_out={out}"]
    if re.search(r"^service ", path.read_text(), re.MULTILINE):
        outputs.append(f"--grpc_python_out={out}")
    # A process of its own: protoc and TensorFlow bring clashing copies of one library, and the tests use both.
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{path.parent}", *outputs, str(path)]
    if subprocess.run(command, check=False).returncode != 0:  # noqa: S603 - our own arguments
        raise RuntimeError(f"protoc failed on {path}")


def _rewrite(name: str, text: str) -> str:
    """Make the imports relative to the package and put the descriptors into its own pool."""
    text = _SIBLING_IMPORT.sub(r"from . import \1 as ", text)
    if name.endswith("_pb2.py"):
        for generated, ours in _PRIVATE_POOL:
            if text.count(generated) != 1:
                raise RuntimeError(f"{name}: expected {generated!r} once; this protoc writes its stubs in another way")
            text = text.replace(generated, ours)
    return text


def _stubs(protos: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in protos.glob("*_pb2*.py*")}


def write(protos: Path) -> None:
    """Bring the stubs up to date and remove those whose ``.proto`` is gone."""
    fresh = generate(protos)
    for name in _stubs(protos).keys() - fresh.keys():
        (protos / name).unlink()
    for name, text in fresh.items():
        (protos / name).write_text(text)


def difference(protos: Path) -> str:
    """Return a unified diff from the stubs there to what would be written; empty when they agree."""
    present, fresh = _stubs(protos), generate(protos)
    return "".join(
        line
        for name in sorted(present.keys() | fresh.keys())
        for line in difflib.unified_diff(
            present.get(name, "").splitlines(keepends=True),
            fresh.get(name, "").splitlines(keepends=True),
            f"protos/{name}",
            f"protos/{name} (generated)",
        )
    )


def main() -> int:
    """Run the program and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when the stubs are out of date")
    if not parser.parse_args().check:
        write(PROTOS)
        return 0
    if diff := difference(PROTOS):
        sys.stdout.write(diff)
        sys.stderr.write("The stubs in protos/ are out of date; run `make proto`.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
