"""What commits say of the batches in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from penstock.connector.contract import MicroBatch
from penstock.connector.delta.writer import note_of, noted_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def batch(number: int, query: str = "q", sink: str = "") -> MicroBatch:
    spark = cast("SparkSession", None)  # not asked for anything
    return MicroBatch(spark=spark, checkpoint="c", query_id=query, batch_id=number, sink=sink)


def test_notes_are_read_as_they_were_written() -> None:
    """Those of the query and its sink; the others are somebody else's."""
    notes = [
        note_of(batch(7), "d7"),
        note_of(batch(8), "d8"),
        note_of(batch(9, query="other"), "x"),
        note_of(batch(7, sink="second"), "s7"),
    ]

    assert noted_batches(notes, "q") == {7: "d7", 8: "d8"}
    assert noted_batches(notes, "q/second") == {7: "s7"}


def test_other_notes_are_passed_over() -> None:
    """Anybody may write anything into a commit."""
    notes = [None, "", "by hand", "[]", "7", "{}", json.dumps({"penstock": 3})]
    notes.append(json.dumps({"penstock": {"application": "q", "batch": "x", "digest": 1}}))

    assert noted_batches(notes, "q") == {}
