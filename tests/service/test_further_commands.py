"""Commands of other packages join the program, also when they cannot run."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest
import typer
from typer.testing import CliRunner

from service import cli, further_commands


@pytest.fixture
def commands(monkeypatch):
    """Return a function that puts entry points into force."""

    def put(**values):
        group = further_commands.GROUP
        points = EntryPoints(EntryPoint(name, value, group) for name, value in values.items())
        monkeypatch.setattr(further_commands, "entry_points", points.select)

    return put


def greet(name: str):
    """Say hello."""
    typer.echo(f"hello {name}")


def test_command_of_an_entry_point_runs_and_is_listed(commands):
    commands(greet=f"{__name__}:greet")

    assert CliRunner().invoke(cli.app, ["greet", "you"]).output == "hello you\n"
    assert "Say hello." in CliRunner().invoke(cli.app, ["--help"]).output


def test_command_whose_package_is_missing_is_listed_and_says_what_it_needs(commands):
    commands(measure="package_that_is_not_there.measure:run")
    result = CliRunner().invoke(cli.app, ["measure", "clip", "--json"])

    assert "measure" in CliRunner().invoke(cli.app, ["--help"]).output
    assert result.exit_code == 1
    assert result.stderr == (
        "signet: measure needs the package package_that_is_not_there: pip install 'signet-server[client]'\n"
    )


def test_own_commands_win(commands):
    commands(serve=f"{__name__}:greet")

    assert "PATH" in CliRunner().invoke(cli.app, ["serve", "--help"]).output


def test_unknown_command_is_an_error(commands):
    commands()

    assert CliRunner().invoke(cli.app, ["sevre"]).exit_code == 2
