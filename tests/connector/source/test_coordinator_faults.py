"""Readers that fail, checkpoints, and jobs that start again, in any order: each split has one reader at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.coordinator.events import (
    AddSplits,
    NoMoreSplits,
    ReaderFailed,
    ReaderReset,
)
from penstock.connector.source.coordinator.pull import PullingEnumerator
from penstock.connector.source.enumerator import MakeEnumerator
from penstock.connector.source.split import Split
from tests.connector.source.coordinating import Job, World

READERS = 3


def owner(split: Split, readers: int) -> int:
    """Spread splits by their number."""
    return int(split.split_id.rpartition("-")[2]) % readers


def pushed(world: World, *, bounded: bool) -> MakeEnumerator:
    """Splits that are pushed to their owners."""
    return partial(
        DiscoveringEnumerator,
        planner=world,
        bounded=bounded,
        discovery_interval_ms=1000,
        owner=owner,
    )


def pulled(world: World, *, bounded: bool) -> MakeEnumerator:
    """Splits that readers ask for."""
    return partial(PullingEnumerator, planner=world, interval_ms=None if bounded else 1000)


@dataclass
class Checkpoint:
    """A complete checkpoint: the coordinator's part, and the splits and ends of each reader."""

    coordinator: Mapping[str, Any] | None = None
    readers: dict[int, list[str]] = field(default_factory=dict)


@dataclass
class Cluster:
    """A job with readers that keep what they are given; every checkpoint completes, as all of them are there then."""

    world: World
    make: Callable[[], MakeEnumerator]
    holds: dict[int, list[str]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    last: tuple[int | None, Checkpoint] = (None, Checkpoint())

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start the job from its last checkpoint; no reader is there yet."""
        _, checkpoint = self.last
        self.job = Job(self.make(), parallelism=READERS, state=checkpoint.coordinator)
        self.holds = {reader: list(ids) for reader, ids in checkpoint.readers.items()}
        self.ended = set()
        self.last = (None, checkpoint)
        self.job.start()
        self.deliver()

    def deliver(self) -> None:
        """Hand readers what they were sent."""
        assert self.job.failure is None
        for reader, event in self.job.sent:
            assert reader in self.job.coordinator.registered_readers
            match event:
                case AddSplits(splits=splits):
                    assert reader not in self.ended
                    self.holds.setdefault(reader, []).extend(s.split_id for s in splits)
                case NoMoreSplits():
                    self.ended.add(reader)
                case _:
                    raise AssertionError(event)
        self.job.sent.clear()

    def step(self, what: str, reader: int) -> None:
        """Let something happen."""
        match what:
            case "register":
                self.job.register(reader)
            case "ask":
                self.job.request(reader)
            case "fail" if reader in self.job.coordinator.registered_readers:
                self.fail(reader)
            case "checkpoint" if len(self.job.coordinator.registered_readers) == READERS:
                self.checkpoint()
            case "found":
                self.world.add(f"t-{len(self.world.owners)}")
            case "tick":
                self.job.tick()
            case "restart":
                self.restart()
        self.deliver()

    def fail(self, reader: int) -> None:
        """Let a reader go back to the last checkpoint."""
        checkpoint_id, checkpoint = self.last
        self.job.handle(ReaderFailed(reader=reader))
        self.job.handle(ReaderReset(reader=reader, checkpoint_id=checkpoint_id))
        self.ended.discard(reader)
        self.holds[reader] = list(checkpoint.readers.get(reader, []))

    def checkpoint(self) -> None:
        """Take one and complete it."""
        checkpoint_id = (self.last[0] or 0) + 1
        state = self.job.checkpoint(checkpoint_id)
        held = {reader: list(ids) for reader, ids in self.holds.items()}
        self.last = (checkpoint_id, Checkpoint(coordinator=state, readers=held))

    def settle(self) -> None:
        """Let all be there and ask until nothing more comes."""
        self.job.tick()
        for reader in range(READERS):
            self.step("register", reader)
        for _ in range(len(self.world.owners) + 1):
            for reader in range(READERS):
                self.step("ask", reader)


steps = st.lists(
    st.tuples(
        st.sampled_from(["register", "ask", "fail", "checkpoint", "found", "tick", "restart"]),
        st.integers(0, READERS - 1),
    ),
    max_size=60,
)


@pytest.mark.slow
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("make", [pushed, pulled])
@given(steps=steps, first=st.integers(0, 5))
def test_each_split_has_one_reader_whatever_fails(
    make: Callable[..., MakeEnumerator], bounded: bool, steps: list[tuple[str, int]], first: int
) -> None:
    """None is lost and none is read by two, none comes after the end, and a bounded scan ends for every reader."""
    world = World(stops={f"t-{n}": 200 for n in range(100)} if bounded else {})
    world.add(*(f"t-{n}" for n in range(first)))
    cluster = Cluster(world=world, make=partial(make, world, bounded=bounded))
    for what, reader in steps:
        cluster.step(what, reader)
    cluster.settle()

    held = sorted(split_id for ids in cluster.holds.values() for split_id in ids)
    assert len(held) == len(set(held))
    assert set(held) <= set(world.owners)
    assert bounded or set(held) == set(world.owners)
    assert set(held) >= {f"t-{n}" for n in range(first)}
    assert cluster.ended == (set(range(READERS)) if bounded else set())
