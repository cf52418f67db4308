"""Core dumps: a crashed process would leave all of its memory on a disk, the weights and what callers sent with it."""

import resource
from typing import Final

_NONE: Final = 1
"""Bytes. Nothing fits into so little, and a kernel that pipes core dumps to a program, for which no other size is a
limit (0 neither), starts none at this one: it takes it for that program's own crash (core(5), fs/coredump.c)."""


def forbid_core_dumps() -> None:
    """Let a crash of this process leave no core dump."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    soft = _NONE if hard == resource.RLIM_INFINITY else min(_NONE, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
