"""A source in memory that tests write to while a job reads it, and that fails when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from penstock.catalog.errors import TopicChangedError
from penstock.catalog.model.types import LogicalType
from penstock.connector.contract import Accept, FetcherModel, ReadRequest
from penstock.connector.local.job import LocalJob
from penstock.connector.local.job_master import JobSettings
from penstock.connector.local.messages import LocalCheckpoint
from penstock.connector.local.reader import Emission
from penstock.connector.local.split_status import LocalJobStatus
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.scan import Rowtime
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.coordinator.pull import PullingEnumerator
from penstock.connector.source.enumerator import MakeEnumerator, SplitEnumerator
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Discovery, Split, SplitOffsets

DEADLINE_S = 20.0
RECORDS_A_FETCH = 5
FETCH_S = 1.0

ROWTIME = Rowtime(
    column="ts", inputs=("ts",), expression="make_timestamp(ts * 1000)", instant=False
)
"""The watermark of a record is its `ts`, in ms."""

SETTINGS = JobSettings(columns=("split", "n", "ts"), restart_delay_ms=10)


class World:
    """What there is to read: for each split the event times (ms) of its records, by position. Any thread."""

    def __init__(self, records: Mapping[str, Sequence[int]]) -> None:
        self.changed = threading.Condition()
        self.records = {split_id: list(times) for split_id, times in records.items()}
        self.failures: dict[str, list[tuple[int, Exception]]] = {}
        self.open_readers = 0
        self.planner_threads: set[int] = set()
        self.planner_closed = threading.Event()
        self.answers = threading.Event()
        self.answers.set()

    def add(self, split_id: str, times: Iterable[int]) -> None:
        """Write records, to a new split if need be."""
        with self.changed:
            self.records.setdefault(split_id, []).extend(times)
            self.changed.notify_all()

    def fail_once(self, split_id: str, position: int, error: Exception, times: int = 1) -> None:
        """Have the next fetches of the record at `position` fail."""
        self.failures.setdefault(split_id, []).extend([(position, error)] * times)


class ScriptedReader:
    """A SplitReader over the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._splits: dict[str, Split] = {}
        self._positions: dict[str, int] = {}
        self._paused: set[str] = set()
        self._woken = False
        world.open_readers += 1

    def add_splits(self, splits: Sequence[Split]) -> None:
        for split in splits:
            self._splits[split.split_id] = split
            self._positions[split.split_id] = split.start

    def fetch(self) -> RecordsWithSplitIds:
        with self._world.changed:
            self._world.changed.wait_for(lambda: self._woken or self._ready(), FETCH_S)
            self._woken = False
            batches = [(i, self._read(i)) for i in self._ready()]
        finished = frozenset(
            i
            for i, s in self._splits.items()
            if s.stop is not None and self._positions[i] >= s.stop
        )
        for split_id in finished:
            del self._splits[split_id]
        moved = {i: self._positions[i] for i, _ in batches}
        return RecordsWithSplitIds(
            batches=tuple((i, batch) for i, batch in batches if batch.num_rows),
            finished=finished,
            positions=moved,
        )

    def _ready(self) -> list[str]:
        return [
            i for i in self._splits if i not in self._paused and self._positions[i] < self._end(i)
        ]

    def _end(self, split_id: str) -> int:
        stop = self._splits[split_id].stop
        written = len(self._world.records[split_id])
        return written if stop is None else min(stop, written)

    def _read(self, split_id: str) -> pa.RecordBatch:
        start = self._positions[split_id]
        stop = min(self._end(split_id), start + RECORDS_A_FETCH)
        failures = self._world.failures.get(split_id)
        if failures and start <= failures[0][0] < stop:
            raise failures.pop(0)[1]
        self._positions[split_id] = stop
        return pa.record_batch(
            {
                "split": pa.array([split_id] * (stop - start)),
                "n": pa.array(range(start, stop), pa.int64()),
                "ts": pa.array(self._world.records[split_id][start:stop], pa.int64()),
            }
        )

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        self._paused = (self._paused - set(resume)) | set(pause)

    def wake_up(self) -> None:
        with self._world.changed:
            self._woken = True
            self._world.changed.notify_all()

    def close(self) -> None:
        self._world.open_readers -= 1


