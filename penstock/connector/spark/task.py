"""The work of one Spark task: reads its ranges through the split runtime and frames the rows for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.catalog.errors import PenstockError
from penstock.connector.contract import ReadRequest, SplitSource
from penstock.connector.far_future import FutureGuard
from penstock.connector.scan import Scan
from penstock.connector.source.reader import SourceReader
from penstock.connector.spark.columns import RowFramer
from penstock.connector.spark.failure import SparkReadableError
from penstock.connector.spark.offsets import TaskPartition

__all__ = ["read_partition"]


def read_partition(
    partition: TaskPartition, scan: Scan, source: SplitSource, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task's ranges as record batches of `schema`; in split order within each range."""
    framer = RowFramer(schema, partition.watermarks)
    if partition.heartbeat:
        yield framer.heartbeat()
    guard = FutureGuard(scan, source.watermark, partition.splits, partition.not_after_ms)
    request = ReadRequest(columns=guard.columns(scan.columns), origins=guard.needs_origins)
    try:
        with (
            closing(guard),
            SourceReader(lambda: source.open_reader(request), model=source.fetching) as reader,
        ):
            reader.add_splits(partition.splits)
            reader.notify_no_more_splits()
            for records in reader.read_to_end():
                for _, batch in guard.batches(records):
                    yield framer.rows(batch)
            skipped = reader.skipped if source.skips_bad_records else 0
    except PenstockError as error:
        raise SparkReadableError(error) from error
    if skipped + guard.left_out:
        yield framer.skipped(skipped + guard.left_out)
