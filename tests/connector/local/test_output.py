"""The bounded output and the board: backpressure, the end of waiting, who holds a group."""

from __future__ import annotations

import threading

import pyarrow as pa

from penstock.connector.local.job_master import GroupWatermarks
from penstock.connector.local.reader import Emission, Output

WAIT_S = 10.0
ROWS = Emission(reader=0, split_id="a", batch=pa.record_batch({"n": [1]}), watermark_ms=None)


def test_a_full_output_holds_the_reader_until_rows_are_taken() -> None:
    """That is the backpressure."""
    output, passed = Output(capacity=1), threading.Event()
    output.put(ROWS)
    assert not output.has_room
    thread = threading.Thread(target=lambda: output.put(ROWS) and passed.set())
    thread.start()
    assert not passed.wait(0.05)
    output.take(WAIT_S)

    assert passed.wait(WAIT_S)
    thread.join()


def test_a_closed_output_lets_readers_go_and_keeps_what_it_has() -> None:
    """Nobody takes new rows, those that are there can still be had."""
    output, refused = Output(capacity=1), threading.Event()
    output.put(ROWS)
    thread = threading.Thread(target=lambda: output.put(ROWS) or refused.set())
    thread.start()
    output.close()

    assert refused.wait(WAIT_S)
    assert output.take(0) == ROWS
    assert output.take(WAIT_S) is None
    thread.join()


def test_the_slowest_source_of_a_group_counts() -> None:
    """Groups are apart; a source that never published, or left, holds nobody."""
    board = GroupWatermarks()
    board.publish("g", "a", 42)
    board.publish("g", "b", 44)
    board.publish("other", "c", 1)
    assert board.lowest_ms("g") == 42
    board.publish("g", "a", None)

    assert board.lowest_ms("g") == 44
    assert board.lowest_ms("nobody") is None
