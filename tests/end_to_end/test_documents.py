"""The commands in the texts for people are run, and print what the texts say; ``...`` there stands for anything."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from service import cli
from tests.documents import ROOT, blocks, commands, is_part_of

pytestmark = pytest.mark.end_to_end

TIMEOUT_S = 120
ADDRESS = "127.0.0.1:8001"

OTHERWISE_TESTED = {
    r"make ": "tests/test_documents.py knows the targets, and CI runs them",
    r"\. \.venv/bin/activate": "the tests run in such an environment",
    r"(\.venv/bin/)?signet serve ": "its options are checked here, and the server runs already",
}
MAKES_THE_MODEL = "python -m clients.digits digits"
"""The fixture `digits` has run it."""


@pytest.fixture(scope="module")
def place(digits, tmp_path_factory):
    """A directory with what a reader has: the demo's export, and one of their own."""
    directory = tmp_path_factory.mktemp("reader")
    (directory / "path/to").mkdir(parents=True)
    for export in ("digits", "path/to/export"):
        (directory / export).symlink_to(digits.directory)
    return directory


@pytest.fixture
def run(place, digits_server):
    """Return a function that runs a program as the reader would, and returns what it prints."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SIGNET_URL": digits_server.address,
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }

    def runner(*arguments):
        metrics = f"signet status --metrics-url http://{digits_server.http_address}/metrics"
        replaced = [
            argument.replace(ADDRESS, digits_server.address).replace("signet status", metrics) for argument in arguments
        ]
        done = subprocess.run(
            replaced, cwd=place, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return runner


def is_alike(line, text, printed):
    """Return whether a program printed what the text shows; the ends of lines may be padded."""
    if re.match(r"signet (bench|status)", line):
        return is_part_of(text, printed)
    return doctest.OutputChecker().check_output(text, printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def check_serve_options(line):
    """Fail if ``signet serve`` would refuse its options."""
    arguments = cli._in_our_options(shlex.split(line.removesuffix(" &"), comments=True)[1:])[1:]
    app = typer.Typer()
    app.command()(cli._settings_command(lambda settings: None))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("block", blocks("console"), ids=str)
def test_console_block_prints_what_it_shows(run, block, digits):
    assert commands(block)
    for command in commands(block):
        if re.match(r"(\.venv/bin/)?signet serve ", command.line):
            check_serve_options(command.line)
        elif not re.match("|".join(OTHERWISE_TESTED), command.line):
            if command.line == MAKES_THE_MODEL:
                printed = digits.printed.replace(str(digits.directory), "digits")
            else:
                printed = run("bash", "-ec", command.line)
            assert not command.printed or is_alike(command.line, command.printed, printed), (
                f"{command.line} printed\n{printed}"
            )


def test_program_of_the_quick_start_prints_what_the_text_says(run):
    (program,) = [block for block in blocks("python") if block.file.name == "quick-start.md"]

    assert f"`{run(sys.executable, '-c', program.text).strip()}`" in program.file.read_text()


def test_program_of_the_readme_gets_its_answer(run):
    (program,) = [block for block in blocks("python") if block.file.name == "README.md"]

    assert run(sys.executable, "-c", f"{program.text}\nprint(result.as_numpy('embedding').shape)") == "(1, 32)\n"
