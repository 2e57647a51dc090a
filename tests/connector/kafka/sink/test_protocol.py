"""What a slot's marker says about the batch at hand: every case of the protocol's third step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.catalog.errors import StateMismatchError
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.contract import Sink
from penstock.connector.kafka.sink.protocol import (
    BatchCommit,
    Marker,
    SlotNames,
    digest_by_tasks,
    digest_with_encoding,
    lacks_batch,
    last_changes,
    may_write,
)
from tests.connector.kafka.sink.writing import ONCE, made_sink


def claim(batch_id: int, *, first: int = 0, digest: str = "aa") -> BatchCommit:
    """A slot's claim to write a batch."""
    return BatchCommit(slot="s-0", batch_id=batch_id, first_batch=first, digest=digest)


def refusal(made: BatchCommit, found: Marker | None) -> StateMismatchError:
    """The error that a claim is refused with."""
    with pytest.raises(StateMismatchError, match="slot 's-0', batch") as caught:
        may_write(made, found)
    return caught.value


def test_a_marker_is_read_as_it_was_written() -> None:
    """Offset and metadata hold all of it."""
    marker = Marker(next_batch=8, rows=12, digest="0123456789abcdef")

    assert marker.metadata == "v1;7;12;0123456789abcdef"
    assert Marker.parse(8, marker.metadata) == marker


@pytest.mark.parametrize("text", [None, "", "by hand", "v2;7;12;aa", "v1;7;many;aa"])
def test_a_marker_that_was_set_by_hand_says_where_to_go_on(text: str | None) -> None:
    """Its metadata is no digest: the batch it stands before may be written, the one behind it is not passed over."""
    marker = Marker.parse(8, text)

    assert may_write(claim(8), marker)
    assert "another batch of this number" in refusal(claim(7), marker).message


def test_the_batch_that_is_next_is_written() -> None:
    """Whatever the digest of the one before was."""
    assert may_write(claim(8), Marker(next_batch=8, digest="zz"))


def test_the_batch_that_is_there_is_passed_over() -> None:
    """The same digest says that it is the same."""
    assert not may_write(claim(7), Marker(next_batch=8, digest="aa"))


def test_another_batch_of_the_same_number_is_refused() -> None:
    """A copied or restored checkpoint, or another query."""
    error = refusal(claim(7, digest="bb"), Marker(next_batch=8, digest="aa"))

    assert "checkpoint was copied or restored" in error.message
    assert error.hint


ENCODED = digest_with_encoding("aa", "01")
ENCODED_OTHERWISE = digest_with_encoding("aa", "02")


def test_a_batch_whose_rows_become_other_records_is_refused() -> None:
    """Slots are chosen by a record's bytes: rows would be in two of them, or in none."""
    marker = Marker.parse(8, Marker(next_batch=8, digest=ENCODED).metadata)

    assert not may_write(claim(7, digest=ENCODED), marker)
    assert (
        "would become other records" in refusal(claim(7, digest=ENCODED_OTHERWISE), marker).message
    )
    assert may_write(claim(8, digest=ENCODED_OTHERWISE), marker)


def test_what_does_not_say_how_rows_became_records_is_compared_by_its_content() -> None:
    """A marker of an earlier version; a batch whose records are staged, and stay as they are."""
    assert not may_write(claim(7, digest=ENCODED), Marker(next_batch=8, digest="aa"))
    assert not may_write(claim(7, digest="aa"), Marker(next_batch=8, digest=ENCODED))
    other = refusal(claim(7, digest=ENCODED), Marker(next_batch=8, digest="bb"))
    assert "another batch of this number" in other.message


def test_who_wrote_a_part_of_a_batch_is_told_of_encoded_records_too() -> None:
    """Reading tasks have other slots than Spark."""
    by_tasks = refusal(claim(7, digest=digest_by_tasks("aa")), Marker(next_batch=8, digest=ENCODED))

    assert "Spark wrote a part of this batch" in by_tasks.message


def test_a_batch_that_all_slots_have_is_complete_whatever_its_rows_would_become() -> None:
    """The table was changed between the last slot and the end of the batch: there is nothing left to write."""
    claims = [claim(7, digest=ENCODED_OTHERWISE)] * 2
    done, before = Marker(next_batch=8, digest=ENCODED), Marker(next_batch=7, digest=ENCODED)

    assert not lacks_batch(claims, [done, done])
    assert lacks_batch(claims, [before, before])
    with pytest.raises(StateMismatchError, match="would become other records"):
        lacks_batch(claims, [before, done])


def test_a_batch_that_lies_far_behind_is_refused() -> None:
    """Another runner is ahead."""
    error = refusal(claim(5), Marker(next_batch=8, digest="aa"))

    assert "the topic has batch 7" in error.message


def test_a_batch_that_skips_one_is_refused() -> None:
    """Slots or names were changed."""
    error = refusal(claim(9), Marker(next_batch=8, digest="aa"))

    assert "batch 8 is missing there" in error.message


def test_without_a_marker_only_the_first_batch_is_written() -> None:
    """A sink may come later than its query; then its first batch is not the query's."""
    assert may_write(claim(0), None)
    assert may_write(claim(4, first=4), None)
    assert "is lost" in refusal(claim(5, first=4), None).message


def test_names_hold_the_query_and_the_sink() -> None:
    """Another checkpoint or another table never has the same."""
    names = SlotNames.of("p", "query", "sink")
    others = {SlotNames.of("p", "other", "sink"), SlotNames.of("p", "query", "other")}

    assert names.slot(3) == f"p-{names.scope}-3"
    assert len(names.scope) == 16
    assert names not in others
    assert SlotNames.of("p", "query", "sink") == names


