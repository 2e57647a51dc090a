"""The columns that a scan sends to Spark: the table's own, and hidden ones that carry the runtime's facts.

    __watermark         TIMESTAMP           the batch's watermark, the same in every row
    __watermark_before  type of the rowtime the watermark before this batch; NULL in a heartbeat row
    __skipped, __future INT                 only in a marker row: bad records left out; those among them of the future
    __lost, __filtered, __merged  BIGINT    only there: positions deleted unread; rows without condition; merged ones
    __row_kind          TINYINT             the kind of a change, where the scan asks for it (ROW_KIND)
    __arrived           STRUCT of integers  which row came first, where the query asks for that (ARRIVED)
    __row               BOOLEAN             stands in where a query asks for no column at all (COUNT(*))

Heartbeat and marker rows have NULL in all columns of the table, so every column may be NULL; `frame.py` filters
them out. Groups and buckets have columns of their own (`typed_columns` of the scan).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.connector.file_output import WrittenFile
from penstock.connector.scan import ARRIVED, ARRIVED_FIELDS, Scan
from penstock.connector.spark.source.offsets import BatchWatermarks
from penstock.connector.spark.types import spark_type

WATERMARK = "__watermark"
WATERMARK_BEFORE = "__watermark_before"
SKIPPED = "__skipped"
FUTURE = "__future"
LOST = "__lost"
FILTERED = "__filtered"
MERGED = "__merged"
ROW = "__row"
FILE = "__file"
FILE_SIZE = "__file_size"
FILE_ROWS = "__file_rows"
FILE_STATISTICS = "__file_statistics"
FILE_PARTITION = "__file_partition"

_SKIPPED = StructField(SKIPPED, IntegerType(), True)
_FUTURE = StructField(FUTURE, IntegerType(), True)
_LOST = StructField(LOST, LongType(), True)
_FILTERED = StructField(FILTERED, LongType(), True)
_MERGED = StructField(MERGED, LongType(), True)
FILES = (
    StructField(FILE, StringType(), True),
    StructField(FILE_SIZE, LongType(), True),
    StructField(FILE_ROWS, LongType(), True),
    StructField(FILE_STATISTICS, StringType(), True),
    StructField(FILE_PARTITION, ArrayType(StringType(), True), True),
)
"""The columns where tasks write the rows into files of the target, in place of those of the table.

A file's path in the table (NULL: its rows were only counted), its bytes, rows, statistics as JSON and the values of its
partition.
"""


def scan_schema(scan: Scan, *, counts_skipped: bool, counts_lost: bool = False) -> StructType:
    """Return the schema of the frame that Spark gets from the data source, hidden columns included."""
    markers = [_SKIPPED, _FUTURE] if counts_skipped else []
    markers += [_LOST] if counts_lost else []
    markers += [_FILTERED] if scan.condition is not None else []
    makes_others = (scan.aggregate, scan.unnesting, scan.buckets)
    markers += [_MERGED] if any(one is not None for one in makes_others) else []
    if scan.output is not None:
        return StructType([*FILES, *markers])
    fields = [
        StructField(name, spark_type(logical), True) for name, logical in scan.typed_columns()
    ]
    if scan.rowtime is not None:
        before = TimestampType() if scan.rowtime.instant else TimestampNTZType()
        fields += [
            StructField(WATERMARK, TimestampType(), True),
            StructField(WATERMARK_BEFORE, before, True),
        ]
    if scan.input is not None:
        order = [StructField(name, LongType(), False) for name in ARRIVED_FIELDS]
        fields.append(StructField(ARRIVED, StructType(order), True))
    fields += markers
    return StructType(fields or [StructField(ROW, BooleanType(), True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """When rows of one split came: the fields of ARRIVED, `position` that of the first row."""

    batch: int
    input: int
    split: int
    position: int


class RowFramer:
    """Puts the hidden columns around decoded batches; every batch comes out with exactly the schema's types.

    Spark checks only the first batch of a task and trusts the others (SPARK-55583).
    """

    def __init__(self, schema: StructType, watermarks: BatchWatermarks | None) -> None:
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._watermarks = watermarks

    def rows(self, batch: pa.RecordBatch, came: Came | None = None) -> pa.RecordBatch:
        """Frame rows of the table."""
        constants = self._constants(batch.num_rows)
        names = set(batch.schema.names)

        def column(field: pa.Field) -> pa.Array:
            if field.name in names:
                array = batch.column(field.name)
                return (
                    array
                    if array.type.equals(field.type, check_metadata=True)
                    else array.cast(field.type)
                )
            if field.name == ARRIVED and came is not None:
                return _arrived(field, came, batch.num_rows)
            return constants(field)

        return self._assemble(column)

    def heartbeat(self) -> pa.RecordBatch:
        """Make the row that only carries the watermark."""
        constants = self._constants(1)
        return self._assemble(
            lambda field: constants(field) if field.name == WATERMARK else pa.nulls(1, field.type)
        )

    def left_out(
        self, skipped: int, filtered: int, merged: int = 0, *, future: int = 0, lost: int = 0
    ) -> pa.RecordBatch:
        """Make the row with the numbers of what is left out: bad records (with `future` ones among them), rows without
        the scan's condition, and rows less the groups or the rows of arrays that they became; and of positions that
        were `lost`.
        """
        constants = self._constants(1)
        counts = {
            SKIPPED: skipped,
            FUTURE: future,
            LOST: lost,
            FILTERED: filtered,
            MERGED: merged,
        }

        def column(field: pa.Field) -> pa.Array:
            if field.name in counts:
                return pa.array([counts[field.name]], field.type)
            if field.name in (WATERMARK, WATERMARK_BEFORE):
                return constants(field)
            return pa.nulls(1, field.type)

        return self._assemble(column)

    def file(self, file: WrittenFile) -> pa.RecordBatch:
        """Make the row of a file that was written."""
        values = {
            FILE: file.path or None,
            FILE_SIZE: file.size_bytes,
            FILE_ROWS: file.rows,
            FILE_STATISTICS: file.statistics,
            FILE_PARTITION: list(file.partition),
        }
        return self._assemble(lambda field: pa.array([values.get(field.name)], field.type))

    def _constants(self, length: int) -> Callable[[pa.Field], pa.Array]:
        def constant(field: pa.Field) -> pa.Array:
            if self._watermarks is None or field.name not in (WATERMARK, WATERMARK_BEFORE):
                return pa.nulls(length, field.type)
            at_ms = (
                self._watermarks.now_ms if field.name == WATERMARK else self._watermarks.before_ms
            )
            return pa.repeat(pa.scalar(at_ms * 1000, pa.int64()), length).cast(field.type)

        return constant

    def _assemble(self, column: Callable[[pa.Field], pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [column(field) for field in self._schema], schema=self._schema
        )


def _arrived(field: pa.Field, came: Came, length: int) -> pa.Array:
    position = pa.array(np.arange(came.position, came.position + length, dtype=np.int64))
    constants = (came.batch, came.input, came.split)
    repeated = [pa.repeat(pa.scalar(value, pa.int64()), length) for value in constants]
    return pa.StructArray.from_arrays([*repeated, position], fields=list(field.type))
