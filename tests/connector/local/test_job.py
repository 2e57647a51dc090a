"""A local job as a whole, threads and all: every record once, restarts, alignment, ends and stops."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace

import pytest

from penstock.catalog.errors import BadRecordError, BrokerUnavailableError
from penstock.connector.contract import FetcherModel
from penstock.connector.local import job as job_module
from penstock.connector.local import job_master
from penstock.connector.local.job import LocalJob
from penstock.connector.local.job_master import GroupWatermarks
from penstock.connector.local.messages import ReaderCrashed, Stop
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.source.alignment import Alignment
from penstock.connector.source.state import MAX_WATERMARK_MS
from tests.connector.local import scripted
from tests.connector.local.checkpoint_text import decode_checkpoint, encode_checkpoint
from tests.connector.local.scripted import (
    DEADLINE_S,
    ROWTIME,
    SETTINGS,
    Checkpoints,
    Rows,
    ScriptedSource,
    World,
    drain,
    read_all,
    read_until,
    split_status,
)

TIMED = replace(SETTINGS, rowtime=ROWTIME)
ALIGNED = WatermarkSettings(alignment=Alignment(group="g", max_drift_ms=10, update_interval_ms=20))

PROMPT_S = 10.0
"""What waits for nothing takes less, also on a busy machine."""


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that end by themselves are waited for until they have."""
    monkeypatch.setattr(job_module, "STOP_S", PROMPT_S)
    monkeypatch.setattr(job_master, "JOIN_S", PROMPT_S)


@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize("pulled", [True, False])
@pytest.mark.parametrize("model", list(FetcherModel))
def test_a_source_with_an_end_gives_every_record_once_and_ends(
    model: FetcherModel, pulled: bool, readers: int
) -> None:
    """In split order, whatever the threading model, pushed and pulled, also when some readers have nothing."""
    world = World({"s0": range(23), "s1": range(7), "s3": [], "s4": range(12)})
    source = ScriptedSource(world=world, bounded=not pulled, pulled=pulled, fetching=model)
    with LocalJob(source, replace(SETTINGS, readers=readers)) as job:
        rows = read_all(job)

    assert rows.seen == {"s0": [*range(23)], "s1": [*range(7)], "s4": [*range(12)]}
    assert world.open_readers == 0
    assert world.planner_closed.is_set()


def test_records_come_as_they_are_written() -> None:
    """A source without an end goes on where it is."""
    world = World({"s0": range(3)})
    with LocalJob(ScriptedSource(world=world), SETTINGS) as job:
        rows = read_until(job, rows := Rows(), lambda: rows.count() == 3)
        world.add("s0", range(3, 8))
        read_until(job, rows, lambda: rows.count() == 8)

    assert rows.seen == {"s0": [*range(8)]}


def test_a_split_found_while_running_is_read_from_its_beginning() -> None:
    """Discovery goes on at its interval."""
    world = World({"s0": range(3)})
    source = ScriptedSource(world=world, discovery_interval_ms=20)
    with LocalJob(source, replace(SETTINGS, readers=2)) as job:
        rows = read_until(job, rows := Rows(), lambda: rows.count() == 3)
        world.add("s1", range(4))
        read_until(job, rows, lambda: rows.count() == 7)

    assert rows.seen["s1"] == [0, 1, 2, 3]


def test_all_that_a_planner_does_is_done_by_one_thread() -> None:
    """Planners are not safe for several."""
    world = World({"s0": range(3), "s1": range(3)})
    settings = replace(SETTINGS, readers=2, extents_interval_ms=10)
    with LocalJob(ScriptedSource(world=world, discovery_interval_ms=10), settings) as job:
        read_until(job, Rows(), lambda: job.status.caught_up)

    assert len(world.planner_threads) == 1


# --- event time ---