@dataclass(slots=True)
class ScriptedPlanner:
    """A SplitPlanner over the world; notes the threads that call it."""

    world: World
    bounded: bool

    def _called(self) -> None:
        self.world.planner_threads.add(threading.get_ident())

    def list_splits(self) -> Discovery:
        self._called()
        assert self.world.answers.wait(DEADLINE_S), "the world never answered"
        with self.world.changed:
            ids = sorted(self.world.records)
        return Discovery(owners=dict.fromkeys(ids, "world"), source_ids={"world": "1"})

    def start_positions(
        self, split_ids: Sequence[str], *, first_listing: bool
    ) -> Mapping[str, int]:
        self._called()
        return dict.fromkeys(split_ids, 0)

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        self._called()
        return {i: len(self.world.records[i]) for i in split_ids} if self.bounded else {}

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, SplitOffsets]:
        self._called()
        return {i: SplitOffsets(first=0, end=len(self.world.records[i])) for i in split_ids}

    def peek(
        self,
        ranges: Mapping[str, tuple[int, int]],
        accept: Accept | None = None,
    ) -> Mapping[str, pa.RecordBatch]:
        raise AssertionError("a local job does not peek")

    def split(self, split_id: str, start: int, stop: int | None) -> Split:
        self._called()
        return Split(split_id=split_id, start=start, stop=stop)

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:
        raise AssertionError("nothing is lost here")

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        return TopicChangedError(f"{owner} was {known}, is {found}")

    def commit(self, positions: Mapping[str, int]) -> None:
        raise AssertionError("a local job publishes no progress")

    def close(self) -> None:
        self._called()
        self.world.planner_closed.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedSource:
    """A SplitSource over the world: pushed splits, owned by the number at their end, or pulled ones."""

    world: World
    bounded: bool = False
    pulled: bool = False
    fetching: FetcherModel = FetcherModel.MULTIPLEXED
    discovery_interval_ms: int = 0
    watermark: WatermarkSettings = field(default_factory=WatermarkSettings)
    metadata_types: Mapping[str, LogicalType] = field(default_factory=dict)
    skips_bad_records: bool = False
    tolerates_loss: bool = False
    max_records_per_batch: int | None = None
    parallelism: int | None = None

    @property
    def enumerator_type(self) -> type[SplitEnumerator]:
        """The class of its enumerators."""
        return PullingEnumerator if self.pulled else DiscoveringEnumerator

    def enumerator(self, planner: ScriptedPlanner) -> MakeEnumerator:
        if self.pulled:
            return partial(PullingEnumerator, planner=planner, interval_ms=None)
        return partial(
            DiscoveringEnumerator,
            planner=planner,
            bounded=self.bounded,
            discovery_interval_ms=self.discovery_interval_ms,
            owner=lambda split, readers: int(split.split_id[-1]) % readers,
        )

    def open_planner(self, peeked: ReadRequest) -> ScriptedPlanner:
        return ScriptedPlanner(self.world, self.bounded or self.pulled)

    def open_reader(self, request: ReadRequest) -> ScriptedReader:
        return ScriptedReader(self.world)


class Rows:
    """The rows a job gave, by split: positions in the order they came."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = {}
        self.watermarks_ms: list[int | None] = []

    def add(self, emission: Emission) -> None:
        self.seen.setdefault(emission.split_id, []).extend(emission.batch.column("n").to_pylist())
        self.watermarks_ms.append(emission.watermark_ms)

    def count(self) -> int:
        return sum(map(len, self.seen.values()))


def read_until(job: LocalJob, rows: Rows, until: Callable[[], bool]) -> Rows:
    """Take rows until a condition holds; fails past the deadline."""
    give_up_s = time.monotonic() + DEADLINE_S
    while not until():
        assert time.monotonic() < give_up_s, f"{rows.seen}, {job.status}"
        emission = job.take(0.05)
        if emission is not None:
            rows.add(emission)
    return rows


def drain(job: LocalJob, rows: Rows) -> Rows:
    """Take rows until none came for a while."""
    while (emission := job.take(0.2)) is not None:
        rows.add(emission)
    return rows


def read_all(job: LocalJob) -> Rows:
    """Take every row of a source that ends."""
    return drain(job, read_until(job, Rows(), lambda: job.ended))


def split_status(status: LocalJobStatus, split_id: str) -> dict[str, object]:
    """Give what a status says of one split."""
    for split in status.splits:
        if split.split_id == split_id:
            return {
                name: getattr(split, name)
                for name in ("position", "lag", "watermark_ms", "idle", "held_at_ms")
            }
    return {}


class Checkpoints:
    """A listener that keeps checkpoints."""

    def __init__(self) -> None:
        self.taken: list[LocalCheckpoint] = []

    def __call__(self, checkpoint: LocalCheckpoint) -> None:
        self.taken.append(checkpoint)
