"""Rows of a frame written into files by its tasks, as reading tasks write what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.catalog.model.table import Table
from penstock.connector.contract import MicroBatch, Sink
from penstock.connector.expression import FieldValue
from penstock.connector.file_output import FileOutput, FilledColumn, WrittenByEngine
from penstock.connector.spark.source.columns import FILES, RowFramer
from penstock.connector.spark.source.task import TaskFiles


def filled_columns(table: Table, names: Sequence[str]) -> tuple[FilledColumn, ...]:
    """Columns of a table, filled by columns of the same names and types."""
    return tuple(
        FilledColumn(name=column.name, source=FieldValue(path=(column.name,), type=column.type))
        for column in table.schema.physical
        if column.name in names
    )


def output_of(sink: Sink, table: Table, spark: SparkSession, names: Sequence[str]) -> FileOutput:
    """What the sink asks of tasks that fill these columns."""
    assert sink.task_writer is not None, "tasks write for it"
    output = sink.task_writer.output(filled_columns(table, names), spark)
    assert not isinstance(output, WrittenByEngine), output.reason
    return output


def files_of(frame: DataFrame, output: FileOutput) -> DataFrame:
    """The files that the tasks of a frame write its rows into; they write them when it runs."""
    # PySpark finds no column of a name that has to be quoted
    plain = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
    return plain.mapInArrow(_writing(output, frame.columns), StructType(list(FILES)))


def _writing(
    output: FileOutput, names: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        framer = RowFramer(StructType(list(FILES)), None)
        with closing(TaskFiles(output)) as file:
            for batch in batches:
                file.write(batch.rename_columns(list(names)))
            for written in file.files():
                yield framer.file(written)

    return write


def write_by_tasks(sink: Sink, table: Table, frame: DataFrame, batch: MicroBatch) -> None:
    """Write a micro-batch by files of its tasks."""
    output = output_of(sink, table, batch.spark, frame.columns)
    assert sink.task_writer is not None, "tasks write for it"
    sink.task_writer.write_batch(files_of(frame, output), batch, output)
