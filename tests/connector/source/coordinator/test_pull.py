"""Splits on request (Flink's StaticFileSplitEnumeratorTest and ContinuousFileSplitEnumeratorTest)."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.coordinator.events import CallCompleted, ReaderFailed
from penstock.connector.source.coordinator.pull import PullingEnumerator, SeenSplits
from penstock.connector.source.split import Split
from tests.connector.source.coordinating import Job, World

SECOND_MS = 1000


def job(world: World, *, interval_ms: int | None = None, state: Any = None) -> Job:
    """A job that was not started, over a static folder or one that is watched."""
    return Job(partial(PullingEnumerator, planner=world, interval_ms=interval_ms), state=state)


def test_splits_are_given_one_a_request_in_the_order_of_the_listing() -> None:
    """Whoever asks first gets the first."""
    asking = job(World(stops={"f-b": 10, "f-a": 7}).add("f-b", "f-a", "f-c")).start()
    asking.register(0, 1)
    asking.request(1, 0, 1)

    assert asking.ids(1) == ["f-b", "f-c"]
    assert asking.given(0) == [Split(split_id="f-a", start=100, stop=7, owner="f")]


def test_nothing_is_given_to_a_reader_that_does_not_ask() -> None:
    """It may still have much to read."""
    silent = job(World().add("f-a")).start().register(0)

    assert silent.events(0) == []


def test_a_static_source_ends_for_readers_that_ask_when_nothing_is_left() -> None:
    """And for those alone: others still read."""
    static = job(World().add("f-a")).start().register(0, 1)
    static.request(0, 0)

    assert static.ids(0) == ["f-a"]
    assert (static.ends(0), static.ends(1)) == (1, 0)


@pytest.mark.parametrize("files", [(), ("f-a",)])
def test_requests_before_the_listing_are_answered_by_it(files: tuple[str, ...]) -> None:
    """With a split, or with the end of a static source that is empty."""
    early = job(World().add(*files))
    early.perform(early.coordinator.start())
    early.register(0, 1).request(0, 1)
    before = early.sent[:]
    early.run_calls()

    assert before == []
    assert early.ids(0) == list(files)
    assert early.ends(0) == 1 - len(files)
    assert early.ends(1) == 1


def test_a_watched_source_answers_when_something_is_found() -> None:
    """ContinuousFileSplitEnumeratorTest.testDiscoverWhenReaderRegistered: it never ends, and lists each file once."""
    world = World().add("f-a")
    watched = job(world, interval_ms=SECOND_MS).start().register(0, 1)
    watched.request(0, 1)
    world.add("f-b", "f-c")
    watched.tick()
    watched.tick()

    assert watched.scheduled[0].every_ms == SECOND_MS
    assert (watched.ids(0), watched.ids(1)) == (["f-a"], ["f-b"])
    assert watched.ends(0) == watched.ends(1) == 0
    assert [first for _, first in world.resolved] == [True, False]


def test_asking_twice_is_asking_once() -> None:
    """A reader that waits gets one split."""
    world = World()
    watched = job(world, interval_ms=SECOND_MS).start().register(0).request(0, 0)
    world.add("f-a", "f-b")
    watched.tick()

    assert watched.ids(0) == ["f-a"]


def test_a_reader_that_failed_while_it_waited_is_not_served() -> None:
    """ContinuousFileSplitEnumeratorTest: nor when it came back meanwhile, until it asks again."""
    world = World()
    watched = job(world, interval_ms=SECOND_MS).start().register(0, 1).request(0, 1)
    watched.handle(ReaderFailed(reader=0))
    watched.fail(1)
    watched.register(1)
    world.add("f-a")
    watched.tick()
    before = watched.sent[:]
    watched.request(1)

    assert before == []
    assert watched.ids(1) == ["f-a"]


def test_splits_that_come_back_are_read_first() -> None:
    """In their old order, also for a reader that was told the end."""
    back = job(World().add("f-a", "f-b", "f-c", "f-d")).start().register(0, 1)
    back.request(0, 0)
    back.fail(0)
    back.request(1, 1, 1, 1, 1)

    assert back.ids(1) == ["f-a", "f-b", "f-c", "f-d"]
    assert back.ends(1) == 1


def test_a_reader_that_was_told_the_end_reads_what_came_back_from_it() -> None:
    """Its requests are heard again, or its splits would stay unread for ever."""
    back = job(World().add("f-a")).start().register(0).request(0, 0)
    back.fail(0)
    back.register(0).request(0, 0)

    assert back.ids(0) == ["f-a", "f-a"]
    assert back.ends(0) == 2


def test_a_waiting_reader_gets_what_comes_back_from_another() -> None:
    """At once."""
    watched = job(World().add("f-a"), interval_ms=SECOND_MS).start().register(0, 1).request(0, 1)
    watched.fail(0)

    assert watched.ids(1) == ["f-a"]


def test_a_restored_static_source_does_not_list_again() -> None:
    """What was there when it began is what it reads; positions are kept."""
    world = World(latest=3).add("f-a", "f-b")
    state = job(world).start().register(0).request(0).checkpoint(1)
    world.add("f-c")
    world.latest = 9
    restored = job(world, state=state).start().register(0).request(0, 0)

    assert restored.scheduled == []
    assert [(s.split_id, s.start) for s in restored.given(0)] == [("f-b", 3)]
    assert restored.ends(0) == 1


def test_a_restored_watched_source_gives_nothing_twice() -> None:
    """What was seen is known by its id, whoever read it."""
    world = World().add("f-a")
    state = job(world, interval_ms=SECOND_MS).start().register(0).request(0).checkpoint(1)
    world.add("f-b")
    restored = job(world, interval_ms=SECOND_MS, state=state).start().register(0).request(0, 0)

    assert restored.ids(0) == ["f-b"]


def test_a_checkpoint_before_the_listing_lists_after_it() -> None:
    """Nothing was found yet."""
    world = World().add("f-a")
    early = job(world)
    early.perform(early.coordinator.start())
    restored = job(world, state=early.checkpoint(1)).start().register(0).request(0)

    assert restored.ids(0) == ["f-a"]


def test_a_snapshot_can_be_read_and_has_fixed_keys() -> None:
    """Splits that nobody has stay in reading order."""
    state = job(World(stops={"f-b": 5}).add("f-b", "f-c", "f-a")).start().register(0).request(0)

    assert list(state.checkpoint(1)["enumerator"].items()) == [
        ("kind", "pulling"),
        ("version", 3),
        ("listed", True),
        ("seen", SeenSplits.of(["f-b", "f-c", "f-a"]).snapshot()),
        (
            "unassigned",
            [
                {"id": "f-c", "start": 100, "stop": None, "owner": "f"},
                {"id": "f-a", "start": 100, "stop": None, "owner": "f"},
            ],
        ),
    ]


def test_a_snapshot_with_the_names_alone_is_gone_on_with() -> None:
    """As older versions wrote it."""
    old = {"kind": "pulling", "version": 1, "listed": True, "seen": ["f-a"], "unassigned": []}
    world = World().add("f-a", "f-b")
    state = {"version": 1, "enumerator": old}
    restored = job(world, interval_ms=SECOND_MS, state=state).start().register(0).request(0, 0)

    assert restored.ids(0) == ["f-b"]


def test_a_snapshot_that_lacks_names_is_refused() -> None:
    """Files that were read would be read again."""
    state = {
        "kind": "pulling",
        "version": 2,
        "listed": True,
        "seen": {"f-a": 7},
        "floor": None,
        "forgotten": "",
        "unassigned": [],
    }
    world = World().add("f-a", "f-b")
    whole = job(world, interval_ms=SECOND_MS, state={"version": 1, "enumerator": state})

    assert whole.start().register(0).request(0, 0).ids(0) == ["f-b"]
    with pytest.raises(StateMismatchError, match="does not hold all names"):
        job(world, state={"version": 1, "enumerator": {**state, "floor": [7, "f-a"]}})


@pytest.mark.parametrize("change", [{"kind": "discovering"}, {"version": 0}, {"extra": 1}])
def test_a_snapshot_that_is_not_known_is_refused(change: dict[str, Any]) -> None:
    """Of another kind, another version, or with another key."""
    state = {**job(World()).start().checkpoint(1)["enumerator"], **change}

    with pytest.raises(StateMismatchError):
        job(World(), state={"version": 1, "enumerator": state})


def test_what_is_new_is_found_while_positions_are_being_resolved() -> None:
    """A listing that comes in between changes nothing; the next one finds it."""
    world = World().add("f-a")
    slow = job(world, interval_ms=SECOND_MS)
    slow.perform(slow.coordinator.start())
    listing = slow.due.pop()
    for name in ("f-a", "f-b"):
        world.add(name)
        slow.handle(CallCompleted(call_id=listing.call_id, result=world.list_splits()))
    slow.run_calls()
    slow.register(0).request(0, 0)
    before = slow.ids(0)
    slow.tick()

    assert before == ["f-a"]
    assert slow.ids(0) == ["f-a", "f-b"]


def test_a_listing_that_fails_fails_the_job_with_its_cause() -> None:
    """A folder that is not there."""
    world = World(failure=FileNotFoundError("/data"))

    assert job(world).start().failure is world.failure


def test_positions_that_cannot_be_resolved_fail_the_job_with_their_cause() -> None:
    """The executor hands over what was raised there."""
    gone = FileNotFoundError("/data/f-a")
    failed = job(World().add("f-a"))
    failed.perform(failed.coordinator.start())
    listing = failed.due.pop()
    failed.handle(CallCompleted(call_id=listing.call_id, result=listing.work()))
    failed.handle(CallCompleted(call_id=failed.due.pop().call_id, error=gone))

    assert failed.failure is gone


# --- what a watched folder's checkpoint knows of files: each is read once, whatever becomes of ---


Step = Literal["come", "touch", "remove", "restart", "list"]


class Folder:
    """Files by name and time, and what was read of them."""

    def __init__(self, count: int = 0) -> None:
        self.files = {f"file-{number}": 1_000 + number for number in range(count)}
        self.seen = SeenSplits()
        self.read: list[str] = []
        if count:
            self.list()

    def list(self) -> None:
        """List it in the order of times, and read what is new."""
        order = sorted(self.files, key=lambda name: (self.files[name], name))
        new = self.seen.new_in(order)
        self.seen.add(new)
        self.read += new

    def restart(self) -> None:
        """Go on from the checkpoint, as JSON keeps it."""
        self.seen = SeenSplits.restored(json.loads(json.dumps(self.seen.snapshot())))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["come", "touch", "remove", "restart", "list"]),
            st.integers(0, 30),
            st.integers(0, 5),
        ),
        max_size=80,
    )
)
def test_each_file_is_read_once_whatever_its_time_and_wherever_a_restart_comes(
    steps: list[tuple[Step, int, int]],
) -> None:
    """Files come late and early, are touched, removed and come back, while the pipeline runs and while it does not."""
    folder = Folder()
    listed: set[str] = set()
    for step, number, time in steps:
        name = f"file-{number}"
        match step:
            case "come":
                folder.files[name] = time
            case "touch":
                folder.files |= {each: time for each in folder.files if len(each) % 2}
            case "remove":
                folder.files.pop(name, None)
            case "restart":
                folder.restart()
            case "list":
                folder.list()
                listed |= folder.files.keys()

    assert sorted(folder.read) == sorted(listed)


@pytest.mark.parametrize("runs", [True, False])
def test_a_restore_that_gives_all_files_new_times_has_none_read_again(runs: bool) -> None:
    """As `cp -r` and `s3 sync` do: before a listing, or while nothing runs."""
    folder = Folder(3_000)
    folder.files = dict.fromkeys(folder.files, 9_000)
    if runs:
        folder.list()
    folder.restart()
    folder.list()

    assert len(folder.read) == 3_000


def test_all_files_that_come_under_old_times_while_nothing_runs_are_read() -> None:
    """As `cp -p` brings them, while others are removed and touched."""
    folder = Folder(3_000)
    late = [f"late-{number}" for number in range(1_500)]
    for number in range(100):
        del folder.files[f"file-{number}"]
        folder.files[f"file-{100 + number}"] = 9_000
    folder.files |= dict.fromkeys(late, 5)
    folder.restart()
    folder.list()

    assert sorted(folder.read[3_000:]) == sorted(late)


def test_a_file_that_is_removed_and_comes_back_is_not_read_again() -> None:
    """A listing may miss files for a while: of a mount that is away, say."""
    folder = Folder(40)
    files, folder.files = folder.files, {}
    folder.list()
    folder.restart()
    folder.files = files
    folder.list()

    assert len(folder.read) == 40


def test_a_file_takes_eleven_bytes_of_a_snapshot_however_long_its_name() -> None:
    """A hundred thousand names were six megabytes in each offset."""
    seen = SeenSplits()
    seen.add([f"day={number:012}/part-00000-0b5e0a4e-4f8e-4f7c.json" for number in range(6_000)])

    assert len(seen.snapshot()) == 6_000 * 32 // 3


def test_a_snapshot_is_the_same_after_it_was_read() -> None:
    """A batch that is planned again after a restart has the same offset."""
    seen = SeenSplits.of(["b", "a", "\udcff"])
    restored = SeenSplits.restored(seen.snapshot())
    for each in (seen, restored):
        each.add(["c", "a"])

    assert restored.snapshot() == seen.snapshot()
