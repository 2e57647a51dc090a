"""The connector of the simulations: planner, split reader and source over a model of the outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.errors import BrokerUnavailableError
from penstock.catalog.model.types import LogicalType
from penstock.connector.contract import Accept, FetcherModel, ReadRequest
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.coordinator.pull import PullingEnumerator
from penstock.connector.source.enumerator import MakeEnumerator, SplitEnumerator
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Discovery, Split, SplitOffsets, TaskSize
from tests.simulation.outside import Content, Outside
from tests.simulation.scheduler import Violation

__all__ = ["ModelPlanner", "ModelReader", "ModelSource", "ModelSplit", "latest_ms"]

OWNER = "topic"
MOST_STEPS = 4
"""Records that a peek looks at; past them it has no answer, which only delays the watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSplit(Split):
    """The connector's own split: a reader takes no other."""


class ModelPlanner:
    """A SplitPlanner over the outside."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def _call(self) -> dict[str, Content]:
        if self._outside.away:
            self._outside.away -= 1
            self._outside.run.probe("outside away")
            raise BrokerUnavailableError("the outside is away")
        return self._outside.splits

    def list_splits(self) -> Discovery:
        """List the splits that exist now."""
        return Discovery(owners=dict.fromkeys(self._call(), OWNER), source_ids={OWNER: "1"})

    def start_positions(
        self, split_ids: Sequence[str], *, first_listing: bool
    ) -> Mapping[str, int]:
        """Give the startup positions, or the earliest."""
        splits = self._call()
        return {i: splits[i].first if first_listing else 0 for i in split_ids}

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Give the ends of bounded splits."""
        splits = self._call()
        stops = {i: splits[i].stop for i in split_ids}
        return {i: stop for i, stop in stops.items() if stop is not None}

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, SplitOffsets]:
        """Tell what each split holds now."""
        splits = self._call()
        return {i: SplitOffsets(first=0, end=len(splits[i].times)) for i in split_ids}

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Read the last record of each range; with `accept` step back, but not for long."""
        splits = self._call()
        found: dict[str, pa.RecordBatch] = {}
        for split_id, (start, stop) in ranges.items():
            content = splits[split_id]
            last = content.positions(start, stop)[: -1 - (MOST_STEPS if accept else 1) : -1]
            for position in last:
                row = rows(content, [position])
                if accept is None or accept({split_id: row}):
                    found[split_id] = row
                    break
                self._outside.run.probe("peek stepped back")
        return found

    def split(self, split_id: str, start: int, stop: int | None) -> Split:
        """Make the connector's own split."""
        return ModelSplit(split_id=split_id, start=start, stop=stop, owner=OWNER)

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:
        """Nothing is ever lost outside."""
        raise Violation(f"{split_id} is said to have lost {position}, it holds {extent}")

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        """Nothing is ever made again outside."""
        raise Violation(f"{owner} is said to have changed from {known} to {found}")

    def commit(self, positions: Mapping[str, int]) -> None:
        """Note the progress."""
        self._outside.published.update(positions)

    def close(self) -> None:
        """Nothing is held."""


class ModelReader:
    """A SplitReader over the outside that never waits: it gives what it has, some of it, or nothing."""

    def __init__(self, outside: Outside, fetch_size: int) -> None:
        self._outside = outside
        self._fetch_size = fetch_size
        self._splits: dict[str, Split] = {}
        self._positions: dict[str, int] = {}
        self._paused: set[str] = set()
        self._closed = False

    def fetch(self) -> RecordsWithSplitIds:
        """Read a little of some splits."""
        if self._closed:
            raise Violation("a closed split reader is asked for records")
        run = self._outside.run
        if self._outside.broken and self._splits:
            self._outside.broken -= 1
            run.probe("fetch failed")
            raise BrokerUnavailableError("the outside broke off")
        before = dict(self._positions)
        read = {i: self._read(i) for i in self._splits if i not in self._paused and run.chance(70)}
        batches = tuple((i, batch) for i, batch in read.items() if batch.num_rows)
        finished = frozenset(i for i, s in self._splits.items() if self._at_end(s))
        for split_id in finished:
            del self._splits[split_id]
        return RecordsWithSplitIds(
            batches=batches,
            finished=finished,
            positions={i: self._positions[i] for i in read if self._positions[i] != before[i]},
        )

    def _at_end(self, split: Split) -> bool:
        return (
            split.split_id not in self._paused
            and split.stop is not None
            and self._positions[split.split_id] >= split.stop
        )

    def _read(self, split_id: str) -> pa.RecordBatch:
        content, start = self._outside.splits[split_id], self._positions[split_id]
        stop = self._splits[split_id].stop
        end = len(content.times) if stop is None else min(stop, len(content.times))
        until = min(end, start + 1 + int(self._outside.run.random.random() * self._fetch_size))
        self._positions[split_id] = max(start, until)
        return rows(content, content.positions(start, until))

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Take on splits."""
        for split in splits:
            if not isinstance(split, ModelSplit):
                raise Violation(
                    f"a split that is not the connector's own reached its reader: {split}"
                )
            self._splits[split.split_id] = split
            self._positions[split.split_id] = split.start

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Stop or go on with splits."""
        self._paused = (self._paused - set(resume)) | set(pause)

    def wake_up(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Give no more."""
        self._closed = True


def rows(content: Content, positions: Sequence[int]) -> pa.RecordBatch:
    """Make the batch of some positions."""
    return pa.record_batch(
        {
            "position": pa.array(positions, pa.int64()),
            "time": pa.array([content.time(i) for i in positions], pa.timestamp("ms")),
        }
    )


def latest_ms(batch: pa.RecordBatch) -> int | None:
    """Give the highest event time of a batch; None where all are NULL."""
    latest = pc.max(batch.column("time"))
    return int(latest.value) if latest.is_valid else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """A SplitSource over the outside. `pulled`: splits are given on request, else they are pushed to their owner."""

    outside: Outside
    bounded: bool
    pulled: bool
    discovery_interval_ms: int
    fetching: FetcherModel = FetcherModel.MULTIPLEXED
    fetch_size: int = 5
    watermark: WatermarkSettings = field(default_factory=WatermarkSettings)
    max_records_per_batch: int | None = None
    parallelism: int | None = None
    task_size: TaskSize | None = None
    skips_bad_records: bool = False
    tolerates_loss: bool = False
    metadata_types: Mapping[str, LogicalType] = field(default_factory=dict)

    @property
    def enumerator_type(self) -> type[SplitEnumerator]:
        """The class of its enumerators."""
        return PullingEnumerator if self.pulled else DiscoveringEnumerator

    def enumerator(self, planner: ModelPlanner) -> MakeEnumerator:
        """Give what makes the enumerator."""
        if self.pulled:
            interval_ms = None if self.bounded else self.discovery_interval_ms
            return partial(PullingEnumerator, planner=planner, interval_ms=interval_ms)
        return partial(
            DiscoveringEnumerator,
            planner=planner,
            bounded=self.bounded,
            discovery_interval_ms=self.discovery_interval_ms,
            owner=lambda split, readers: int(split.split_id.rpartition("-")[2]) % readers,
        )

    def open_planner(self, peeked: ReadRequest) -> ModelPlanner:
        """Open the driver's side."""
        return ModelPlanner(self.outside)

    def open_reader(self, request: ReadRequest) -> ModelReader:
        """Open a task's side."""
        return ModelReader(self.outside, self.fetch_size)
