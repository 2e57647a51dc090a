"""The exit statuses of commands, which shells, systemd and `penstock up` go by; docs/errors.md says them in words."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """How a command ended, where it did not succeed (0)."""

    FAILED = 1
    """A statement failed while it ran."""
    WRONG_INPUT = 2
    """The input was wrong, and nothing was started."""
    ENGINE_GONE = 3
    """Spark's Java process has died."""
    MAY_PASS = 75
    """EX_TEMPFAIL of sysexits.h: the same command may succeed later. Mostly nothing was started; a catalog may also
    have gone away in the midst of the command."""
    INTERRUPTED = 130
    """Stopped by a signal, as shells have it of SIGINT."""
