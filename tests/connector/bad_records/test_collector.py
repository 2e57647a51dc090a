"""What a task leaves of bad records: a file for each range, the same one again however often the range is read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from penstock.catalog.errors import BadRecordError, ConfigError, SinkError
from penstock.connector.bad_records import collector
from penstock.connector.bad_records.collector import BadRecordCollector
from penstock.connector.bad_records.files import MARK, parse_name, range_file
from penstock.connector.bad_records.limits import Tally
from penstock.connector.options.bad_records import BadRecordPolicy, BadRecordSettings
from penstock.connector.source.records import BadRecord, RawRecord, RecordsWithSplitIds, Stage
from penstock.connector.source.split import Split
from penstock.connector.storage import open_folder

SPLIT = Split(split_id="_orders-0", start=10, stop=20)
KEEPS = BadRecordSettings(policy=BadRecordPolicy.DEAD_LETTER)
SKIPS = BadRecordSettings(policy=BadRecordPolicy.SKIP)


def bad(offset: int, value: bytes = b"rubbish") -> BadRecord:
    """A bad record of the split."""
    record = RawRecord(
        position=offset,
        key=b"\xff",
        value=value,
        where=f"offset {offset}",
        topic="_orders",
        partition=0,
        timestamp_ms=1_700_000_000_123,
        headers=(("h", b"1"), ("h", None)),
    )
    return BadRecord(record=record, stage=Stage.VALUE, error="it is not valid JSON")


def fetch(
    records: Sequence[BadRecord], *, read: int, split: Split = SPLIT, finished: bool = True
) -> RecordsWithSplitIds:
    """A fetch with bad records."""
    return RecordsWithSplitIds(
        finished=frozenset({split.split_id} if finished else ()),
        read={split.split_id: read},
        bad={split.split_id: records},
        skipped=len(records),
    )


def guard(
    staging: Path | None, settings: BadRecordSettings = KEEPS, *, split: Split = SPLIT
) -> BadRecordCollector:
    """The guard of a task of batch 7."""
    return BadRecordCollector(
        settings,
        "c.d.orders",
        [split],
        batch_positions=None,
        staging=None if staging is None else str(staging),
        batch_id=None if staging is None else 7,
    )


def run(
    staging: Path | None,
    fetches: Sequence[RecordsWithSplitIds],
    settings: BadRecordSettings = KEEPS,
    *,
    split: Split = SPLIT,
) -> None:
    """Run a task to its end."""
    with closing(guard(staging, settings, split=split)) as task:
        for records in fetches:
            task.take(records)
            task.finish(records.finished)


def left(staging: Path) -> dict[str, list[dict[str, Any]]]:
    """What is in the batch's folder: letters by file name."""
    return {
        path.name: parquet.read_table(path).to_pylist() if path.stat().st_size else []
        for path in sorted((staging / "7").iterdir())
    }


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    """A folder that the driver has made."""
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / MARK).touch()
    return tmp_path / "0"


