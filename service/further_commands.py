"""Commands that other packages bring to the program, as entry points of the group ``signet.commands``."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer
from typer.core import TyperGroup

GROUP: Final = "signet.commands"


class OpenGroup(TyperGroup):
    """The program's own commands and those of the entry points, which are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the program's own commands first, then the others in the order of their names."""
        return [*super().list_commands(ctx), *sorted(entry_points(group=GROUP).names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None when there is none of this name."""
        own = super().get_command(ctx, cmd_name)
        found = entry_points(group=GROUP, name=cmd_name)
        return own if own is not None or not found else _to_command(next(iter(found)))


def _to_command(entry: EntryPoint) -> Any:
    """Import a command; one whose packages are not installed stays listed and says what it needs."""
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    try:
        single.command(entry.name)(entry.load())
    except ModuleNotFoundError as error:
        any_arguments = {"ignore_unknown_options": True, "allow_extra_args": True}
        single.command(entry.name, context_settings=any_arguments)(_unavailable(entry.name, error.name))
    return typer.main.get_command(single)


def _unavailable(name: str, package: str | None) -> Callable[[], None]:
    def run() -> None:
        typer.echo(f"signet: {name} needs the package {package}: pip install 'signet-server[client]'", err=True)
        raise typer.Exit(1)

    run.__doc__ = f"Needs the package {package}, which is not installed."
    return run
