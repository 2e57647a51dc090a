"""A table that computes every row and keeps none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from penstock.catalog.errors import OptionError, SinkError, UnsupportedError
from penstock.catalog.model.table import Schema, Table
from penstock.catalog.model.types import BigIntType, VarCharType
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import AvailableNow, MicroBatch, SinkSettings, TaskWriter
from penstock.connector.expression import FieldValue, FunctionCall
from penstock.connector.file_output import FilledColumn, RecordOutput, WrittenByEngine
from penstock.connector.registry import connector_of
from tests.catalog.examples import columns, identifier


def hole(**options: str) -> Table:
    given = {"connector": "blackhole", **options}
    return Table(
        identifier=identifier("hole"),
        schema=Schema(columns=columns(id="BIGINT")),
        options=tuple(given.items()),
    )


CONNECTOR = connector_of(hole(), project=Path("/"))


def test_it_takes_every_change_and_no_option_and_gives_nothing() -> None:
    """Flink's has no options either."""
    assert CONNECTOR.sink(hole()).capabilities.accepts is ChangelogMode.ALL
    with pytest.raises(OptionError, match="unsupported option"):
        CONNECTOR.check(hole(path="x"))
    with pytest.raises(UnsupportedError, match="keeps nothing"):
        CONNECTOR.source(hole())


def test_rows_are_really_computed(spark: SparkSession, tmp_path: Path) -> None:
    """A row that cannot be computed fails the INSERT, in a batch and in a stream; batches are told of."""
    failing = "IF(id = 2, raise_error('seen'), id) AS id"
    with pytest.raises(PySparkException, match="seen"):
        CONNECTOR.sink(hole()).write(spark.range(3).selectExpr(failing))
    spark.range(3).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "in"))
    seen: list[MicroBatch] = []

    def settings(name: str) -> SinkSettings:
        return SinkSettings(
            checkpoint=str(tmp_path / name),
            query_name=name,
            trigger=AvailableNow(),
            after_batch=seen.append if name == "told" else None,
        )

    CONNECTOR.sink(hole()).start(frame, settings("told")).awaitTermination()
    with pytest.raises(StreamingQueryException, match="seen"):
        CONNECTOR.sink(hole()).start(
            frame.selectExpr(failing), settings("failing")
        ).awaitTermination()

    assert [batch.batch_id for batch in seen] == [0]


TEXT = FieldValue(path=("text",), type=VarCharType(length=10))
NUMBER = FunctionCall(function="cast", arguments=(TEXT,), type=BigIntType())


def writer() -> TaskWriter:
    found = CONNECTOR.sink(hole()).task_writer
    assert found is not None
    return found


def test_reading_tasks_compute_rows_and_drop_them() -> None:
    """As they do for sinks that keep them: a row that cannot be computed fails its task."""
    output = writer().output([FilledColumn(name="id", source=NUMBER)])
    assert isinstance(output, RecordOutput)
    records = writer().open(output, 0, None)
    records.write(pa.record_batch({"text": ["1", "2"]}))

    assert records.finish() == ""
    with pytest.raises(SinkError, match=r"hole does not take a row: column id cannot be computed"):
        records.write(pa.record_batch({"text": ["1", "x"]}))


def test_spark_computes_what_it_has_to_cast() -> None:
    """Tasks have no cast of their own for it."""
    output = writer().output([FilledColumn(name="id", source=TEXT)])

    assert isinstance(output, WrittenByEngine)
    assert output.reason == "column id is cast from VARCHAR(10) to BIGINT"


def test_tasks_of_a_stream_report_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Batch by batch, to who is told of batches."""
    spark.range(3).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "in"))
    seen: list[MicroBatch] = []
    settings = SinkSettings(
        checkpoint=str(tmp_path / "checkpoint"),
        query_name="told",
        trigger=AvailableNow(),
        after_batch=seen.append,
    )
    output = RecordOutput(table=hole(), columns=())
    writer().start(frame, settings, output).awaitTermination()

    assert [batch.batch_id for batch in seen] == [0]