def test_the_watermark_is_the_lowest_of_all_splits_and_the_end_is_the_maximum() -> None:
    """Over readers as over splits; it never goes back."""
    world = World({"s0": range(0, 100, 5), "s1": range(0, 40, 2)})
    source = ScriptedSource(world=world, bounded=True)
    with LocalJob(source, replace(TIMED, readers=2)) as job:
        read_all(job)

        assert job.status.watermark_ms == MAX_WATERMARK_MS


def test_alignment_holds_a_fast_split_back() -> None:
    """FLIP-217: the split in front waits until the slow one comes, and says at which limit."""
    world = World({"s0": range(0, 100_000, 2), "s1": [0]})
    source = ScriptedSource(world=world, watermark=ALIGNED)
    with LocalJob(source, replace(TIMED, readers=2)) as job:
        rows = read_until(
            job, rows := Rows(), lambda: split_status(job.status, "s0").get("held_at_ms") == 10
        )
        held = len(drain(job, rows).seen["s0"])
        world.add("s1", [90_000])
        read_until(job, rows, lambda: len(rows.seen["s0"]) >= held + 100)

    assert held < 50_000
    assert rows.seen["s0"] == [*range(len(rows.seen["s0"]))]


def test_an_aligned_source_with_an_end_gives_everything_and_ends() -> None:
    """WatermarkAlignmentITCase: also when some readers finish early, and after no-more-splits (FLINK-37670)."""
    world = World({"s0": range(0, 3000, 10), "s1": range(0, 300, 10), "s2": [5]})
    source = ScriptedSource(world=world, bounded=True, watermark=ALIGNED)
    with LocalJob(source, replace(TIMED, readers=3)) as job:
        rows = read_all(job)

    assert {i: len(seen) for i, seen in rows.seen.items()} == {"s0": 300, "s1": 30, "s2": 1}


def test_a_single_split_source_waits_for_another_table_of_its_group() -> None:
    """Two jobs share a board; the single split of the fast one is paused like any other."""
    board = GroupWatermarks()
    fast, slow = World({"s0": range(0, 1000, 2)}), World({"s0": [0]})
    with (
        LocalJob(
            ScriptedSource(world=slow, watermark=ALIGNED), replace(TIMED, name="slow"), board=board
        ) as behind,
        LocalJob(
            ScriptedSource(world=fast, watermark=ALIGNED), replace(TIMED, name="fast"), board=board
        ) as ahead,
    ):
        read_until(behind, Rows(), lambda: behind.status.watermark_ms == 0)
        rows = read_until(
            ahead, Rows(), lambda: split_status(ahead.status, "s0").get("held_at_ms") == 10
        )
        slow.add("s0", [2000])
        read_until(behind, Rows(), lambda: behind.status.watermark_ms == 2000)
        read_until(ahead, rows, lambda: rows.count() == 500)

    assert rows.seen == {"s0": [*range(500)]}


def test_an_idle_split_holds_neither_watermark_nor_group() -> None:
    """A record brings it back."""
    world = World({"s0": [], "s1": range(0, 1000, 10)})
    settings = replace(ALIGNED, idle_timeout_ms=50)
    with LocalJob(
        ScriptedSource(world=world, watermark=settings), replace(TIMED, readers=2)
    ) as job:
        rows = read_until(job, rows := Rows(), lambda: rows.count() == 100)
        read_until(job, rows, lambda: split_status(job.status, "s0").get("idle") is True)
        world.add("s0", [990])
        read_until(job, rows, lambda: split_status(job.status, "s0").get("watermark_ms") == 990)

    assert rows.count() == 101


# --- checkpoints ---


