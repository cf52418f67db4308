"""What a check finds, and the table of all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table
from tritonclient.utils import InferenceServerException

from clients.gpu_check.subject import Subject
from clients.server_process import ServerProcessError


@dataclass(frozen=True)
class Finding:
    """What was seen.

    Attributes:
        seen: in words; without a verdict, why it was not checked.
        ok: whether it is as promised; None where it was not checked.
    """

    seen: str
    ok: bool | None


NO_GPU = Finding("not checked: no GPU", None)


@dataclass(frozen=True)
class Check:
    """A promise and how it is looked at.

    Attributes:
        name: of the check.
        promised: what documentation says.
        look: finds out; what it raises is a finding, too.
    """

    name: str
    promised: str
    look: Callable[[Subject], Finding]


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    check: Check
    finding: Finding


def carry_out(check: Check, subject: Subject) -> Row:
    """Look, and take a server that refuses or ends for a promise that is not kept."""
    try:
        return Row(check, check.look(subject))
    except (InferenceServerException, ServerProcessError, OSError) as error:
        return Row(check, Finding(f"failed: {error}", ok=False))


def to_table(title: str, rows: Sequence[Row]) -> Table:
    """Return the rows for the terminal."""
    table = Table(title=title, show_lines=True)
    for heading in ("check", "promised", "seen"):
        table.add_column(heading, overflow="fold")
    table.add_column("ok", no_wrap=True)
    for row in rows:
        verdict = {True: "yes", False: "NO", None: "-"}[row.finding.ok]
        table.add_row(row.check.name, row.check.promised, row.finding.seen, verdict)
    return table
