"""What `penstock kafka transactions ls` prints, for people and for programs."""

from __future__ import annotations

from typing import Any

from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.sink.open_transactions import BlockedPartition, Slot
from penstock.connector.kafka.sink.protocol import Marker
from penstock.sql.cli.commands.transactions import slots_document, slots_lines

SLOTS = (
    Slot(transactional_id="p-0", marker=Marker(next_batch=4, rows=12, digest="d")),
    Slot(transactional_id="p-1", marker=Marker(next_batch=4)),
    Slot(transactional_id="p-2", marker=None),
)
HELD = BlockedPartition(partition=TopicPartition("orders", 1), stable=7, end=9)


def test_a_marker_that_was_set_by_hand_does_not_say_that_its_batch_had_no_rows() -> None:
    """It says where to go on, and nothing of what was written."""
    document: Any = slots_document(SLOTS, ())

    assert slots_lines(SLOTS, ()) == [
        "p-0  batch 3, 12 rows",
        "p-1  batch 3, by a marker set by hand",
        "p-2  no marker under these topics",
    ]
    assert [(each["last_batch"], each["rows"]) for each in document["slots"]] == [
        (3, 12),
        (3, None),
        (None, None),
    ]


def test_an_open_transaction_says_where_readers_wait() -> None:
    """By topic and partition."""
    (line,) = slots_lines((), (HELD,))

    assert line.startswith("open transaction in orders/1: committed records end at 7")
    assert slots_lines((), ()) == ["nothing: no such ids, and no open transaction"]
