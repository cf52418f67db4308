"""What is released, and that its version stands in one place."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import service

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (path,) = directory.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_wheel_holds_the_packages_and_nothing_else(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}

    assert tops == {"batching", "clients", "protos", "service", f"signet_server-{service.__version__}.dist-info"}
    assert not [name for name in wheel.namelist() if "__pycache__" in name]
    assert "service/status_page/assets/status.js" in wheel.namelist()


def test_wheel_brings_every_command(wheel):
    entries = wheel.read(f"signet_server-{service.__version__}.dist-info/entry_points.txt").decode()

    assert "signet = service.cli:main" in entries
    for name in ("bench", "export-config", "infer", "load", "status", "unload"):
        assert f"\n{name} = clients.command_line." in entries


def test_images_of_the_manifests_have_the_version():
    """It stands in ``service/__init__.py``; manifests cannot read it there."""
    texts = [path.read_text() for path in (ROOT / "deploy").rglob("*.yaml")]
    tags = re.findall(r"image: signet:([\w.]+)", "\n".join(texts))

    assert tags
    assert set(tags) == {service.__version__}


def test_hooks_before_a_commit_run_what_exists():
    (own,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    entries = [hook["entry"].split() for hook in own["hooks"]]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert {entry[1] for entry in entries if entry[0] == "make"} <= targets
    assert [entry for entry in entries if entry[0] == ".venv/bin/pytest" and not (ROOT / entry[-1]).exists()] == []
    assert {entry[0] for entry in entries} == {"make", ".venv/bin/pytest"}
