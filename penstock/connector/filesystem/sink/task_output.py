"""What tasks need to write the Parquet files of a table, decided by its definition; or why Spark writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.connector.file_output import (
    PARTITIONED_BY,
    FileColumn,
    FileOutput,
    FilledColumn,
    WrittenByEngine,
    cast_reason,
    stored_type,
    strict_inside,
)
from penstock.connector.filesystem.sink.target import PARQUET_CODEC, FileTarget
from penstock.connector.filesystem.table import options as o
from penstock.connector.spark.sink.task_files import compressed, for_session
from penstock.connector.urls import is_remote, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def task_output(
    target: FileTarget, filled: Sequence[FilledColumn], spark: SparkSession | None = None
) -> FileOutput | WrittenByEngine:
    """Decide for a table; without `spark` the settings of a session are taken for the default ones."""
    by_name = {column.name: column for column in filled}
    reason = next(_reasons(target, by_name), None)
    if reason is not None:
        return WrittenByEngine(reason=reason)
    output = FileOutput(
        folder=local_path(target.root),
        shown=target.owner,
        columns=tuple(
            FileColumn(
                name=column.name,
                type=stored_type(column.type),
                source=by_name[column.name].source if column.name in by_name else None,
                required=not column.type.nullable,
                statistics=False,
            )
            for column in target.schema.physical
        ),
        partitions=target.partition_keys,
        max_rows_per_file=target.options.max_rows_per_file,
    )
    codec = target.format.options.get("compression")
    found = compressed(output, codec, key=PARQUET_CODEC.key)
    if spark is None or isinstance(found, WrittenByEngine):
        return found
    return for_session(spark, target.root, found, codec=codec)


def _reasons(target: FileTarget, filled: Mapping[str, FilledColumn]) -> Iterator[str]:
    """Tell what only Spark's writer does."""
    if not target.options.by_tasks:
        yield f"'{o.WRITER.key}' = 'spark'"
    if is_remote(target.root):
        yield "tasks write into folders of this machine alone"
    if target.options.parallelism is not None:
        yield f"'{o.SINK_PARALLELISM.key}' distributes the rows"
    if target.options.shuffle_by_partition and target.partition_keys:
        yield f"'{o.SHUFFLE_BY_PARTITION.key}' distributes the rows"
    for column in target.schema.physical:
        name, kind = quote(column.name), stored_type(column.type)
        given = filled.get(column.name)
        strict = strict_inside(column.type)
        if strict is not None:
            yield f"column {name}: {strict}"
        if given is not None and (reason := cast_reason(column.name, given.type, kind)):
            yield reason
        if column.name not in target.partition_keys:
            continue
        if not isinstance(kind, PARTITIONED_BY):
            yield f"the table is partitioned by column {name} of type {kind}"
        if isinstance(kind, t.VarCharType) and not column.type.nullable:
            yield f"the table is partitioned by column {name}, a text that is NOT NULL"