def test_a_restart_from_a_checkpoint_gives_every_later_record_once() -> None:
    """Through its JSON form; what came before the checkpoint does not come again."""
    world, checkpoints = World({"s0": range(50), "s1": range(30)}), Checkpoints()
    settings = replace(TIMED, readers=2, checkpoint_interval_ms=10)
    with LocalJob(ScriptedSource(world=world), settings, on_checkpoint=checkpoints) as job:
        first = read_until(job, rows := Rows(), lambda: rows.count() == 80)
        read_until(job, first, lambda: _positions(checkpoints) == {"s0": 50, "s1": 30})
    restored = decode_checkpoint(encode_checkpoint(checkpoints.taken[-1]))
    world.add("s0", range(50, 60))
    with LocalJob(ScriptedSource(world=world), settings, restored=restored) as job:
        second = read_until(job, rows := Rows(), lambda: rows.count() == 10)
        watermark_ms = job.status.watermark_ms

    assert second.seen == {"s0": [*range(50, 60)]}
    assert watermark_ms == 29


@pytest.mark.parametrize("readers", [1, 2, 5])
def test_a_restart_with_more_or_fewer_readers_keeps_every_split(readers: int) -> None:
    """CoordinatedSourceRescaleITCase: splits of readers that are no more go to others."""
    world, checkpoints = World({f"s{i}": range(5) for i in range(6)}), Checkpoints()
    settings = replace(SETTINGS, readers=3, checkpoint_interval_ms=10)
    with LocalJob(ScriptedSource(world=world), settings, on_checkpoint=checkpoints) as job:
        rows = read_until(job, rows := Rows(), lambda: rows.count() == 30)
        read_until(job, rows, lambda: sum(_positions(checkpoints).values()) == 30)
    for number in range(6):
        world.add(f"s{number}", [9])
    settings = replace(settings, readers=readers)
    with LocalJob(ScriptedSource(world=world), settings, restored=checkpoints.taken[-1]) as job:
        again = read_until(job, rows := Rows(), lambda: rows.count() == 6)

    assert again.seen == {f"s{i}": [5] for i in range(6)}


def test_a_checkpoint_of_an_endless_scan_goes_on_as_a_bounded_one() -> None:
    """The readers' splits get their stops, and the job ends there."""
    world, checkpoints = World({"s0": range(9), "s1": range(4)}), Checkpoints()
    settings = replace(SETTINGS, readers=2, checkpoint_interval_ms=10)
    with LocalJob(ScriptedSource(world=world), settings, on_checkpoint=checkpoints) as job:
        rows = read_until(job, rows := Rows(), lambda: rows.count() == 13)
        read_until(job, rows, lambda: _positions(checkpoints) == {"s0": 9, "s1": 4})
    world.add("s0", range(9, 14))
    source = ScriptedSource(world=world, bounded=True)
    with LocalJob(source, settings, restored=checkpoints.taken[-1]) as job:
        rest = read_all(job)

    assert rest.seen == {"s0": [*range(9, 14)]}


# --- failures ---


def test_a_failed_reader_goes_on_from_the_last_checkpoint() -> None:
    """What it emitted since comes again, nothing is left out; the other reader is not touched."""
    world, checkpoints = World({"s0": range(10), "s1": range(10)}), Checkpoints()
    settings = replace(SETTINGS, readers=2, checkpoint_interval_ms=10)
    with LocalJob(ScriptedSource(world=world), settings, on_checkpoint=checkpoints) as job:
        rows = read_until(job, rows := Rows(), lambda: rows.count() == 20)
        read_until(job, rows, lambda: _positions(checkpoints) == {"s0": 10, "s1": 10})
        world.fail_once("s0", 12, BrokerUnavailableError("gone"))
        world.add("s0", range(10, 20))
        read_until(job, rows, lambda: len(rows.seen["s0"]) == 20)
        world.add("s1", [10])
        read_until(job, rows, lambda: len(rows.seen["s1"]) == 11)
        restarts = job.status.restarts

    assert rows.seen == {"s0": [*range(20)], "s1": [*range(11)]}
    assert restarts == 1


@pytest.mark.parametrize("pulled", [True, False])
def test_splits_of_a_reader_that_failed_before_any_checkpoint_are_read_again(pulled: bool) -> None:
    """They go back to the enumerator, which assigns them again from their start."""
    world = World({"s0": range(10), "s1": range(10)})
    world.fail_once("s0", 7, BrokerUnavailableError("gone"))
    source = ScriptedSource(world=world, bounded=not pulled, pulled=pulled)
    with LocalJob(source, replace(SETTINGS, readers=2)) as job:
        rows = read_all(job)

    assert rows.seen["s0"][-10:] == [*range(10)]
    assert sorted(set(rows.seen["s1"])) == [*range(10)]


