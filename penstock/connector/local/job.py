"""A local job: one split source, read continuously by threads of this process, until it ends or is stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from penstock.catalog.errors import PenstockError
from penstock.connector.contract import ReadRequest, SplitSource
from penstock.connector.local.job_master import GroupWatermarks, JobMaster, JobParts, JobSettings
from penstock.connector.local.messages import LocalCheckpoint, MasterMessage
from penstock.connector.local.reader import PROBE_INTERVAL_MS, Emission, Output, ReaderContext
from penstock.connector.local.split_status import LocalJobStatus, ReaderStatus
from penstock.connector.local.threads import IntervalClock, SteadyClock, Worker, wall_clock_ms
from penstock.connector.source.coordinator.coordinator import CoordinatorSettings, SourceCoordinator
from penstock.connector.source.reader.reader import SourceReader
from penstock.connector.source.state import MAX_WATERMARK_MS, highest_allowed_ms

STOP_S = 0.9
"""What a stop may take; threads that the outside world keeps longer end by themselves."""


class LocalJob:
    """Reads a source; the consumer takes rows, one thread of its own. Publishes no progress (no group offsets).

    `restored` is a checkpoint to resume from; `on_checkpoint` is called for each complete one, on another thread.
    `board` is shared by the jobs of a process whose tables name the same alignment group. `abandoned`: at the stop a
    call of the planner had not returned; its thread ends with that call.
    """

    def __init__(
        self,
        source: SplitSource,
        settings: JobSettings,
        *,
        clock: IntervalClock | None = None,
        board: GroupWatermarks | None = None,
        restored: LocalCheckpoint | None = None,
        on_checkpoint: Callable[[LocalCheckpoint], None] | None = None,
    ) -> None:
        """Open the planner. Raises StateMismatchError for a checkpoint of another source."""
        clock = clock or SteadyClock()
        self._source = source
        self._settings = settings
        self._output = Output()
        self._planner = source.open_planner(ReadRequest(columns=()))
        self._worker = Worker(clock, "penstock-planner")
        self._watermark_ms: int | None = None
        self.abandoned = False
        aligned = source.watermark.alignment if settings.rowtime is not None else None
        try:
            coordinator = SourceCoordinator(
                CoordinatorSettings(parallelism=settings.readers, alignment=aligned),
                source.enumerator(self._planner),
                None if restored is None else restored.coordinator,
            )
        except PenstockError:
            self._planner.close()
            raise
        parts = JobParts(
            coordinator=coordinator,
            planner=self._planner,
            worker=self._worker,
            clock=clock,
            board=board or GroupWatermarks(),
            alignment=aligned,
            restored=restored,
            on_checkpoint=on_checkpoint or _kept_in_memory,
        )

        def make_context(post: Callable[[MasterMessage], None]) -> ReaderContext:
            return ReaderContext(
                open_reader=self._open_reader,
                output=self._output,
                post=post,
                clock=clock,
                rowtime=settings.rowtime,
                time_zone=settings.time_zone,
                idle_timeout_ms=source.watermark.idle_timeout_ms,
                report_interval_ms=(
                    PROBE_INTERVAL_MS if aligned is None else aligned.update_interval_ms
                ),
                not_after_ms=lambda: highest_allowed_ms(
                    wall_clock_ms(), source.watermark.max_future_ms
                ),
            )

        self._master = JobMaster(settings, parts, make_context)

    def __enter__(self) -> Self:
        """Start reading."""
        self._worker.start()
        self._master.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and give back what the job holds; within a second."""
        self._output.close()
        self._master.stop(STOP_S)
        self.abandoned = not self._worker.close(self._close_planner, STOP_S)

    def take(self, timeout_s: float) -> Emission | None:
        """Return the next rows; waits up to `timeout_s` for some; None when none came. Raises the job's error.

        Rows from before a failure are returned first.
        """
        emission = self._output.take(timeout_s)
        if emission is None and self._master.ended.is_set() and self._master.error is not None:
            raise self._master.error
        return emission

    @property
    def ended(self) -> bool:
        """Whether the source has an end and everything up to it was emitted; `take` may still have some of it."""
        return self._master.ended.is_set()

    @property
    def status(self) -> LocalJobStatus:
        """How the job stands; about a fifth of a second old."""
        readers = self._master.reader_status
        ends = self._master.ends
        lowest_ms = _lowest(readers)
        if lowest_ms is not None and (self._watermark_ms is None or lowest_ms > self._watermark_ms):
            self._watermark_ms = lowest_ms
        return LocalJobStatus(
            splits=tuple(
                split.with_end(ends.get(split.split_id))
                for split in sorted(
                    (split for reader in readers for split in reader.splits),
                    key=lambda split: split.split_id,
                )
            ),
            watermark_ms=self._watermark_ms,
            skipped=sum(reader.skipped for reader in readers),
            restarts=self._master.restarts,
            asking=self._worker.busy,
        )

    def _open_reader(self) -> SourceReader:
        request = ReadRequest(columns=self._settings.columns, time_zone=self._settings.time_zone)
        return SourceReader(lambda: self._source.open_reader(request), model=self._source.fetching)

    def _close_planner(self) -> None:
        with suppress(PenstockError):  # nothing that was read depends on it
            self._planner.close()


def _kept_in_memory(_checkpoint: LocalCheckpoint) -> None:
    """Do nothing more: a failed reader starts from the job's own copy."""


def _lowest(readers: tuple[ReaderStatus, ...]) -> int | None:
    """Return the lowest watermark of the readers that have something to read; None while one of them has none."""
    if readers and all(reader.finished for reader in readers):
        return MAX_WATERMARK_MS
    active = [r for r in readers if r.splits and not r.idle and not r.finished]
    known = [reader.watermark_ms for reader in active if reader.watermark_ms is not None]
    return min(known) if known and len(known) == len(active) else None
