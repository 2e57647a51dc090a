"""The last failures of a query, kept in its checkpoint for people: when it failed, by which code, and of what.

No start reads them. The runner adds to them when its query fails (`sql/jobs/supervisor.py`); the status page shows
them, also of a pipeline that is over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from penstock.catalog.errors import StateMismatchError
from penstock.catalog.masking import without_secrets
from penstock.connector.source.state import MAX_WATERMARK_MS
from penstock.sql.checkpoint.reader import CheckpointFiles

FAILURES_FILE = "penstock-failures.json"

VERSION = 1

MOST_FAILURES = 20
"""Failures that are kept, the newest: as many as two rounds of restarts make by default."""

LONGEST_MESSAGE = 2_000
"""Characters of a message that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """A failure: its time (epoch ms), the code of its error, None where it has none, and its message."""

    at_ms: int
    code: str | None
    message: str


def failure_record(at_ms: int, code: str | None, text: str) -> FailureRecord:
    """Describe a failure by a text, which is masked before it is cut: a part of a secret would not be known as one."""
    return FailureRecord(at_ms=at_ms, code=code, message=without_secrets(text)[:LONGEST_MESSAGE])


def last_failures(*failures: Iterable[FailureRecord]) -> tuple[FailureRecord, ...]:
    """Put failures together in the order of their times, each once; the newest are kept."""
    found = dict.fromkeys(each for some in failures for each in some)
    return tuple(sorted(found, key=lambda each: each.at_ms))[-MOST_FAILURES:]


def failures_text(failures: Iterable[FailureRecord]) -> str:
    """Write failures as JSON."""
    return json.dumps({"version": VERSION, "failures": [asdict(each) for each in failures]})


def read_failures(files: CheckpointFiles) -> tuple[FailureRecord, ...]:
    """Read the failures of a checkpoint; none where the file is none that is read here: nothing hangs on it."""
    try:
        return stored_failures(files)
    except StateMismatchError:
        return ()


def stored_failures(files: CheckpointFiles) -> tuple[FailureRecord, ...]:
    """Read the failures of a checkpoint as `read_failures`. Raises StateMismatchError if a file cannot be read."""
    text = files.text(FAILURES_FILE)
    try:
        value = json.loads(text or "{}")
        if value.get("version") != VERSION:
            return ()
        return last_failures(_checked(**each) for each in value["failures"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def _checked(at_ms: object, code: object, message: object) -> FailureRecord:
    """Return a failure as it was written. Raises TypeError for values that none has."""
    if (
        not isinstance(at_ms, int)
        or not 0 <= at_ms < MAX_WATERMARK_MS
        or not isinstance(code, str | None)
        or not isinstance(message, str)
    ):
        raise TypeError(FAILURES_FILE)
    return FailureRecord(at_ms=at_ms, code=code, message=message[:LONGEST_MESSAGE])
