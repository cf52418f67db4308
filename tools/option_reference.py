"""The page of all options, made from the command line itself whenever the documentation is built.

A hook of mkdocs (mkdocs.yml): the page is in no file, so that it cannot be out of date.
"""

import re
from typing import Final

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from service import cli

PAGE: Final = "options.md"

_INTRODUCTION: Final = """# Options of `signet serve`

Each option is also an environment variable: `--grpc-port 9001` is `SIGNET_GRPC_PORT=9001`, and what is repeated is
separated by commas there. An option wins over its variable. Names and units are Triton's where Triton has the option.

| option | value | default | meaning |
| --- | --- | --- | --- |
"""
_NOTE: Final = re.compile(r" \[(env|default): ([^\]]*)\]")


def page() -> str:
    """Return the page, with a line for every option that `signet serve --help` shows."""
    return _INTRODUCTION + "".join(_line(option) for option in options("serve") if option.help)


def options(command: str) -> list[typer.core.TyperOption]:
    """Return the options of a command of the program."""
    program = typer.main.get_group(cli.app)
    found = program.commands[command]
    return [option for option in found.params if isinstance(option, typer.core.TyperOption)]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to those of the documentation; mkdocs calls this by its name."""
    files.append(File.generated(config, PAGE, content=page()))
    return files


def _line(option: typer.core.TyperOption) -> str:
    notes = {match[1]: match[2] for match in _NOTE.finditer(option.help or "")}
    value = "" if option.is_flag else f"`{option.metavar}`".replace("|", "\\|")
    default = f"`{notes['default']}`" if "default" in notes else ""
    return f"| `{option.opts[0]}` | {value} | {default} | {_NOTE.sub('', option.help or '')} |\n"
