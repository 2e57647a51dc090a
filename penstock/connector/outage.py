"""What a source waits for, told by the process that plans it to the one that runs the query: a small local file each.

A source is planned in a process of its own, whose log nobody reads.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import BrokerUnavailableError

__all__ = ["Outage", "OutageFile", "current_outage", "outage_file"]

_CLIENTS_REASON = re.compile(r"failed: (?P<reason>[^(]+?)\s*(?:\(|$)")
"""The reason in librdkafka's words: `host:9092/1: Connect to .. failed: Connection refused (after ..)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A system that does not answer: its name, since when (epoch ms), and the reason in a few words."""

    what: str
    since_ms: int
    reason: str

    def __str__(self) -> str:
        return f"{self.what} ({self.reason})" if self.reason else self.what


class OutageFile:
    """Where one source of a running query says what it waits for. Driver side."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, error: BrokerUnavailableError) -> None:
        """Say what does not answer; since when stays what it is while it goes on, over restarts too."""
        before = _read(self._path)
        what, reason = _told(error)
        value = {
            "what": what,
            "reason": reason,
            "since_ms": time.time_ns() // 1_000_000 if before is None else before.since_ms,
        }
        draft = self._path.with_suffix(".new")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(value), encoding="utf-8")
        draft.replace(self._path)

    def clear(self) -> None:
        """Say that everything answers."""
        self._path.unlink(missing_ok=True)


def outage_file(workdir: Path, checkpoint: str, index: int) -> Path:
    """Name the file of the source `index` of the query with a checkpoint; `workdir` is the session's own folder."""
    return workdir / f"{_prefix(checkpoint)}{index}.json"


def current_outage(workdir: Path, checkpoint: str) -> Outage | None:
    """Give what the sources of a query wait for, the longest wait of several; None where all of them go on."""
    found = (_read(path) for path in workdir.glob(f"{_prefix(checkpoint)}*.json"))
    outages = [outage for outage in found if outage is not None]
    return min(outages, key=lambda outage: outage.since_ms, default=None)


def _prefix(checkpoint: str) -> str:
    return f"outage_{hashlib.sha256(checkpoint.encode()).hexdigest()[:16]}_"


def _read(path: Path) -> Outage | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Outage(what=value["what"], since_ms=value["since_ms"], reason=value["reason"])


def _told(error: BrokerUnavailableError) -> tuple[str, str]:
    """Say what does not answer, and why in a few words."""
    what, found, rest = error.message.partition(" did not answer")
    if not found:
        return "the broker", error.message
    reason = rest.partition("last client error: ")[2] or rest.strip()
    short = _CLIENTS_REASON.search(reason)
    return what, short["reason"] if short else reason
