"""The connector `delta`: Delta tables by path, appended to or upserted exactly once, read by Spark itself.

Source and sink are what is known of them without Spark: options, guarantees. The pinned jars make Spark read and
write Delta tables without Ivy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import UnknownObjectError, UnsupportedError
from penstock.catalog.model.identifier import quoted
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption, Resolved
from penstock.connector.capabilities import (
    ConnectivityCheck,
    LocalStore,
    Publishable,
    RowLevelEditor,
    SparkRelation,
)
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import (
    Connector,
    EngineSource,
    Guarantee,
    Sink,
    SinkCapabilities,
    SinkSettings,
    TaskWriter,
)
from penstock.connector.delta.definition import check_clustering, check_definition
from penstock.connector.delta.options import (
    CLUSTERING_COLUMNS,
    MAX_FILES,
    OPTIMIZE_INTERVAL,
    OPTIONS,
    PATH,
    SCHEMA_EVOLUTION,
    STARTING_TIMESTAMP,
    STARTING_VERSION,
    TARGET_FILE_SIZE,
    WRITER,
    DeltaTarget,
    FileMaintenance,
    compacts,
    resolve_options,
    table_properties,
)
from penstock.connector.file_output import FileOutput, FilledColumn, TaskOutput, WrittenByEngine
from penstock.connector.jvm.jars import JarSet, fetch_jars, read_jar_set
from penstock.connector.storage import open_folder
from penstock.connector.urls import is_remote, resolve_path, table_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from penstock.connector.contract import MicroBatch
    from penstock.connector.delta.writer import DeltaWriter


def delta_jar_set() -> JarSet:
    """Delta 4.4.0 for Spark 4.2."""
    return read_jar_set(Path(__file__).with_name("delta-spark.jars"))


def delta_jars() -> list[Path]:
    """Files for `spark.jars`, fetched on the first call on a machine. Raises RunError when they cannot be had."""
    return fetch_jars(delta_jar_set())


_STREAM_OPTIONS = (
    ("startingVersion", STARTING_VERSION),
    ("startingTimestamp", STARTING_TIMESTAMP),
    ("maxFilesPerTrigger", MAX_FILES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource(EngineSource):
    """A Delta table as a source (`EngineSource`).

    A query over Delta tables alone is bounded: it reads the present version. An INSERT reads a table as a stream from
    its checkpoint, so that the next run reads only what was appended since; an update or delete in between ends the
    stream with Delta's error, as appended rows cannot express it.
    """

    target: DeltaTarget
    options: Resolved

    @property
    def bounded(self) -> bool:
        """Whether the scan has an end: what is there at the start."""
        return True

    @property
    def changes(self) -> ChangelogMode:
        """Rows that were appended."""
        return ChangelogMode.INSERT_ONLY

    def frame(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Return the declared columns; no rows where nothing was written yet.

        Raises StateMismatchError when the table is not the declared one, and UnknownObjectError for a stream of a
        table that is not there: it would have no version to start at.
        """
        from pyspark.sql import functions as F  # noqa: N812  Spark, only where it is used

        from penstock.connector.delta.table import (
            check_readable,
            exists,
            stored_schema,
            translate_errors,
        )

        schema = stored_schema(self.target.table)
        if not exists(self.target, spark):
            if not streaming:
                return spark.createDataFrame([], schema)
            raise UnknownObjectError(
                f"there is no Delta table at {self.target.shown} yet (table {self.target.table.identifier})",
                hint="the first INSERT into it makes it",
            )
        with translate_errors(self.target.shown):
            frame = self._read(spark, streaming=streaming)
        check_readable(self.target, frame.schema)
        return frame.select(*(F.col(quoted(name)).alias(name) for name in schema.names))

    def relation(self, spark: SparkSession) -> SparkRelation | None:
        """Return the folder as a table of Spark (`Publishable`)."""
        from penstock.connector.delta.table import exists

        if not exists(self.target, spark):
            return None
        location = self.target.location
        return SparkRelation(text=f"delta.{quoted(location)}", location=location, provider="delta")

    def _read(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        if not streaming:
            return spark.read.format("delta").load(self.target.location)
        reader = spark.readStream.format("delta")
        for key, option in _STREAM_OPTIONS:
            value = self.options.get(option)
            if value is not None:
                reader = reader.option(key, str(value))
        return reader.load(self.target.location)


@dataclass(frozen=True, kw_only=True)
class DeltaSink(Sink):
    """Appends to a Delta table, or replaces rows of it by its PRIMARY KEY (`Sink`); a `DeltaWriter` does it.

    `adds_columns`: declared columns that the table lacks are added when a run is prepared. `by_tasks`: reading tasks
    write its files where they can.
    """

    target: DeltaTarget
    adds_columns: bool = False
    by_tasks: bool = True
    upkeep: FileMaintenance = field(default_factory=FileMaintenance)

    @property
    def task_writer(self) -> DeltaTaskWriter:
        """Tasks write the files of appends to plain tables."""
        return DeltaTaskWriter(sink=self)

    @property
    def capabilities(self) -> SinkCapabilities:
        """A batch that is run again changes nothing; rows that stay, with a PRIMARY KEY every change."""
        keyed = self.target.table.schema.primary_key is not None
        return SinkCapabilities(
            guarantee=Guarantee.EXACTLY_ONCE,
            accepts=ChangelogMode.ALL if keyed else ChangelogMode.INSERT_ONLY,
            resumable=True,
            evaluates_once=True,
        )

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Create the table, or check that the existing one accepts rows of `schema`. Raises InputError, SinkError."""
        self.writer.prepare(spark, schema)

    def check_resumes(
        self, spark: SparkSession, checkpoint: str, sink: str, *, notes: bool = True
    ) -> None:
        """Check that the table is the one that the checkpoint was written with."""
        self.writer.check_resumes(spark, checkpoint, sink, notes=notes)

    def check_resumes_here(self, checkpoint: Path, query: str | None, sink: str) -> None:
        """Check the same of folders of this machine, without Spark."""
        from penstock.connector.delta.checkpoint_check import check_resumes_here

        appends = self.target.table.schema.primary_key is None
        check_resumes_here(self.target, checkpoint, query, sink, commits_empty=appends)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start writing. Raises StateMismatchError for a table that does not go with the checkpoint."""
        return self.writer.start(frame, settings)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write the rows of a micro-batch in one commit, unless the table has it already.

        Raises StateMismatchError for a batch that the table has with another content.
        """
        self.writer.write_batch(frame, batch)

    def write(self, frame: DataFrame) -> None:
        """Write a batch frame, in one transaction."""
        self.writer.write(frame)

    def describe_upserts(self) -> str | None:
        """Say whether rows are replaced by position or by MERGE, and why, by the table's log on this machine."""
        if self.target.table.schema.primary_key is None:
            return None
        if (reason := self._merges) is not None:
            return f"MERGE: {reason}"
        from penstock.connector.delta.task_output import (
            upserts_by,  # PyArrow, only where it is used
        )

        match upserts_by(self.target):
            case WrittenByEngine(reason=reason):
                return f"MERGE: {reason}"
            case FileOutput():
                return "position: the table has deletion vectors ('delta.enableDeletionVectors')"

    @property
    def _merges(self) -> str | None:
        """Why options have rows merged into whatever table."""
        if not self.by_tasks:
            return f"'{WRITER.key}' = 'spark'"
        gathers = self.upkeep.target_file_bytes is not None
        return f"'{TARGET_FILE_SIZE.key}' gathers small files" if gathers else None

    @cached_property
    def writer(self) -> DeltaWriter:
        """What does it in Spark."""
        from penstock.connector.delta.writer import DeltaWriter  # Spark, only where it is used

        return DeltaWriter(
            target=self.target,
            adds_columns=self.adds_columns,
            merges=self._merges,
            upkeep=self.upkeep,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTaskWriter(TaskWriter):
    """Takes the files of tasks for the table of a sink (`TaskWriter`)."""

    sink: DeltaSink

    def output(
        self,
        filled: Sequence[FilledColumn],
        spark: SparkSession | None = None,
        checkpoint: str | None = None,  # noqa: ARG002  of the contract
    ) -> FileOutput | WrittenByEngine:
        """Decide by the table's log, or by its definition where there is none."""
        target = self.sink.target
        if not self.sink.by_tasks:
            return WrittenByEngine(reason=f"'{WRITER.key}' = 'spark'")
        if target.table.schema.primary_key is not None:
            return WrittenByEngine(reason="rows are replaced by the PRIMARY KEY")
        if self.sink.upkeep.target_file_bytes is not None:
            return WrittenByEngine(reason="'sink.target-file-size' gathers small files")
        # PyArrow, only where it is used
        from penstock.connector.delta.task_output import read_stored, task_output

        stored = read_stored(target)
        if isinstance(stored, WrittenByEngine):
            return stored
        found = task_output(target, stored, filled)
        if spark is None or isinstance(found, WrittenByEngine):
            return found
        from penstock.connector.delta.task_commit import for_session  # Spark, only where it is used

        return for_session(spark, target, found)

    def start(self, files: DataFrame, settings: SinkSettings, output: TaskOutput) -> StreamingQuery:
        """Start committing. Raises StateMismatchError for a table that does not go with the checkpoint."""
        assert isinstance(output, FileOutput), "as `output` gives it"
        return self.sink.writer.start_files(files, settings, output)

    def write_batch(self, files: DataFrame, batch: MicroBatch, output: TaskOutput) -> None:
        """Commit the files of a micro-batch, unless the table has it already.

        Raises StateMismatchError for a batch that the table has with another content.
        """
        assert isinstance(output, FileOutput), "as `output` gives it"
        self.sink.writer.write_files(files, batch, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaConnector(Connector):
    """Delta tables (`Connector`); relative paths are relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "delta"

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return OPTIONS

    def check(self, table: Table) -> None:
        """Check options and schema, without Spark. Raises OptionError, DefinitionError, UnsupportedError."""
        options = resolve_options(table)
        check_definition(table)
        check_clustering(table, options.get(CLUSTERING_COLUMNS))

    def folder(self, table: Table) -> str | None:
        """Return where `path` leads."""
        return table_folder(table, PATH.key, self.project)

    def options_of_provider(self, provider: str, location: str) -> Mapping[str, str] | None:
        """Return the options of Spark's Delta tables."""
        if provider.lower() != self.name:
            return None
        return {"connector": self.name, PATH.key: location}

    def connectivity_check(self, table: Table) -> ConnectivityCheck:
        """Look at the table's log."""
        from penstock.connector.delta.catalog import check_log

        return partial(check_log, resolve_path(resolve_options(table).get(PATH), self.project))

    def first_rows(self, table: Table, limit: int) -> pa.Table | None:
        """Read them from the files of the newest version."""
        from penstock.connector.arrow import arrow_schema
        from penstock.connector.delta.files.live_rows import NotReadableHereError
        from penstock.connector.delta.log import read_first_rows

        target = self._source(table).target
        columns = arrow_schema((column.name, column.type) for column in table.schema.physical)
        try:
            return read_first_rows(open_folder(target.location, shown=target.shown), columns, limit)
        except NotReadableHereError as error:
            raise UnsupportedError(
                f"the rows of {table.identifier} are not read without Spark: {error}",
                hint=f"`penstock run` a file that selects from {table.identifier}, with a LIMIT",
            ) from error

    def stored_version(self, table: Table) -> int | None:
        """Read it from the names of the log's files."""
        from penstock.connector.delta.log import read_head

        location = self._source(table).target.location
        head = None if is_remote(location) else read_head(open_folder(location))
        return None if head is None else head.version

    @property
    def local_store(self) -> LocalStore:
        """Tables are kept in a folder of the test."""
        return DeltaStore()

    def publishable(self, table: Table) -> Publishable:
        """Spark reads Delta tables."""
        return self._source(table)

    def source(self, table: Table) -> EngineSource:
        """Describe reading the table."""
        return self._source(table)

    def _source(self, table: Table) -> DeltaSource:
        options = resolve_options(table)
        location = resolve_path(options.get(PATH), self.project)
        return DeltaSource(target=DeltaTarget(table=table, location=location), options=options)

    def editor(self, table: Table) -> RowLevelEditor:
        """Describe changing the rows of the table in place."""
        from penstock.connector.delta.row_level_dml import (
            DeltaEditor,  # Spark, only where it is used
        )

        options = resolve_options(table)
        location = resolve_path(options.get(PATH), self.project)
        target = DeltaTarget(table=table, location=location)
        upkeep = FileMaintenance(target_file_bytes=options.get(TARGET_FILE_SIZE))
        return DeltaEditor(target=target, upkeep=upkeep)

    def sink(self, table: Table) -> Sink:
        """Describe writing into the table: appending, or upserting where it has a PRIMARY KEY."""
        options = resolve_options(table)
        location = resolve_path(options.get(PATH), self.project)
        return DeltaSink(
            target=DeltaTarget(
                table=table,
                location=location,
                properties=table_properties(options),
                clustering=options.get(CLUSTERING_COLUMNS),
            ),
            adds_columns=options.get(SCHEMA_EVOLUTION) == "add-columns",
            by_tasks=options.get(WRITER) != "spark",
            upkeep=FileMaintenance(
                target_file_bytes=options.get(TARGET_FILE_SIZE),
                auto_compaction=compacts(options),
                optimize_interval_ms=options.get(OPTIMIZE_INTERVAL),
            ),
        )


@dataclass(frozen=True, slots=True)
class DeltaStore:
    """Keeps tables of a test in its folder (`LocalStore`)."""

    def moved(self, table: Table, *, folder: Path, name: str) -> Table:  # noqa: ARG002  of the contract
        """Keep the rows in `folder`."""
        options = {**table.option_map, PATH.key: str(folder)}
        return replace(table, options=tuple(options.items()))

    def rows(self, table: Table, spark: SparkSession) -> list[dict[str, Any]]:
        """Return the rows that the folder holds."""
        path = table.option_map[PATH.key].removeprefix("file:")
        if not (Path(path) / "_delta_log").is_dir():
            return []
        rows: list[dict[str, Any]] = spark.read.format("delta").load(path).toArrow().to_pylist()
        return rows
