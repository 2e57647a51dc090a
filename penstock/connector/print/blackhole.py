"""The connector `blackhole`: takes every row and keeps none (Flink's), for measuring what comes before a sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import STRING, Option, OptionScope, PrefixOption, resolve
from penstock.connector.capabilities import ConnectivityCheck
from penstock.connector.changelog import ChangelogMode
from penstock.connector.checks import check_nothing, check_written_metadata
from penstock.connector.contract import (
    Connector,
    Guarantee,
    Sink,
    SinkCapabilities,
    SinkSettings,
    SplitSource,
    TaskWriter,
)
from penstock.connector.file_output import (
    FileColumn,
    FilledColumn,
    RecordOutput,
    TaskOutput,
    TaskRecords,
    WrittenByEngine,
    cast_reason,
    stored_type,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from penstock.connector.contract import MicroBatch


OPTIONS = (
    Option(
        key="connector",
        type=STRING,
        default="",
        doc="'blackhole': rows are taken and none is kept",
        required=True,
        scope=OptionScope.SINK,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackholeConnector(Connector):
    """Tables that keep nothing (`Connector`). `project` is not used."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "blackhole"

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return OPTIONS

    def check(self, table: Table) -> None:
        """Check that there are no options. Raises OptionError, DefinitionError."""
        resolve(table.option_map, OPTIONS, owner=f"table {table.identifier}")
        check_written_metadata(table, "blackhole")

    def connectivity_check(self, table: Table) -> ConnectivityCheck:  # noqa: ARG002  of the contract
        """There is nothing to ask."""
        return check_nothing

    def source(self, table: Table) -> SplitSource:
        """Nothing is there to read. Raises UnsupportedError."""
        raise UnsupportedError(
            f"table {table.identifier}: a 'blackhole' keeps nothing that could be read",
            hint="SELECT from the table that the rows come from",
        )

    def sink(self, table: Table) -> Sink:
        """Describe the sink. Raises as `check`."""
        self.check(table)
        return BlackholeSink(definition=table)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackholeSink(Sink):
    """Has every row computed and dropped: by reading tasks where they can, else by Spark."""

    definition: Table

    @property
    def capabilities(self) -> SinkCapabilities:
        """Nothing is kept, of any change."""
        return SinkCapabilities(
            guarantee=Guarantee.NONE, accepts=ChangelogMode.ALL, evaluates_once=True
        )

    @property
    def task_writer(self) -> BlackholeTaskWriter:
        """Reading tasks compute the rows that they would write elsewhere."""
        return BlackholeTaskWriter(definition=self.definition)

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Accept any columns."""

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start the query."""
        from penstock.connector.spark.sink.micro_batch import micro_batch_query, start_query

        if settings.after_batch is not None:
            return micro_batch_query(frame, settings, self.write_batch)
        return start_query(frame.writeStream.format("noop"), frame.sparkSession, settings)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:  # noqa: ARG002  of the contract
        """Compute the rows of a micro-batch."""
        from penstock.connector.spark.sink.task_files import run_tasks

        run_tasks(frame)

    def write(self, frame: DataFrame) -> None:
        """Compute the rows of a batch frame."""
        frame.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackholeTaskWriter(TaskWriter):
    """Lets reading tasks compute and drop the rows of the table `definition` (`TaskWriter`)."""

    definition: Table

    def output(
        self,
        filled: Sequence[FilledColumn],
        spark: SparkSession | None = None,  # noqa: ARG002  of the contract, as below
        checkpoint: str | None = None,  # noqa: ARG002
    ) -> RecordOutput | WrittenByEngine:
        """Decide by the types of the columns."""
        schema = self.definition.schema
        types = {column.name: column.type for column in schema.physical}
        types |= {column.name: column.type for column in schema.metadata}
        columns = []
        for one in filled:
            kind = types[one.name]
            if reason := cast_reason(one.name, one.type, kind):
                return WrittenByEngine(reason=reason)
            columns.append(
                FileColumn(
                    name=one.name, type=stored_type(kind), source=one.source, statistics=False
                )
            )
        return RecordOutput(table=self.definition, columns=tuple(columns))

    def start(self, files: DataFrame, settings: SinkSettings, output: TaskOutput) -> StreamingQuery:
        """Start the query."""
        from penstock.connector.spark.sink.micro_batch import micro_batch_query

        return micro_batch_query(
            files, settings, lambda rows, batch: self.write_batch(rows, batch, output)
        )

    def write_batch(self, files: DataFrame, batch: MicroBatch, output: TaskOutput) -> None:  # noqa: ARG002
        """Run the tasks of a micro-batch."""
        from penstock.connector.spark.sink.task_files import run_tasks

        run_tasks(files)

    def open(self, output: RecordOutput, task: int, note: str | None) -> TaskRecords:  # noqa: ARG002
        """Open what drops the rows of a task, in it."""
        return _DroppedRows(columns=output.columns, owner=str(self.definition.identifier))


@dataclass(frozen=True, slots=True, kw_only=True)
class _DroppedRows(TaskRecords):
    """Computes the columns of rows, and keeps nothing of them."""

    columns: Sequence[FileColumn]
    owner: str

    def write(self, rows: pa.RecordBatch) -> None:
        """Compute every column. Raises SinkError."""
        from penstock.connector.fragments import fill_column

        for column in self.columns:
            fill_column(column, rows, owner=self.owner)

    def finish(self) -> str:
        """There is nothing that could last."""
        return ""

    def close(self) -> None:
        """There is nothing to drop."""
