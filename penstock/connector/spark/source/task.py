"""The work of one Spark task: reads its ranges through the split runtime, and frames the rows for Spark or writes
them into the target.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from penstock.catalog.errors import SinkError
from penstock.connector.bad_records.collector import BadRecordCollector
from penstock.connector.bad_records.files import DeadLetterDirectory
from penstock.connector.contract import ReadRequest, SplitSource
from penstock.connector.event_time.future_timestamps import FutureTimestampFilter
from penstock.connector.event_time.reports import RangeReporter
from penstock.connector.expression import Expression
from penstock.connector.failpoints import reach
from penstock.connector.file_output import FileOutput, RecordOutput, TaskRecords, WrittenFile
from penstock.connector.fragments import RowFilter
from penstock.connector.options.bad_records import bad_record_settings
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.registry import connector_of
from penstock.connector.scan import Scan
from penstock.connector.source.reader.reader import SourceReader
from penstock.connector.source.reader.split_order import SplitOrder
from penstock.connector.spark.durable_files import sync_below, umask_of_folder
from penstock.connector.spark.errors import readable_by_spark
from penstock.connector.spark.files.table_files import TableFiles
from penstock.connector.spark.source.buckets import RowBuckets
from penstock.connector.spark.source.columns import Came, RowFramer
from penstock.connector.spark.source.first_phase import FirstPhase
from penstock.connector.spark.source.offsets import TaskPartition
from penstock.connector.spark.source.unnesting import RowUnnester

_BATCH_ID = "streaming.sql.batchId"
PASSED_OVER = "penstock.batchPassedOver"
"""A property of the jobs of a batch that its table has already: rows are read and counted, and no file is written."""
BATCH_OF_SINK = "penstock.batchOfSink"
"""A property of the jobs of a batch: what the sink says of it to its tasks; of files, the folder below the output's."""
_LETTERS = "where its bad records belong"
_ORDER = "which rows came first"


