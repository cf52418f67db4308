"""The page of all options, made from the command line itself whenever the documentation is built.

A hook of mkdocs (mkdocs.yml): the page is in no file, so that it cannot be out of date.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from service import cli

PAGE: Final = "options.md"

_INTRODUCTION: Final = """# Options

Each option of `signet serve` is also an environment variable: `--grpc-port 9001` is `SIGNET_GRPC_PORT=9001`, and what
is repeated is separated by commas there. An option wins over its variable. Names and units are Triton's where it has
the option. Of the other commands, `--url` is also `SIGNET_URL`.
"""
_HEADING: Final = """
## signet {name}

{text}

| option | value | default | meaning |
| --- | --- | --- | --- |
"""
_NOTE: Final = re.compile(r" \[(env|default): ([^\]]*)\]")


def page() -> str:
    """Return the page, with a table for every command and in it a line for every option that its help shows."""
    return _INTRODUCTION + "".join(_section(name, command) for name, command in _commands())


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to those of the documentation; mkdocs calls this by its name."""
    files.append(File.generated(config, PAGE, content=page()))
    return files


def _commands() -> Iterator[tuple[str, Any]]:
    program = typer.main.get_group(cli.app)
    context = typer.Context(program)
    for name in program.list_commands(context):
        yield name, program.get_command(context, name)


def _section(name: str, command: Any) -> str:
    options = [option for option in command.params if isinstance(option, typer.core.TyperOption) and option.help]
    return _HEADING.format(name=name, text=" ".join(command.help.split())) + "".join(map(_line, options))


def _line(option: typer.core.TyperOption) -> str:
    notes = {match[1]: match[2] for match in _NOTE.finditer(option.help or "")}
    value = "" if option.is_flag else f"`{option.metavar or 'NUMBER'}`".replace("|", "\\|")
    shown = notes.get("default") or _default(option)
    names = ", ".join(f"`{name}`" for name in option.opts)
    meaning = _NOTE.sub("", option.help or "").replace("|", "\\|")
    return f"| {names} | {value} | {f'`{shown}`' if shown else ''} | {meaning} |\n"


def _default(option: typer.core.TyperOption) -> str:
    return "" if option.is_flag or option.default in (None, []) else str(option.default)
