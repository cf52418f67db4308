"""The command line: ``signet serve`` and ``signet inspect``; ``further_commands`` brings the others."""

import faulthandler
import inspect
import json
import os
import sys
from collections.abc import Callable, Container
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import uvloop
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from rich.console import Console

import service
from service import environment, inspection, logs, tensorflow_serving_flags
from service.core_dumps import forbid_core_dumps
from service.errors import LoadError
from service.further_commands import OpenGroup
from service.glibc import limit_arenas
from service.inspection import InspectedVersion
from service.logs import LogOptions
from service.open_files import raise_open_files_limit
from service.server import Server
from service.settings import SWITCHES, Settings
from service.threads import default_threads

app = typer.Typer(
    cls=OpenGroup,
    help="Serves every signature of a TensorFlow SavedModel over the KServe v2 (Triton) gRPC protocol.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # it would cut the names of options short, and take [env: ...] for a style
)


FAILED: Final = 1
"""The exit status when the server cannot start, or not end as it should."""

MISUSED: Final = 2
"""The exit status when the command line or the environment has a wrong option or value; also that of click."""


class _Failure(typer.Exit):
    """Ends the program with one line on standard error."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        typer.echo(f"signet: {text}", err=True)
        super().__init__(code)


def _serve(settings: Settings) -> None:
    logs.configure(settings.log_options())
    if not settings.allow_core_dumps:
        forbid_core_dumps()
    raise_open_files_limit()
    limit_arenas(default_threads())
    try:
        uvloop.run(_run(settings))
    except (LoadError, OSError) as error:
        raise _Failure(str(error)) from None


async def _run(settings: Settings) -> None:
    await Server(settings).run()


def _settings_command(run: Callable[[Settings], None]) -> Callable[..., None]:
    """Make a command whose options are the fields of Settings; a given option wins over its environment variable."""

    def command(paths: list[Path] | None, **options: Any) -> None:
        given = {name: value for name, value in options.items() if value not in (None, [])}
        if paths:
            given["model_repository"] = [*paths, *given.get("model_repository", ())]
        for warning in environment.clean(os.environ, Settings.model_fields):
            typer.echo(f"signet: {warning}", err=True)
        try:
            settings = Settings(**given)
        except ValidationError as error:
            raise _Failure(_one_line(error, given), MISUSED) from None
        run(settings)

    parameters = [
        inspect.Parameter(
            "paths",
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=Annotated[
                list[Path] | None, typer.Argument(metavar="PATH", help="Models or directories of models.")
            ],
            default=None,
        ),
        *(_option(name, field) for name, field in Settings.model_fields.items()),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    """Make the command-line option of a setting; without a value, so that the environment and defaults apply.

    Values stay texts: Settings checks them, so that a wrong one is told of in the same way wherever it comes from.
    """
    value_type: Any = list[str] if isinstance(field.default, tuple) else str
    if name in SWITCHES:
        value_type = bool
    default = _default_text(field.default)
    option = typer.Option(
        _flag(name),
        help=f"{field.description} [env: {_variable(name)}]{default and f' [default: {default}]'}",
        metavar=None if name in SWITCHES else _metavar(field.annotation),
        show_default=False,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[value_type | None, option]
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _variable(name: str) -> str:
    return f"{environment.PREFIX}{name.upper()}"


def _metavar(value_type: object) -> str:
    """Return what the help shows in place of a value."""
    if value_type is bool:
        return "true|false"
    if isinstance(value_type, type) and issubclass(value_type, Enum):
        return "|".join(member.value for member in value_type)
    return "NUMBER" if value_type in (int, float) else "TEXT"


def _default_text(default: object) -> str:
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    if isinstance(default, Enum):
        return str(default.value)
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None else str(default)


def _one_line(error: ValidationError, given: Container[str]) -> str:
    """Say what is wrong with each value, under the name by which it was given."""
    faults = []
    for fault in error.errors():
        name = str(fault["loc"][0])
        where = _flag(name) if name in given else _variable(name)
        faults.append(f"{where} {fault['input']}: {fault['msg']}")
    return "; ".join(faults)


app.command("serve", help="Serve the models at the given paths until SIGTERM.")(_settings_command(_serve))


@app.command("inspect")
def inspect_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A SavedModel or a directory of models, in any layout.")],
    *,
    config: Annotated[
        bool, typer.Option("--config", help="Print each model's completed configuration as a config.pbtxt instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each version instead.")] = False,
) -> None:
    """Print the signatures of every model at PATH, and whether each can be batched."""
    logs.configure(LogOptions(info=False))
    console = Console(width=None if sys.stdout.isatty() else 160)

    def show(found: InspectedVersion) -> None:
        if as_json:
            typer.echo(json.dumps(found.as_object()))
        elif not config:
            console.print(found.table())
        elif found.is_latest:
            typer.echo(f"# model {found.model}, completed from version {found.version}\n{found.completed_config()}")

    try:
        problems = inspection.inspect(path, show)
    except LoadError as error:
        problems = [str(error)]
    if problems:
        raise _Failure("\nsignet: ".join(problems))


@app.callback(invoke_without_command=True)
def options(*, version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Serve every signature of a TensorFlow SavedModel over the KServe v2 (Triton) gRPC protocol."""
    if version:
        typer.echo(f"signet {service.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the program."""
    faulthandler.enable()  # what kills the process in native code leaves the places where the threads were
    app(_in_our_options(sys.argv[1:]), prog_name="signet")


def _in_our_options(arguments: list[str]) -> list[str]:
    """Translate the flags of TensorFlow Serving, which ``signet serve`` understands, too."""
    if arguments[:1] != ["serve"]:
        return arguments
    try:
        translated, warnings = tensorflow_serving_flags.translate(arguments[1:])
    except LoadError as error:
        sys.exit(f"signet: {error}")
    for warning in warnings:
        typer.echo(f"signet: {warning}", err=True)
    return ["serve", *translated]