def test_a_sink_that_is_not_given_every_batch_writes_behind_its_last_one() -> None:
    """Where there is no marker, and behind any gap; a batch that is there is passed over all the same."""
    sparse = replace(claim(7, first=3), sparse=True)

    assert may_write(sparse, None)
    assert may_write(sparse, Marker(next_batch=4, digest="zz"))
    assert not may_write(sparse, Marker(next_batch=8, digest="aa"))
    assert "another batch of this number" in refusal(sparse, Marker(next_batch=8)).message
    assert "another runner is ahead" in refusal(sparse, Marker(next_batch=9)).message


# --- whether an exactly-once sink is the one that a checkpoint began with: told from the ---


PREFIX, PARALLELISM = "sink.transactional-id-prefix", "sink.parallelism"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint of a query that writes two slots under the prefix `tests`."""
    names = SlotNames.of("tests", "q1", f"/{made_sink(ONCE).name}")
    began = tmp_path / "kafka-sinks" / names.scope / "began"
    began.parent.mkdir(parents=True)
    ledger = {"version": 1, "prefix": "tests", "slots": 2, "first_batch": 0, "topic": "orders"}
    began.write_text(json.dumps(ledger))
    (tmp_path / "metadata").write_text('{"id":"q1"}')
    return tmp_path


def check(spark: SparkSession, checkpoint: Path, options: dict[str, str]) -> None:
    """Check a sink with options; as it is checked without Spark, too."""
    check_here(checkpoint, options)
    made_resumable(options).check_resumes(spark, str(checkpoint), "", notes=False)


def check_here(checkpoint: Path, options: dict[str, str]) -> None:
    """Check a sink with options, without Spark."""
    file = checkpoint / "metadata"
    query = json.loads(file.read_text())["id"] if file.exists() else None
    made_resumable(options).check_resumes_here(checkpoint, query, "")


def made_resumable(options: dict[str, str]) -> Sink:
    made = made_sink({**ONCE, **options})
    assert made.capabilities.resumable
    return made


def test_what_the_checkpoint_began_with_goes_on(spark: SparkSession, checkpoint: Path) -> None:
    """The number of slots may be left out; a checkpoint that never ran takes any."""
    check(spark, checkpoint, {})
    check(spark, checkpoint, {PARALLELISM: "2"})
    check(spark, checkpoint / "another", {PREFIX: "others"})
    (checkpoint / "metadata").write_text('{"id":"q2"}')
    check(spark, checkpoint, {PREFIX: "others"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({PREFIX: "others"}, "'sink.transactional-id-prefix' was 'tests'"),
        ({PARALLELISM: "3"}, "'sink.parallelism' was 2"),
    ],
)
def test_another_prefix_or_number_of_slots_is_refused_before_the_first_batch(
    spark: SparkSession, checkpoint: Path, options: dict[str, str], words: str
) -> None:
    """Markers would not be found, or rows would move to other slots."""
    with pytest.raises(StateMismatchError, match=words):
        made_resumable(options).check_resumes(spark, str(checkpoint), "", notes=False)
    with pytest.raises(StateMismatchError, match=words):
        check_here(checkpoint, options)


# --- which changes of a key reach an upsert topic, however Arrow cuts the batches ---


CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(RowKind)), max_size=12)


def sent(
    changes: list[tuple[str, RowKind]], *, only_last: bool, size: int = 100
) -> list[tuple[str, str]]:
    """What is left of changes sorted by key, cut into batches of `size`."""
    in_order = sorted(changes, key=lambda change: change[0])
    chunks = [in_order[i : i + size] for i in range(0, len(in_order), size)]
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pa.array([key.encode() for key, _ in chunk], pa.binary()),
                pa.array([kind.value for _, kind in chunk], pa.int8()),
            ],
            names=["key", ROW_KIND],
        )
        for chunk in chunks
    ]
    rows = [row for b in last_changes(iter(batches), only_last=only_last) for row in b.to_pylist()]
    return [(row["key"].decode(), RowKind(row[ROW_KIND]).short) for row in rows]


def test_a_row_before_an_update_is_not_sent() -> None:
    """The one after it says all."""
    update = [("a", RowKind.UPDATE_BEFORE), ("a", RowKind.UPDATE_AFTER)]

    assert sent(update, only_last=False) == [("a", "+U")]


def test_a_row_before_an_update_that_comes_last_is_sent() -> None:
    """The update's other half has another key, so under this one the row is gone."""
    moved = [("a", RowKind.UPDATE_BEFORE), ("b", RowKind.UPDATE_AFTER)]

    assert sent(moved, only_last=False) == [("a", "-U"), ("b", "+U")]


def test_buffering_leaves_the_last_change_of_each_key() -> None:
    """In the order of the changes of a key."""
    changes = [("a", RowKind.INSERT), ("a", RowKind.DELETE), ("b", RowKind.INSERT)]

    assert sent(changes, only_last=True) == [("a", "-D"), ("b", "+I")]


@given(CHANGES, st.integers(1, 4), st.booleans())
def test_the_cut_of_batches_does_not_matter(
    changes: list[tuple[str, RowKind]], size: int, only_last: bool
) -> None:
    """Whole or in pieces: the same is sent, and the last change of each key always is."""
    whole = sent(changes, only_last=only_last)
    last = {key: kind.short for key, kind in changes}

    assert sent(changes, only_last=only_last, size=size) == whole
    assert dict(whole) == last