def test_a_letter_is_the_record_byte_by_byte_and_what_is_known_of_it(staging: Path) -> None:
    """The file's name has the range and the counts; no reader of Spark takes it for hidden."""
    run(staging, [fetch([bad(12)], read=3, finished=False), fetch([bad(15)], read=4)])

    ((name, (first, second)),) = left(staging).items()
    assert name == "range-_orders-0.10-20.7-2.parquet"
    assert (first["offset"], second["offset"]) == (12, 15)
    assert (first["table"], first["topic"], first["partition"]) == ("c.d.orders", "_orders", 0)
    assert (first["key"], first["value"]) == (b"\xff", b"rubbish")
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert first["timestamp"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert (first["stage"], first["error"]) == ("value", "it is not valid JSON")
    assert (first["path"], first["position"]) == (None, None)


def test_a_range_that_is_read_again_gives_the_same_file(staging: Path) -> None:
    """A replayed batch, or a sink that asks twice."""
    for _ in range(2):
        run(staging, [fetch([bad(12)], read=7)])

    assert {name: len(rows) for name, rows in left(staging).items()} == {
        "range-_orders-0.10-20.7-1.parquet": 1
    }


def test_what_an_earlier_definition_found_bad_does_not_stay(staging: Path) -> None:
    """A batch that failed and is read again under a mended table, in ranges cut elsewhere."""
    run(staging, [fetch([bad(12), bad(17)], read=10)])
    for half in (
        Split(split_id="_orders-0", start=10, stop=15),
        Split(split_id="_orders-0", start=15, stop=20),
    ):
        run(staging, [fetch([], read=5, split=half)], split=half)

    assert left(staging) == {
        "range-_orders-0.10-15.5-0.tally": [],
        "range-_orders-0.15-20.5-0.tally": [],
    }


def test_records_that_are_skipped_are_counted_and_not_kept(staging: Path) -> None:
    """For the limits of the batch."""
    run(staging, [fetch([bad(12)], read=7)], SKIPS)

    assert left(staging) == {"range-_orders-0.10-20.7-1.tally": []}


def test_a_range_that_was_not_read_to_its_end_leaves_nothing(staging: Path) -> None:
    """It is read again."""
    run(staging, [fetch([bad(12)], read=7, finished=False)])

    assert left(staging) == {}


def test_large_records_are_written_in_groups(
    staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a task holds few of them twice; none is lost at a border."""
    monkeypatch.setattr(collector, "GROUP_BYTES", 20)
    run(staging, [fetch([bad(n, b"x" * n) for n in range(10, 18)], read=8)])

    ((_, rows),) = left(staging).items()
    (path,) = (staging / "7").iterdir()
    assert [len(row["value"]) for row in rows] == list(range(10, 18))
    assert parquet.ParquetFile(path).num_row_groups > 3


def test_too_many_stop_the_task() -> None:
    """Before its range is at its end; also where nothing is kept, as in a SELECT."""
    few = BadRecordSettings(policy=BadRecordPolicy.SKIP, max_rows=1)
    with pytest.raises(BadRecordError, match="2 of 2"):
        run(None, [fetch([bad(12), bad(13)], read=2, finished=False)], few)


def test_records_without_a_value_are_within_the_limit_of_no_bad_record() -> None:
    """They are among those skipped, which are counted, and not among the bad ones, the first of which stops the task."""
    none = BadRecordSettings(policy=BadRecordPolicy.SKIP, max_rows=0)
    run(None, [replace(fetch([], read=5), skipped=5)], none)
    with pytest.raises(BadRecordError, match="1 of 6"):
        run(None, [replace(fetch([bad(12)], read=6), skipped=6)], none)


def test_a_task_that_does_not_see_the_drivers_folder_says_so(tmp_path: Path) -> None:
    """Letters on a worker's own disk would be lost without a word."""
    with pytest.raises(SinkError, match="does not see"):
        run(tmp_path / "0", [fetch([bad(12)], read=7)])


def test_a_folder_that_cannot_be_written_fails_the_task(staging: Path) -> None:
    """With what to do; a letter that is lost would be a record that is lost."""
    (staging / "7").touch()
    with pytest.raises(SinkError, match="cannot be written") as caught:
        run(staging, [fetch([bad(12)], read=7)])

    assert caught.value.hint is not None


def test_a_file_system_that_tasks_do_not_know_is_refused() -> None:
    """With those that they know."""
    with pytest.raises(ConfigError) as caught:
        open_folder("dbfs:/checkpoints")

    assert "s3, gs, abfss and hdfs" in (caught.value.hint or "")


@given(
    split_id=st.text(min_size=1, max_size=300),
    start=st.integers(0, 1 << 62),
    stop=st.none() | st.integers(0, 1 << 62),
    counts=st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)),
    has_letters=st.booleans(),
)
def test_a_name_says_what_it_was_made_of(
    split_id: str, start: int, stop: int | None, counts: tuple[int, int], has_letters: bool
) -> None:
    """Whatever the split is called; file systems take it."""
    split = Split(split_id=split_id, start=start, stop=stop)
    made = range_file(split, Tally(read=counts[0], bad=counts[1]), has_letters=has_letters)

    assert parse_name(made.name) == made
    assert len(made.name.encode()) <= 255
    assert "/" not in made.name


@pytest.mark.parametrize("name", [".abc.tmp", MARK, "range-x", "_SUCCESS"])
def test_other_files_are_no_ranges(name: str) -> None:
    """Such as one that is being written."""
    assert parse_name(name) is None