def test_a_reader_that_fails_after_its_end_has_not_ended() -> None:
    """The job waits until it has read its part again; the simulation found it."""
    world = World({"s0": range(5), "s1": range(300)})
    settings = replace(SETTINGS, readers=2, restart_delay_ms=300)
    with LocalJob(ScriptedSource(world=world, bounded=True), settings) as job:
        master, rows = job._master, Rows()
        read_until(job, rows, lambda: 0 in master._ended_readers)
        master._readers[0].reader.send(Stop())
        master._mailbox.post(ReaderCrashed(reader=0, error=BrokerUnavailableError("gone")))
        drain(job, read_until(job, rows, lambda: job.ended))

    assert rows.seen["s0"] == [*range(5)] * 2
    assert rows.seen["s1"] == [*range(300)]


@pytest.mark.parametrize("model", list(FetcherModel))
@pytest.mark.parametrize("pulled", [True, False])
def test_under_many_failures_nothing_is_left_out_and_order_holds(
    pulled: bool, model: FetcherModel
) -> None:
    """Each restart goes back to a checkpoint, and from there on every record comes once, in order."""
    world = World({"s0": range(60), "s1": range(40), "s2": range(50)})
    for split_id, position in (
        ("s0", 7),
        ("s0", 21),
        ("s0", 47),
        ("s1", 12),
        ("s2", 0),
        ("s2", 49),
    ):
        world.fail_once(split_id, position, BrokerUnavailableError("gone"))
    source = ScriptedSource(world=world, bounded=not pulled, pulled=pulled, fetching=model)
    settings = replace(TIMED, readers=2, checkpoint_interval_ms=3, restart_delay_ms=1, restarts=9)
    with LocalJob(source, settings) as job:
        rows = read_all(job)
        restarts = job.status.restarts

    assert 3 <= restarts <= 6  # two fetchers of one reader may fail together
    for split_id, seen in rows.seen.items():
        assert sorted(set(seen)) == [*range(len(world.records[split_id]))]
        assert all(after <= before + 1 for before, after in itertools.pairwise(seen))
        assert seen[0] == 0


def test_a_reader_that_fails_again_and_again_ends_the_job_with_the_cause() -> None:
    """So many failures in a row, without a checkpoint in between, are no accident."""
    world = World({"s0": range(10)})
    world.fail_once("s0", 7, BrokerUnavailableError("gone"), times=9)
    job = LocalJob(ScriptedSource(world=world), replace(SETTINGS, restarts=2))
    with job, pytest.raises(BrokerUnavailableError, match="gone"):
        read_until(job, Rows(), lambda: False)

    assert job.status.restarts == 2


def test_a_failure_that_would_come_again_ends_the_job_at_once() -> None:
    """A bad record stays bad."""
    world = World({"s0": range(10)})
    world.fail_once("s0", 7, BadRecordError("not JSON"))
    with LocalJob(ScriptedSource(world=world), SETTINGS) as job, pytest.raises(BadRecordError):
        read_until(job, Rows(), lambda: False)

    assert job.status.restarts == 0


def test_a_failure_of_the_enumerator_ends_the_job_with_the_cause() -> None:
    """SourceCoordinatorTest: the original cause, not one about it."""
    world, checkpoints = World({"s0": range(3)}), Checkpoints()
    settings = replace(SETTINGS, checkpoint_interval_ms=10)
    with LocalJob(ScriptedSource(world=world), settings, on_checkpoint=checkpoints) as job:
        read_until(job, Rows(), lambda: _positions(checkpoints) == {"s0": 3})
    taken = checkpoints.taken[-1]
    enumerator = dict(taken.coordinator["enumerator"]) | {"topics": {"world": "an older one"}}
    restored = replace(taken, coordinator={**taken.coordinator, "enumerator": enumerator})
    with (
        LocalJob(ScriptedSource(world=world), SETTINGS, restored=restored) as job,
        pytest.raises(Exception, match="was an older one, is 1"),
    ):
        read_until(job, Rows(), lambda: False)

    assert job.ended


