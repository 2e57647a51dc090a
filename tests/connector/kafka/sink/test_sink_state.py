"""What a checkpoint tells of markers that are lost: no broker, no JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.catalog.errors import StateMismatchError, UnknownObjectError
from penstock.connector.kafka.sink.sink_state import KnownSlots, next_batch, read_slots


def checkpoint(folder: Path, planned: int, committed: int, *, first: int = 0) -> Path:
    """A checkpoint of a sink with two slots; -1: no batch."""
    for log, last in (("offsets", planned), ("commits", committed)):
        (folder / log).mkdir(parents=True)
        for batch in range(last + 1):
            (folder / log / str(batch)).touch()
    ledger = {"version": 1, "prefix": "totals", "slots": 2, "first_batch": first, "topic": "t"}
    began = folder / "kafka-sinks" / "0123456789abcdef" / "began"
    began.parent.mkdir(parents=True)
    began.write_text(json.dumps(ledger))
    return folder


def known(folder: Path, topics: tuple[str, ...] = ("t",), prefix: str = "totals") -> KnownSlots:
    """The sink that it knows."""
    (found,) = read_slots(str(folder), prefix, topics)
    return found


def test_slots_are_named_as_the_sink_names_them(tmp_path: Path) -> None:
    """By the folder of the ledger; a table of a pattern names no topics."""
    checkpoint(tmp_path, 3, 3)
    names = [slot.name for slot in known(tmp_path, topics=()).slots()]

    assert names == ["totals-0123456789abcdef-0", "totals-0123456789abcdef-1"]
    assert next(known(tmp_path).slots()).partition == ("t", 0)


@pytest.mark.parametrize(("prefix", "topics"), [("others", ("t",)), ("totals", ("u",))])
def test_a_checkpoint_without_the_tables_sink_is_refused(
    tmp_path: Path, prefix: str, topics: tuple[str, ...]
) -> None:
    """It is another pipeline's."""
    checkpoint(tmp_path, 3, 3)
    with pytest.raises(UnknownObjectError, match="knows no exactly-once sink of this table"):
        known(tmp_path, topics, prefix)


def test_behind_a_batch_that_is_done_the_next_one_follows(tmp_path: Path) -> None:
    """Nobody has to look."""
    assert next_batch(known(checkpoint(tmp_path, 41, 41)), not_written=False) == 42


def test_a_batch_that_was_begun_may_be_there(tmp_path: Path) -> None:
    """Unless somebody says that it is not."""
    found = known(checkpoint(tmp_path, 42, 41))
    with pytest.raises(StateMismatchError, match="batch 42 was begun and not ended") as caught:
        next_batch(found, not_written=False)

    assert "--not-written" in (caught.value.hint or "")
    assert next_batch(found, not_written=True) == 42


@pytest.mark.parametrize(("planned", "committed", "first"), [(0, -1, 0), (-1, -1, 0), (5, 4, 5)])
def test_the_first_batch_of_a_sink_needs_no_marker(
    tmp_path: Path, planned: int, committed: int, first: int
) -> None:
    """Also of a sink that came later."""
    found = known(checkpoint(tmp_path, planned, committed, first=first))

    assert next_batch(found, not_written=False) is None
