"""Retry while a broker is unavailable during planning, and report what the source waits for to the query's
process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from penstock.catalog.errors import BrokerUnavailableError
from penstock.connector.commits import OffsetCommits, OffsetCommitsFile

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
        """Record what does not answer; the start time stays as it is for the length of the outage,
        over restarts too.
        """
        self._write(*_describe(error))

    def note_silence(self, what: str) -> None:
        """Record that no answer has come yet, unless it is known what does not answer."""
        if _read(self._path) is None:
            self._write(what, "no answer yet")

    def _write(self, what: str, reason: str) -> None:
        before = _read(self._path)
        value = {
            "what": what,
            "reason": reason,
            "since_ms": time.time_ns() // 1_000_000 if before is None else before.since_ms,
        }
        temporary = self._path.with_suffix(".new")
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(value), encoding="utf-8")
        temporary.replace(self._path)

    def clear(self) -> None:
        """Record that everything answers."""
        self._path.unlink(missing_ok=True)


def outage_file(workdir: Path, checkpoint: str, index: int) -> Path:
    """Name the file of the source `index` of the query with a checkpoint; `workdir` is the session's own folder."""
    return workdir / f"{_prefix(checkpoint)}{index}.json"


def current_commits(workdir: Path, checkpoint: str, sources: int) -> Mapping[int, OffsetCommits]:
    """Return how the offset commits of a query's sources ended, by the number of the source; others are absent."""
    files = (OffsetCommitsFile(outage_file(workdir, checkpoint, n)) for n in range(sources))
    return {n: found for n, file in enumerate(files) if (found := file.read()) is not None}


def current_outage(workdir: Path, checkpoint: str) -> Outage | None:
    """Return what the sources of a query wait for, the longest wait of several; None where none waits."""
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


def _describe(error: BrokerUnavailableError) -> tuple[str, str]:
    """Describe what does not answer, and why in a few words."""
    what, found, rest = error.message.partition(" did not answer")
    if not found:
        return "the broker", error.message
    reason = rest.partition("last client error: ")[2] or rest.strip()
    short = _CLIENTS_REASON.search(reason)
    return what, short["reason"] if short else reason


T = TypeVar("T")

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to try, and the pauses between attempts, which double up to the longest. In seconds.

    An attempt that takes longer than `silence_s` is reported while it runs: clients give up after half a minute.
    """

    total_s: float = 120.0
    silence_s: float = 2.5
    first_pause_s: float = 0.5
    longest_pause_s: float = 5.0


def retry_while_unavailable(
    action: Callable[[], T],
    *,
    what: str,
    patience: RetryPolicy,
    outage_file: OutageFile | None = None,
    asked: str = "the source",
) -> T:
    """Run `action`, again while the broker does not answer; `what` names it in the log. Blocks.

    `outage_file` is where the process that runs the query sees the outage meanwhile, and still after the last attempt;
    `asked` is what stands there before it is known what does not answer.
    Raises the last BrokerUnavailableError once the outage is longer than the policy allows.
    """
    began_s: float | None = None
    pause_s = patience.first_pause_s
    while True:
        try:
            with _silence_noted(outage_file if patience.total_s else None, asked, patience):
                done = action()
        except BrokerUnavailableError as error:
            if outage_file is not None:
                outage_file.note(error)
            now_s = time.monotonic()
            if now_s - (began_s or now_s) + pause_s > patience.total_s:
                raise
            if began_s is None:
                began_s = now_s
                LOG.warning("%s: %s; trying for %.0f s", what, error.message, patience.total_s)
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, patience.longest_pause_s)
            continue
        if began_s is not None:
            LOG.warning("%s continues after %.0f s", what, time.monotonic() - began_s)
        if outage_file is not None:
            outage_file.clear()
        return done


@contextmanager
def _silence_noted(file: OutageFile | None, asked: str, patience: RetryPolicy) -> Iterator[None]:
    """Record in `file` that `asked` has not answered, once the block takes that long."""
    if file is None:
        yield
        return
    timer = threading.Timer(patience.silence_s, file.note_silence, [asked])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # so that it writes nothing behind what the caller writes