def read_partition(
    partition: TaskPartition, scan: Scan, source: SplitSource, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task's ranges as record batches of `schema`; in split order within each range.

    Ranges come as they are read, or one after the other where the scan asks for that.

    A scan with an output yields what they were written to instead, one with an aggregate their groups, one with buckets
    what is in these; groups and files may be of the rows that arrays become. Event times are those of all rows that
    are read, whether the scan's condition holds for them or not.
    """
    framer = RowFramer(schema, partition.watermarks)
    arrivals = None if scan.input is None else _Arrivals(partition, scan, scan.input)
    if partition.heartbeat and scan.output is None:
        yield framer.heartbeat()
    passed = RowFilter(scan.condition)
    groups = _collector(scan)
    unnester = _unnester(scan)
    with readable_by_spark(), closing(_output(scan, partition)) as output:
        bad = _bad_record_collector(partition, scan, source.watermark)
        guard = _future_timestamps(partition, scan, source.watermark, bad)
        request = ReadRequest(
            columns=guard.columns(scan.columns),
            origins=guard.needs_origins,
            time_zone=scan.time_zone,
        )
        with (
            closing(bad),
            SourceReader(lambda: source.open_reader(request), model=source.fetching) as reader,
        ):
            reader.add_splits(partition.splits)
            reader.notify_no_more_splits()
            for split_id, batch in _delivered(reader, scan, partition, bad, guard):
                reach("read")
                for rows in unnester.rows(passed.passing(batch)):
                    if scan.output is not None:
                        output.write(rows)
                    elif groups is not None:
                        yield from map(framer.rows, groups.add(rows))
                    elif rows.num_rows or not batch.num_rows:
                        came = None if arrivals is None else arrivals.next(split_id, rows.num_rows)
                        yield framer.rows(rows, came)
            if groups is not None:
                yield from map(framer.rows, groups.finish())
            for file in output.files():
                reach("file-written")
                yield framer.file(file)
            reach("read-to-end")
            skipped = reader.skipped if source.skips_bad_records else 0
            lost = reader.lost if source.tolerates_loss else 0
    left_out = skipped + guard.left_out
    merged = (0 if groups is None else groups.merged) - unnester.more
    if left_out or passed.left_out or merged or lost:
        yield framer.left_out(left_out, passed.left_out, merged, future=guard.left_out, lost=lost)
    freeze_modules()


def _delivered(
    reader: SourceReader,
    scan: Scan,
    partition: TaskPartition,
    bad: BadRecordCollector,
    guard: FutureTimestampFilter,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield what is read of each split, without the records that are left out."""
    order = SplitOrder([s.split_id for s in partition.splits]) if scan.split_by_split else None
    for records in reader.read_to_end():
        bad.take(records)
        delivered = guard.batches(records)
        bad.finish(records.finished)
        if order is None:
            yield from delivered
            continue
        yield from order.take(delivered, records.finished)
        if change := order.change():
            reader.pause_or_resume_splits(change.pause, change.resume)
    if order is not None:
        order.check_end()


@dataclass(slots=True)
class _Worker:
    """The process of Spark that tasks run in, one after the other."""

    frozen: bool = False


_WORKER = _Worker()


def freeze_modules() -> None:
    """Leave what is loaded by now out of all later garbage collections, once in a worker of Spark.

    Spark's daemon collects garbage after each task, which takes some forty milliseconds for the modules alone.
    """
    if _WORKER.frozen or TaskContext.get() is None:
        return
    _WORKER.frozen = True
    gc.collect()
    gc.freeze()


def _future_timestamps(
    partition: TaskPartition, scan: Scan, settings: WatermarkSettings, bad: BadRecordCollector
) -> FutureTimestampFilter:
    return FutureTimestampFilter(
        scan,
        settings,
        partition.not_after_ms,
        bad,
        _reporter(partition, scan),
        late=_late(partition),
    )


def _collector(scan: Scan) -> FirstPhase | RowBuckets | None:
    """Return what makes other rows of those that are read; None where Spark gets these."""
    if scan.buckets is not None:
        return RowBuckets(scan.buckets)
    return None if scan.aggregate is None else FirstPhase(scan.aggregate)


def _unnester(scan: Scan) -> RowUnnester:
    """Return what makes rows of arrays, with the columns that are written or grouped."""
    used: list[Expression] = []
    if scan.output is not None:
        used += [column.source for column in scan.output.filled]
    if scan.aggregate is not None:
        used += scan.aggregate.inputs()
    return RowUnnester(scan.unnesting, used)


def _output(scan: Scan, partition: TaskPartition) -> TaskFiles | RecordWriter:
    """Open what takes the rows of a task."""
    output, context = scan.output, TaskContext.get()
    if not isinstance(output, RecordOutput):
        return TaskFiles(output)
    assert context is not None, "records are written by tasks"
    return RecordWriter(
        output,
        project=Path(scan.project),
        task=context.partitionId() if partition.slot is None else partition.slot,
        note=context.getLocalProperty(BATCH_OF_SINK),
        passed_over=context.getLocalProperty(PASSED_OVER) is not None,
    )


class TaskFiles:
    """The files of a task that writes its rows itself; one that does not takes none of them."""

    def __init__(self, output: FileOutput | None) -> None:
        self._wanted = output is not None
        self._files: TableFiles | None = None
        self._counted = 0
        context = TaskContext.get()
        passed_over = context is not None and context.getLocalProperty(PASSED_OVER) is not None
        if output is not None and not passed_over:
            below = None if context is None else context.getLocalProperty(BATCH_OF_SINK)
            output = replace(output, folder=f"{output.folder}/{below}") if below else output
            self._files = TableFiles(
                output,
                0 if context is None else context.partitionId(),
                sync=sync_below,
                umask=umask_of_folder(Path(output.folder) / "file"),
            )

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows into files. Raises SinkError."""
        if self._files is not None:
            self._files.write(batch)
        self._counted += batch.num_rows

    def files(self) -> Iterator[WrittenFile]:
        """Complete the files, if there are some; rows that were only counted are a file without a name."""
        if self._files is not None:
            written = self._files.finish()
            self._files = None
            yield from written
        elif self._wanted and self._counted:
            yield WrittenFile(path="", size_bytes=0, rows=self._counted, statistics="")

    def close(self) -> None:
        """Remove files that were not completed."""
        if self._files is not None:
            self._files.discard()


class RecordWriter:
    """Writes the rows of a task by the sink of the output's table; those of a batch that is passed over are counted."""

    def __init__(
        self,
        output: RecordOutput,
        *,
        project: Path,
        task: int,
        note: str | None,
        passed_over: bool,
    ) -> None:
        self._rows = 0
        self._records: TaskRecords | None = None
        if not passed_over:
            writer = connector_of(output.table, project=project).sink(output.table).task_writer
            assert writer is not None, "it gave the output"
            self._records = writer.open(output, task, note)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows. Raises SinkError, StateMismatchError, BrokerUnavailableError."""
        if self._records is not None and batch.num_rows:
            self._records.write(batch)
        self._rows += batch.num_rows

    def files(self) -> Iterator[WrittenFile]:
        """Complete the records, and tell how many rows there were; those that were only counted have no name."""
        name = "" if self._records is None else self._records.finish()
        yield WrittenFile(path=name, size_bytes=0, rows=self._rows, statistics="")

    def close(self) -> None:
        """Drop what is not complete."""
        if self._records is not None:
            self._records.close()


class _Arrivals:
    """Counts the rows of a task's ranges, each from its first position on."""

    def __init__(self, partition: TaskPartition, scan: Scan, number: int) -> None:
        self._input = number
        # what is read once has no batches
        self._batch = 0 if scan.event_times is None else _known_batch_id(scan, _ORDER)
        self._splits = {
            split.split_id: number
            for split, number in zip(partition.splits, partition.numbers, strict=True)
        }
        self._next = {split.split_id: split.start for split in partition.splits}

    def next(self, split_id: str, rows: int) -> Came:
        """Return the arrival times of the next `rows` rows of a split."""
        position = self._next[split_id]
        self._next[split_id] = position + rows
        return Came(
            batch=self._batch, input=self._input, split=self._splits[split_id], position=position
        )


def _late(partition: TaskPartition) -> Mapping[str, int]:
    """Return the watermark (epoch ms) by which rows of a split are counted as late, where they are."""
    if partition.watermarks is None:
        return {}
    return dict.fromkeys(partition.counts_late, partition.watermarks.before_ms)


def _reporter(partition: TaskPartition, scan: Scan) -> RangeReporter | None:
    """Make the reporter of event times to planning; None where they were not requested, so that
    they are not even computed.
    """
    if partition.reports is None:
        return None
    known_ms = dict(partition.known_ms)
    return RangeReporter(partition.reports, partition.splits, known_ms, access=scan.access)


def _bad_record_collector(
    partition: TaskPartition, scan: Scan, settings: WatermarkSettings
) -> BadRecordCollector:
    table, path = str(scan.table.identifier), settings.dead_letter_path
    directory = None
    if path is not None:
        directory = DeadLetterDirectory(
            path, Path(scan.project), table, partition.splits, access=scan.access
        )
    batch_id = None if scan.staging is None else _known_batch_id(scan, _LETTERS)
    return BadRecordCollector(
        bad_record_settings(scan.table),
        table,
        partition.splits,
        batch_positions=partition.batch_positions,
        staging=scan.staging,
        batch_id=batch_id,
        directory=directory,
        access=scan.access,
    )


def _known_batch_id(scan: Scan, unknown: str) -> int:
    """Return the micro-batch of a stream. Raises SinkError, naming what is `unknown` without it."""
    batch_id = _batch_id()
    if batch_id is None:
        raise SinkError(
            f"table {scan.table.identifier}: a task cannot tell which batch it reads for, so it cannot say {unknown}",
            hint="a sink has to read the batch on the thread that Spark calls it on, or a thread started from there "
            "with pyspark.InheritableThread",
        )
    return batch_id


def _batch_id() -> int | None:
    """Return the micro-batch that the task belongs to; None outside of a streaming query."""
    context = TaskContext.get()
    # set by Spark for the jobs of a micro-batch (StreamExecution); its foreach writer reads it so too
    text = context.getLocalProperty(_BATCH_ID) if context is not None else None
    return None if text is None else int(text)
