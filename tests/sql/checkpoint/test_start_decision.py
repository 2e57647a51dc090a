"""What a start would do with a checkpoint: new, resume, or incompatible with the ways on."""

from __future__ import annotations

from dataclasses import replace

from penstock.catalog.errors import DataLossError
from penstock.connector.source.state import SourceState, SplitState
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS, QueryFingerprint
from penstock.sql.checkpoint.reader import SavedCheckpoint
from penstock.sql.checkpoint.start_decision import (
    Incompatible,
    New,
    Resume,
    SourceStatus,
    SplitStart,
    decide_start,
)

SHAPE = QueryFingerprint(sources=("clicks",), sink="copies", state=("GROUP BY id",))
NOW = SourceStatus(
    table="clicks", starts={"clicks-0": 5, "clicks-1": 0}, ends={"clicks-0": 200, "clicks-1": 70}
)
STATE = SourceState(
    splits=(
        SplitState(split_id="clicks-0", owner="clicks", start=100, end=150),
        SplitState(split_id="clicks-1", owner="clicks", start=30, end=40),
    )
)
SAVED = SavedCheckpoint(shape=SHAPE, query_id="x", planned=7, committed=7, offsets=(STATE,))


def test_without_a_checkpoint_sources_start_by_their_startup_mode() -> None:
    """Each partition with what there is to be read of it."""
    verdict = decide_start(None, SHAPE, [NOW], "there")

    assert isinstance(verdict, New)
    assert verdict.sources[0].splits == (
        SplitStart(split="clicks-0", start=5, end=200),
        SplitStart(split="clicks-1", start=0, end=70),
    )
    assert verdict.sources[0].lag == 265


def test_a_checkpoint_goes_on_where_its_last_batch_ended() -> None:
    """By name and position of each partition."""
    verdict = decide_start(SAVED, SHAPE, [NOW], "there")

    assert isinstance(verdict, Resume)
    assert (verdict.batch_id, verdict.replays) == (8, False)
    assert [(s.split, s.start, s.lag) for s in verdict.sources[0].splits] == [
        ("clicks-0", 150, 50),
        ("clicks-1", 40, 30),
    ]


def test_a_batch_that_is_replayed_starts_where_it_started() -> None:
    """It reads the same again."""
    verdict = decide_start(replace(SAVED, committed=6), SHAPE, [NOW], "there")

    assert isinstance(verdict, Resume)
    assert (verdict.batch_id, verdict.replays) == (7, True)
    assert [s.start for s in verdict.sources[0].splits] == [100, 30]


def test_a_checkpoint_of_another_query_is_incompatible() -> None:
    """What differs is told, and three ways on."""
    verdict = decide_start(SAVED, replace(SHAPE, state=("GROUP BY url",)), [NOW], "there")

    assert isinstance(verdict, Incompatible)
    assert "GROUP BY id" in verdict.reason
    undo, recreated, beside = verdict.choices
    assert "undo the change" in undo
    assert "--from-scratch" in recreated
    assert "pipeline.name" in beside


def test_a_table_that_cannot_be_gone_on_with_is_incompatible() -> None:
    """With the way on that the table knows, and those that every checkpoint has; without one it is no matter."""
    lost = DataLossError("3 offsets were deleted unread", hint="read on without them")
    now = replace(NOW, refusal=lost)

    verdict = decide_start(SAVED, SHAPE, [now], "there")

    assert isinstance(verdict, Incompatible)
    assert verdict.reason == "clicks: 3 offsets were deleted unread"
    assert verdict.choices == ("read on without them", *START_OVER_HINTS)
    assert isinstance(decide_start(None, SHAPE, [now], "there"), New)


def test_what_a_broker_does_not_tell_stays_open() -> None:
    """Offsets of the checkpoint are known all the same; there is no lag."""
    away = SourceStatus(table="clicks", unknown="its ends are not known: no broker answers")

    verdict = decide_start(SAVED, SHAPE, [away], "there")

    assert isinstance(verdict, Resume)
    assert [s.start for s in verdict.sources[0].splits] == [150, 40]
    assert (verdict.sources[0].lag, verdict.sources[0].note) == (None, away.unknown)


def test_a_table_that_the_engine_reads_shows_the_engines_offset() -> None:
    """Delta's own JSON."""
    saved = replace(SAVED, offsets=('{"reservoirVersion":3}',))

    verdict = decide_start(saved, SHAPE, [SourceStatus(table="clicks")], "there")

    assert isinstance(verdict, Resume)
    assert "reservoirVersion" in (verdict.sources[0].note or "")
