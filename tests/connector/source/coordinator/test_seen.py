"""What a watched folder's checkpoint knows of files: each is read once, whatever becomes of it and of its time."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connector.source.coordinator.pull import SeenSplits

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
