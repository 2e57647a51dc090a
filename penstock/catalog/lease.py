"""Leases: one runner at a time has a pipeline. Who holds one, and when a holder counts as gone.

A lease lapses when its owner's process is dead (seen on the same machine) or has not renewed it in time by the
clock of the store. `token` grows with every owner, so that a late one can be told from the present one.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LEASE_TIMEOUT_S", "RENEW_INTERVAL_S", "Lease", "Owner", "is_gone", "this_process"]

LEASE_TIMEOUT_S = 30.0
RENEW_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process: host, process id, and what tells it from an earlier one of the same id.

    `boot_id` changes when the machine starts anew, `started` when the id is used again; both are empty where
    the system does not tell.
    """

    host: str
    pid: int
    boot_id: str
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A pipeline in the hands of an owner."""

    pipeline: str
    owner: Owner
    token: int


def this_process() -> Owner:
    """Describe the running process as an owner."""
    pid = os.getpid()
    return Owner(
        host=socket.gethostname(), pid=pid, boot_id=_boot_id(), started=_started(pid) or ""
    )


def is_gone(owner: Owner) -> bool:
    """Tell whether an owner's process is certainly dead; False where that cannot be seen from here."""
    if owner.host != socket.gethostname():
        return False
    if owner.boot_id != _boot_id():
        return True
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    started = _started(owner.pid)
    return bool(owner.started) and started is not None and started != owner.started


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Give the start time of a process in clock ticks since boot (field 22 of /proc/<pid>/stat)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    # a zombie has ended: its parent only has not looked yet
    return "ended" if fields[0] == "Z" else fields[19]
