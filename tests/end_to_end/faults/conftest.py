"""The fault suite: each test notes what was promised and what was seen, and a table at the end tells of all."""

from contextlib import ExitStack

import pytest
from rich.console import Console
from rich.table import Table

from clients.server_process import ServerProcess
from tests.end_to_end.conftest import START_S

_NOTED = pytest.StashKey()
_WIDTH = 160


def pytest_configure(config):
    config.stash[_NOTED] = []


def pytest_terminal_summary(terminalreporter, config):
    noted = config.stash[_NOTED]
    if not noted:
        return
    table = Table("fault", "transport", "promised", "seen", width=_WIDTH, show_lines=True)
    for row in noted:
        table.add_row(*row)
    console = Console(width=_WIDTH, no_color=True)
    with console.capture() as text:
        console.print(table)
    terminalreporter.section("faults")
    terminalreporter.write(text.get())


@pytest.fixture
def note(request):
    """Return a function that notes for the table what was promised and what was seen."""

    def noting(fault, promised, seen):
        transport = request.getfixturevalue("transport") if "transport" in request.fixturenames else "-"
        request.config.stash[_NOTED].append((fault, transport, promised, seen))

    return noting


@pytest.fixture
def start(export, transport):
    """Return a function that starts a server of its own for a test, on the transport whose turn it is."""
    with ExitStack() as stack:

        def started(model, *options):
            server = ServerProcess(export(model), "--transport", transport, *options)
            stack.enter_context(server).wait_until_ready(START_S)
            return server

        yield started
