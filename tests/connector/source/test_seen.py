"""What a watched folder's checkpoint knows of files: bounded, nothing read twice, nothing lost without a word."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connector.source import seen as seen_module
from penstock.connector.source.seen import SeenSplits
from penstock.connector.source.split import Discovery


@pytest.fixture(autouse=True)
def _few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that remembers three names, at most six."""
    monkeypatch.setattr(seen_module, "REMEMBERED", 3)


class Folder:
    """Files by name and time, and what was read of them."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.seen = SeenSplits()
        self.read: list[str] = []

    def list(self) -> None:
        """List it, and read what is new."""
        order = sorted(self.files, key=lambda name: (self.files[name], name))
        found = Discovery(
            owners=dict.fromkeys(order, "f"), incarnations={}, modified_ms=dict(self.files)
        )
        new = self.seen.new_in(found)
        self.seen.add(new, found.modified_ms)
        self.read += new

    def restart(self) -> None:
        """Go on from the checkpoint, as JSON keeps it."""
        self.seen = restored(self.seen)


def restored(seen: SeenSplits) -> SeenSplits:
    return SeenSplits.restored(**json.loads(json.dumps(seen.snapshot())))


def test_a_snapshot_does_not_grow_with_every_file_ever_seen() -> None:
    """A hundred thousand names were six megabytes in each offset."""
    folder = Folder()
    sizes = []
    for number in range(5_000):
        folder.files[f"day={number:012}/part-00000-0b5e0a4e-4f8e-4f7c.json"] = number
        if number % 500 == 499:
            folder.list()
            sizes.append(len(json.dumps(folder.seen.snapshot())))

    assert len(folder.read) == 5_000
    assert max(sizes) - min(sizes) < 100
    assert max(sizes) < 8_000


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.booleans()), max_size=60, unique_by=lambda step: step[0]
    ),
    st.integers(0, 3),
)
def test_each_file_is_read_once_whatever_its_time_and_wherever_a_restart_comes(
    steps: list[tuple[int, bool]], ties: int
) -> None:
    """One file comes at a time, late ones too, before a listing or while nothing runs."""
    folder = Folder()
    for time, restarts in steps:
        folder.files[f"file-{time}"] = time >> ties
        if restarts:
            folder.restart()
        folder.list()
        folder.list()

    assert sorted(folder.read) == sorted(folder.files)


def test_late_files_that_come_while_nothing_runs_are_read() -> None:
    """Twenty under a thousand old ones, some in one bucket."""
    folder = full(1_000)
    late = [f"late-{number}" for number in range(20)]
    folder.files |= dict.fromkeys(late, 5)
    folder.restart()
    folder.list()

    assert sorted(folder.read[1_000:]) == sorted(late)


def full(count: int = 40) -> Folder:
    folder = Folder()
    folder.files = {f"file-{number}": 1_000 + number for number in range(count)}
    folder.list()
    return folder


def test_a_file_whose_time_changes_is_not_read_again() -> None:
    """While the pipeline runs, and while it does not: only what it had when it was found is read."""
    folder = full()
    for name, restarts in (("file-0", False), ("file-1", True), ("file-39", True)):
        folder.files[name] = 5_000
        if restarts:
            folder.restart()
        folder.list()

    assert len(folder.read) == 40


def test_a_file_that_is_removed_and_comes_back_is_not_read_again_by_the_process_that_read_it() -> (
    None
):
    """As before."""
    folder = full()
    time = folder.files.pop("file-0")
    folder.list()
    folder.files["file-0"] = time
    folder.list()

    assert len(folder.read) == 40


def test_what_the_digest_cannot_tell_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Files were removed and added while nobody looked: those that may be new are not read, and named."""
    folder = full(4_000)
    del folder.files["file-0"]
    twin = next(
        name
        for name in map("late-{}".format, range(10_000))
        if seen_module._hash(name) % seen_module.BUCKETS
        == seen_module._hash("file-0") % seen_module.BUCKETS
    )
    folder.files[twin] = 1
    folder.restart()
    with caplog.at_level(logging.WARNING):
        folder.list()
    told = caplog.text
    caplog.clear()
    folder.restart()
    folder.list()

    assert len(folder.read) == 4_000
    assert "old modification times were removed, or added" in told
    assert caplog.text == ""


def test_files_that_are_removed_while_it_runs_leave_nothing_to_tell(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A folder that is cleaned up: the digest goes with it."""
    folder = full(100)
    for number in range(50):
        del folder.files[f"file-{number}"]
    folder.list()
    folder.files["late"] = 7
    folder.restart()
    folder.list()

    assert folder.read[100:] == ["late"]
    assert caplog.text == ""


def test_a_snapshot_of_an_older_version_is_gone_on_with() -> None:
    """It has every name and no times."""
    folder = full(20)
    folder.seen = SeenSplits.restored([*folder.files, "gone"], None, "")
    folder.files["new"] = 9_000
    folder.list()
    folder.restart()
    folder.list()

    assert folder.read[20:] == ["new"]
    assert len(folder.seen.snapshot()["seen"]) <= 6


def test_a_source_that_tells_no_times_is_remembered_whole() -> None:
    """Nothing says which of its names are the oldest."""
    seen = SeenSplits()
    found = Discovery(owners=dict.fromkeys("abcdefghij", "f"), incarnations={})
    seen.add(seen.new_in(found), {})

    assert restored(seen).new_in(found) == ()
    assert len(seen.snapshot()["seen"]) == 10