# --- the end ---


def test_a_stop_is_prompt_and_closes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """While readers wait for records, for the consumer and for alignment."""
    monkeypatch.setattr(scripted, "FETCH_S", 3 * PROMPT_S)
    world = World({"s0": range(0, 100_000, 2), "s1": [0], "s2": []})
    source = ScriptedSource(world=world, watermark=ALIGNED)
    job = LocalJob(source, replace(TIMED, readers=3))
    with job:
        read_until(job, Rows(), lambda: split_status(job.status, "s0").get("held_at_ms") == 10)
        began_s = time.monotonic()
    took_s = time.monotonic() - began_s

    assert took_s < PROMPT_S
    assert world.open_readers == 0
    assert world.planner_closed.is_set()
    assert not [t.name for t in threading.enumerate() if t.name.startswith("penstock-")]


def test_a_stop_does_not_wait_for_a_consumer_that_is_gone() -> None:
    """Readers that wait for room are let go."""
    world = World({"s0": range(10_000)})
    job = LocalJob(ScriptedSource(world=world), SETTINGS)
    with job:
        read_until(job, Rows(), lambda: bool(job.status.splits))
        began_s = time.monotonic()

    assert time.monotonic() - began_s < PROMPT_S
    assert world.open_readers == 0


def test_a_stop_does_not_wait_for_a_world_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It tells that it left a call behind, whose thread closes the planner when the answer comes."""
    monkeypatch.setattr(job_module, "STOP_S", 0.9)
    world = World({"s0": range(3)})
    world.answers.clear()
    job = LocalJob(ScriptedSource(world=world), SETTINGS)
    with job:
        read_until(job, Rows(), lambda: bool(world.planner_threads))
        asking = job.status.asking
        began_s = time.monotonic()
    took_s = time.monotonic() - began_s
    left_open = not world.planner_closed.is_set()
    world.answers.set()

    assert asking
    assert took_s < PROMPT_S
    assert job.abandoned
    assert left_open
    assert world.planner_closed.wait(DEADLINE_S)


def test_the_status_tells_position_end_and_lag() -> None:
    """Without a rowtime there is no watermark."""
    world = World({"s0": range(8)})
    with LocalJob(ScriptedSource(world=world), replace(SETTINGS, extents_interval_ms=10)) as job:
        read_until(job, Rows(), lambda: job.status.caught_up)
        found = split_status(job.status, "s0")

    assert found == {
        "position": 8,
        "lag": 0,
        "watermark_ms": None,
        "idle": False,
        "held_at_ms": None,
    }


def _positions(checkpoints: Checkpoints) -> dict[str, int]:
    """Give the positions of the last checkpoint."""
    if not checkpoints.taken:
        return {}
    return {s.split_id: s.start for part in checkpoints.taken[-1].readers for s in part.splits}


@pytest.mark.parametrize(
    ("max_future_ms", "skipped"), [(86_400_000, 1), (None, 0)], ids=["bounded", "off"]
)
def test_a_record_of_the_future_is_left_out_by_the_wall_clock(
    max_future_ms: int | None, skipped: int
) -> None:
    """It is counted, whatever the table says to do in a query; the rows behind it come."""
    world = World({"s0": [1, 2, 3_786_912_000_000, 4]})
    settings = WatermarkSettings(max_future_ms=max_future_ms)
    with LocalJob(ScriptedSource(world=world, bounded=True, watermark=settings), TIMED) as job:
        rows = read_all(job)
        status = job.status

    assert len(rows.seen["s0"]) == 4 - skipped
    assert status.skipped == skipped
