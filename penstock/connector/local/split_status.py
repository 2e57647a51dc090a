"""The status of a local job as values: positions, event time and end offsets of its splits.

End offsets are looked up on the worker at intervals, to show how far there is to read.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from penstock.catalog.errors import InputError, RunError
from penstock.connector.contract import SplitMetadataClient
from penstock.connector.local.messages import MasterMessage, SplitOffsetsKnown, WorkFailed
from penstock.connector.local.threads import Worker
from penstock.connector.source.reader.source_operator import SourceOperator
from penstock.connector.source.split import Split, SplitOffsets

logger = logging.getLogger(__name__)


def is_permanent(error: Exception) -> bool:
    """Return whether a failure would recur, or is a bug, rather than being transient."""
    if isinstance(error, RunError):
        return error.permanent
    return isinstance(error, InputError | AssertionError)


class EndOffsetsLookup:
    """Looks up end offsets, one request at a time. Coordinator's thread, but for `ends`, which is
    replaced as a whole.
    """

    def __init__(
        self, planner: SplitMetadataClient, worker: Worker, post: Callable[[MasterMessage], None]
    ) -> None:
        self._planner = planner
        self._worker = worker
        self._post = post
        self._looking = 0
        self.ends: Mapping[str, int] = {}

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return self._looking > 0

    def look(self, split_ids: Collection[str]) -> None:
        """Request the ends of splits; `know` has to be called with the answer, which arrives as SplitOffsetsKnown."""
        if split_ids:
            self._looking += 1
            self._worker.call(partial(self._planner.extents, tuple(split_ids)), self._found)

    def know(self, extents: Mapping[str, SplitOffsets], shown: Collection[str]) -> None:
        """Apply an answer; ends of splits that are neither in it nor `shown` any more are forgotten."""
        self._looking -= 1
        kept = {split_id: end for split_id, end in self.ends.items() if split_id in shown}
        self.ends = {**kept, **{split_id: extent.end for split_id, extent in extents.items()}}

    def _found(self, extents: Mapping[str, SplitOffsets] | None, error: Exception | None) -> None:
        if error is None:
            assert extents is not None, "extents without a result"
            self._post(SplitOffsetsKnown(extents=extents))
        elif is_permanent(error):
            self._post(WorkFailed(error=error))
        else:
            # a lag that is old for a while; whether reading goes on is the readers' part
            logger.debug("the ends of the splits could not be looked up: %s", error)
            self._post(SplitOffsetsKnown(extents={}))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStatus:
    """One split that is being read, or was read to its end (`finished`).

    `start` and `position` are positions: where this run began, and the next to read. `end` is the position behind
    the last record that was there at the last look, None before the first look. `watermark_ms` is epoch ms.
    `held_at_ms` is the limit (epoch ms) that the split's watermark is above, where alignment has paused it.
    """

    split_id: str
    reader: int
    start: int
    position: int
    end: int | None = None
    watermark_ms: int | None = None
    idle: bool = False
    held_at_ms: int | None = None
    finished: bool = False

    @property
    def lag(self) -> int | None:
        """Positions left to the present end; None while the end is unknown."""
        return None if self.end is None else max(self.end - self.position, 0)

    def with_end(self, end: int | None) -> SplitStatus:
        """Add the end that the last look found."""
        return replace(self, end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatus:
    """One reader: its splits, finished ones first, and its part of the event time."""

    reader: int
    splits: tuple[SplitStatus, ...] = ()
    watermark_ms: int | None = None
    idle: bool = False
    finished: bool = False
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJobStatus:
    """The splits by id, and the job's watermark: the lowest of its active readers', which never goes back.

    `skipped` counts the bad records that the table's options left out, `restarts` the readers that failed and were
    started again. `asking`: the planner was asked something and has not answered yet.
    """

    splits: tuple[SplitStatus, ...] = ()
    watermark_ms: int | None = None
    skipped: int = 0
    restarts: int = 0
    asking: bool = False

    @property
    def caught_up(self) -> bool:
        """Whether there are splits, and each was read to the end that the last look found."""
        return bool(self.splits) and all(split.finished or split.lag == 0 for split in self.splits)


FINISHED_SHOWN = 100
"""Splits read to their end whose status is kept; a folder may have millions of files."""


class SplitStatusTracker:
    """The splits of one reader, for display only. The reader's thread."""

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._splits: dict[str, SplitStatus] = {}
        self._finished: deque[SplitStatus] = deque(maxlen=FINISHED_SHOWN)

    @property
    def empty(self) -> bool:
        """Whether no split is being read."""
        return not self._splits

    def add(self, splits: Collection[Split]) -> None:
        """Note splits that are read from their start."""
        for split in splits:
            self._splits[split.split_id] = SplitStatus(
                split_id=split.split_id,
                reader=self._reader,
                start=split.start,
                position=split.start,
            )

    def move(self, positions: Mapping[str, int]) -> None:
        """Note next positions."""
        for split_id, position in positions.items():
            self._splits[split_id] = replace(self._splits[split_id], position=position)

    def finish(self, split_ids: Collection[str], operator: SourceOperator) -> None:
        """Note ends; the operator still has the splits."""
        outputs = {split.split_id: split for split in operator.splits}
        for split_id in sorted(split_ids):
            self._finished.append(
                replace(
                    self._splits.pop(split_id),
                    watermark_ms=outputs[split_id].watermark_ms,
                    finished=True,
                )
            )

    def statuses(self, operator: SourceOperator) -> tuple[SplitStatus, ...]:
        """Return what is shown: splits that ended, then those that are read."""
        reading = (
            replace(
                self._splits[split.split_id],
                watermark_ms=split.watermark_ms,
                idle=split.idle,
                held_at_ms=operator.limit_ms if split.paused else None,
            )
            for split in operator.splits
        )
        return (*self._finished, *reading)
