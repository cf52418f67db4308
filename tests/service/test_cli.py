"""The command line says what Settings hold, and everything that is wrong is one line without a traceback."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from google.protobuf import text_format
from typer.testing import CliRunner

import service
from protos.model_config_pb2 import ModelConfig
from service import cli
from service.settings import SWITCHES, Settings
from tests.service.option_values import VALUES


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SIGNET_{name.upper()}", raising=False)


def read(*arguments):
    """Return the settings that ``signet serve`` would serve with."""
    seen = []
    app = typer.Typer()
    app.command()(cli._settings_command(seen.append))
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0]


def failure(*arguments, code=1):
    """Return what the program writes when it ends with this exit status, which must be its only line."""
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == code
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith("signet: ")
    return line


def flags(name, text):
    option = f"--{name.replace('_', '-')}"
    return [option] if name in SWITCHES else [option, text]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_an_option_and_sets_no_other(name):
    text, value = VALUES[name]

    assert read(*flags(name, text)) == Settings(**{name: value})


@pytest.mark.parametrize("name", Settings.model_fields)
def test_option_that_is_not_given_leaves_the_environment_in_force(monkeypatch, name):
    text, value = VALUES[name]
    monkeypatch.setenv(f"SIGNET_{name.upper()}", text)

    assert getattr(read(), name) == value


@pytest.mark.parametrize("name", ["grpc_port", "exit_on_error", "grpc_address", "drain_timeout", "model_repository"])
def test_option_wins_over_the_environment(monkeypatch, name):
    monkeypatch.setenv(f"SIGNET_{name.upper()}", VALUES[name][0])
    given = {"exit_on_error": "true", "grpc_port": "0", "drain_timeout": "0.25"}.get(name, "elsewhere")

    settings = read(*flags(name, given))

    assert settings == Settings(**{name: given if isinstance(getattr(settings, name), (int, float)) else [given]})


@pytest.mark.parametrize("value", ["false", "False", "0", "off"])
def test_booleans_are_written_as_in_triton(value):
    assert not read(f"--exit-on-error={value}").exit_on_error
    assert read("--exit-on-error", "true").exit_on_error


def test_repeated_options_keep_their_order_and_commas():
    settings = read("--grpc-address", "b", "--grpc-address", "a,c", "--model", "x=1", "--model", "y=2")

    assert settings.grpc_address == ("b", "a,c")
    assert settings.model == ("x=1", "y=2")


def test_paths_come_before_repositories_and_both_are_served():
    assert read("one", "--model-repository", "three", "two").model_repository == (
        Path("one"),
        Path("two"),
        Path("three"),
    )


def test_path_wins_over_the_repository_of_the_environment(monkeypatch):
    monkeypatch.setenv("SIGNET_MODEL_REPOSITORY", "/models")

    assert read("mine").model_repository == (Path("mine"),)
    assert read().model_repository == (Path("/models"),)


@pytest.mark.parametrize("width", [80, 200])
def test_help_names_every_option_and_variable_in_full(width):
    result = CliRunner().invoke(cli.app, ["serve", "--help"], env={"COLUMNS": str(width)}, terminal_width=width)
    flags = set(re.findall(r"--[a-z0-9-]+", result.output))
    # A name may be wider than its column and go on in the next line.
    text = "".join(result.output.split())

    assert result.exit_code == 0
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in flags
        assert f"[env:SIGNET_{name.upper()}]" in text


def test_help_shows_defaults_as_they_are_written():
    output = " ".join(CliRunner().invoke(cli.app, ["serve", "--help"]).output.split())

    for default in ("127.0.0.1", "8001", "cut", "triton"):
        assert f"[default: {default}]" in output
    assert "Oversize" not in output


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["--grpc-port", "70000"], ["--grpc-port 70000", "65535"]),
        (["--grpc-port", "http"], ["--grpc-port http", "integer"]),
        (["--oversize-requests", "x"], ["--oversize-requests x", "'cut' or 'reject'"]),
        (["--drain-timeout", "nan"], ["--drain-timeout nan"]),
        (["--grpc-port", "-1", "--instance-count", "0"], ["--grpc-port -1", "--instance-count 0"]),
    ],
)
def test_wrong_values_are_told_in_one_line_with_option_and_value(arguments, texts):
    line = failure("serve", *arguments, code=2)

    for text in texts:
        assert text in line


def test_wrong_value_of_the_environment_is_told_under_the_variables_name(monkeypatch):
    monkeypatch.setenv("SIGNET_EXIT_ON_ERROR", "maybe")

    line = failure("serve", "--grpc-port", "x", code=2)

    assert "SIGNET_EXIT_ON_ERROR maybe" in line
    assert "--grpc-port x" in line
    assert "--exit-on-error" not in line


def test_a_service_that_kubernetes_tells_of_does_not_stop_the_server(monkeypatch):
    monkeypatch.setenv("SIGNET_GRPC_PORT", "tcp://10.96.0.7:8001")

    assert read() == Settings()


def test_unknown_option_names_itself_on_one_line():
    result = CliRunner().invoke(cli.app, ["serve", "--grpc-prot", "1"])

    assert result.exit_code == 2
    assert any("--grpc-prot" in line and line.startswith("Error: ") for line in result.stderr.splitlines())


@pytest.mark.parametrize("command", ["serve", "inspect"])
def test_missing_path_is_one_line(tmp_path, command):
    assert f"{tmp_path / 'nothing'}: no such directory" in failure(command, tmp_path / "nothing")


def test_inspect_prints_every_model_and_fails_when_one_cannot_be_served(export, tmp_path):
    (tmp_path / "good").symlink_to(export("module"))
    (tmp_path / "bad/1").mkdir(parents=True)
    tables = CliRunner().invoke(cli.app, ["inspect", str(tmp_path)])
    configs = CliRunner().invoke(cli.app, ["inspect", "--config", str(tmp_path)])

    assert [tables.exit_code, configs.exit_code] == [1, 1]
    assert "model good, version 1" in tables.stdout
    assert text_format.Parse(configs.stdout, ModelConfig()).name == "good"
    for result in (tables, configs):
        (line,) = result.stderr.splitlines()
        assert line.startswith("signet: ")
        assert f"{tmp_path / 'bad/1'}: no SavedModel" in line


def test_inspect_prints_json_for_programs(export):
    result = CliRunner().invoke(cli.app, ["inspect", "--json", str(export("counter"))])
    (version,) = map(json.loads, result.stdout.splitlines())

    assert (version["model"], version["version"], version["unavailable"]) == ("counter", 1, {})
    assert version["signatures"]["read"] == {
        "inputs": [],
        "outputs": [{"name": "count", "datatype": "INT64", "shape": [], "optional": False}],
        "effect": "pure",
        "why_not_batchable": "it takes no inputs",
    }


def test_inspect_succeeds_when_all_can_be_served(export):
    assert CliRunner().invoke(cli.app, ["inspect", "--config", str(export("module"))]).exit_code == 0


def test_nothing_to_serve_is_one_line():
    assert "nothing to serve" in failure("serve")


def test_program_runs_as_a_module_and_does_not_start_tensorflow_to_show_its_help():
    probe = (
        "import atexit, runpy, sys; atexit.register(lambda: print('tensorflow' in sys.modules)); "
        "sys.argv = ['signet', 'serve', '--help']; runpy.run_module('service', run_name='__main__')"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)

    assert run.stdout.startswith("Usage: signet serve")
    assert run.stdout.endswith("False\n")


def test_version_is_the_packages():
    result = CliRunner().invoke(cli.app, ["--version"])

    assert result.output == f"signet {service.__version__}\n"


def test_program_without_a_command_shows_its_help():
    result = CliRunner().invoke(cli.app, [])

    assert {"serve", "inspect"} <= set(result.output.split())


def test_death_in_native_code_leaves_the_place_of_every_thread():
    program = """
import os, signal, sys
from service import cli
sys.argv = ["signet", "--version"]
try:
    cli.main()
except SystemExit:
    os.kill(os.getpid(), signal.SIGSEGV)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert run.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in run.stderr
    assert "most recent call first" in run.stderr
