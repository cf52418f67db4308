"""How many files and connections the process may have open."""

import contextlib
import resource


def raise_open_files_limit() -> None:
    """Take all that the hard limit allows: the soft one is often 1,024, for programs that use ``select``.

    A server that has no descriptor left for a new connection leaves it unanswered.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems have a further limit, which they do not tell here
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
