"""Protocols of connectors, their sources and sinks, and the values that cross them. Contains no client code.

`SplitSource` is read through the split runtime, `EngineSource` by Spark itself: `kind` tells them apart. Connectors
inherit defaults. Row-level changes have protocols in `capabilities.py`, lookup joins in `lookup/contract.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self

from penstock.connector.capabilities import Capabilities, Upserting
from penstock.connector.changelog import ChangelogMode
from penstock.connector.commits import CommitLog

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession  # noqa: TC004 - a check without a JVM loads this module
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from penstock.catalog.errors import PenstockError
    from penstock.catalog.model.table import Table
    from penstock.catalog.model.types import LogicalType
    from penstock.connector.file_output import (
        FilledColumn,
        RecordOutput,
        TaskOutput,
        TaskRecords,
        WrittenByEngine,
    )
    from penstock.connector.lookup.contract import LookupSource
    from penstock.connector.options.watermark import WatermarkSettings
    from penstock.connector.source.enumerator import MakeEnumerator, SplitEnumerator
    from penstock.connector.source.records import RecordsWithSplitIds
    from penstock.connector.source.split import Discovery, Split, SplitOffsets, TaskSize


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """Read what is there when the query starts, in as many batches as the read limit asks for, then end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous:
    """Run until stopped, a micro-batch every `interval_ms` (0: one after the other)."""

    interval_ms: int = 0


Trigger = AvailableNow | Continuous


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What a task wants of its splits: the physical and metadata columns to deliver, in this order.

    `origins`: fetches say which record each row came from, which keeps the raw records until the rows are delivered.
    `time_zone` is the session's: metadata that is an instant may be declared as TIMESTAMP.
    """

    columns: tuple[str, ...]
    origins: bool = False
    time_zone: str = "UTC"


class OutputMode(StrEnum):
    """Which rows a query gives in a micro-batch (Spark's output modes).

    APPEND: rows that stay. UPDATE: the newest row of each key that changed, which replaces the one before.
    """

    APPEND = "append"
    UPDATE = "update"


LostLease = Callable[[], "PenstockError | None"]
"""Tells why this process is no longer the pipeline's runner; None while it is. Safe to call from any thread."""


def check_lease(lost_lease: LostLease | None) -> None:
    """Raise the error of a process that lost its lease; with None there is no lease to lose."""
    if lost_lease is not None and (lost := lost_lease()) is not None:
        raise lost


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One batch of a streaming query, the same values each time that it is run.

    `spark` is the query's own session: settings made there do not reach other queries. `query_id` is the UUID of the
    checkpoint. `sink` tells the sinks of a query that has several apart. `ends`: the query reads what is there, and
    ends. `differences` says why a replay may give other rows, which cannot be seen of the frame of one batch.
    """

    spark: SparkSession = field(repr=False, compare=False)
    checkpoint: str
    query_id: str
    batch_id: int
    plan: str = field(default="", repr=False)
    sink: str = ""
    ends: bool = field(default=False, compare=False)
    differences: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False, compare=False)
    lost_lease: LostLease | None = field(default=None, repr=False, compare=False)
    commits: CommitLog = field(default_factory=CommitLog, repr=False, compare=False)

    @property
    def application_id(self) -> str:
        """Name the writer for sinks that remember writer and batch (Delta's txn), as Spark's own Delta sink does."""
        return f"{self.query_id}/{self.sink}" if self.sink else self.query_id

    def check_lease(self) -> None:
        """Raise the error of a process that is no longer the pipeline's runner."""
        check_lease(self.lost_lease)


AfterBatch = Callable[[MicroBatch], None]
"""Called on the driver when a micro-batch was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """How a streaming query into a sink is to run.

    `checkpoint` is any Hadoop URL or local path. `plan` is text that tells one query from another; a batch that
    is written again under another plan is refused by sinks that can. `changes` says what the frame's rows are; unless
    they are INSERT_ONLY it has the column `ROW_KIND`, and under OutputMode.UPDATE each row replaces that of its key.
    `after_batch` is called when the rows of a micro-batch are written, before the batch counts as done; it has to
    bear being called again for a batch that is replayed. Sinks whose target cannot fence a runner off ask `lost_lease`
    before they change it; None where no lease is held. `commits` takes what they report.
    """

    checkpoint: str
    query_name: str
    trigger: Trigger
    plan: str = ""
    output: OutputMode = OutputMode.APPEND
    changes: ChangelogMode = ChangelogMode.INSERT_ONLY
    after_batch: AfterBatch | None = None
    lost_lease: LostLease | None = None
    commits: CommitLog = field(default_factory=CommitLog, compare=False)


class FetcherModel(StrEnum):
    """How a reader's splits are shared between its fetchers (Flink's three threading models).

    SEQUENTIAL: one fetcher reads one split after the other. MULTIPLEXED: one fetcher reads all splits at once.
    FETCHER_PER_SPLIT: each split has a fetcher, and a split reader, of its own.
    """

    SEQUENTIAL = "sequential"
    MULTIPLEXED = "multiplexed"
    FETCHER_PER_SPLIT = "fetcher-per-split"


class SplitReader(Protocol):
    """Reads records of the splits it was given (Flink's SplitReader). Used by a fetcher thread of a task."""

    def fetch(self) -> RecordsWithSplitIds:
        """Wait for records, at most about a second; may be empty. `wake_up` from another thread ends the wait."""

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Add splits; each is read from its `start`."""

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Pause or resume the named splits (FLIP-217); unknown ids are ignored."""

    def wake_up(self) -> None:
        """End a `fetch` that waits. The only method that may be called from another thread."""

    def close(self) -> None:
        """Release the reader's resources."""


Accept = Callable[[Mapping[str, "pa.RecordBatch"]], Collection[str]]
"""Tells which of the splits have a peeked row that will do; asked once a round, for all that are looked for."""


class SplitMetadataClient(Protocol):
    """Metadata client of an external system, on the driver: lists splits, finds positions. Every method may block on
    I/O.

    Raises BrokerUnavailableError when the system does not answer in time.
    """

    def list_splits(self) -> Discovery:
        """List the splits that exist now."""

    def start_positions(
        self, split_ids: Sequence[str], *, first_listing: bool
    ) -> Mapping[str, int]:
        """Resolve where reading starts: the startup mode at the first listing, the earliest position later."""

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Resolve where a bounded scan stops, exclusive; splits of an unbounded scan are absent."""

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, SplitOffsets]:
        """Return the offsets that each split holds now."""

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Read the last decodable record within each [from, to): one row of the rowtime's inputs per split.

        A split without such a record is absent. Gaps (control, aborted, compacted records) and bad records are
        stepped over with bounded effort. A record that `accept` is given and does not name is stepped over too,
        in strides that grow: what is found then is a record that is accepted, perhaps not the last one.
        """

    def split(self, split_id: str, start: int, stop: int | None) -> Split:
        """Make the value that a reader understands, for the range [start, stop); None is without end."""

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:
        """Make the error for records that were deleted before they were read."""

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        """Make the error for a thing (a topic) that was deleted (`found` is None) or deleted and made again."""

    def commit(self, positions: Mapping[str, int]) -> None:
        """Publish progress (Kafka: group offsets), without waiting and without ever failing the query."""

    def close(self) -> None:
        """Release the planner's resources."""


class SourceKind(StrEnum):
    """Who reads a table, and how.

    SPLITS: the split runtime. ENGINE: Spark by itself, once or as a stream. SNAPSHOT: Spark by itself, only the rows
    that the table holds when it is read.
    """

    SPLITS = "splits"
    ENGINE = "engine"
    SNAPSHOT = "snapshot"


class SplitSource(Protocol):
    """A picklable description of a table's scan, the root of both sides (Flink's Source).

    `bounded`: every split has a stop. Bad records that are not left out, and deleted ones that are not tolerated, fail
    the query. Without `parallelism` a split is a task, and small ones share one up to `task_size`.
    """

    kind: ClassVar[Literal[SourceKind.SPLITS]] = SourceKind.SPLITS

    @property
    def bounded(self) -> bool:
        """Whether the scan has an end."""

    @property
    def changes(self) -> ChangelogMode:
        """What its rows are; unless INSERT_ONLY, it can deliver the column `ROW_KIND`."""

    @property
    def projects_fields(self) -> bool:
        """Whether it can be given rows with some of their fields: it finds fields by name, and passes over others."""
        return False

    @property
    def lookup_source(self) -> LookupSource | None:
        """Return what can be asked for the rows of keys; None where the table is only read whole."""
        return None

    @property
    def metadata_types(self) -> Mapping[str, LogicalType]:
        """Metadata keys it can deliver, with their types."""

    @property
    def skips_bad_records(self) -> bool:
        """Whether bad records are left out and counted."""

    @property
    def tolerates_loss(self) -> bool:
        """Whether deleted records are counted and passed over."""

    @property
    def watermark(self) -> WatermarkSettings:
        """The table's watermark options: alignment, idleness, what is too far in the future."""

    @property
    def fetching(self) -> FetcherModel:
        """How readers of this source share splits between fetchers."""

    @property
    def max_records_per_batch(self) -> int | None:
        """Read limit; None leaves it to the engine."""

    @property
    def parallelism(self) -> int | None:
        """Tasks of a batch; None is one per split, or for several small ones."""

    @property
    def task_size(self) -> TaskSize | None:
        """Up to which size a task reads several splits; None where each is a task."""
        return None

    @property
    def discovery_interval_ms(self) -> int:
        """Time between listings; <= 0 lists once."""

    @property
    def enumerator_type(self) -> type[SplitEnumerator]:
        """The class of the scan's enumerators, which reads their snapshots."""

    def enumerator(self, planner: SplitMetadataClient) -> MakeEnumerator:
        """Return what makes the scan's enumerator, which looks at the world through `planner`."""

    def open_planner(self, peeked: ReadRequest) -> SplitMetadataClient:
        """Open the driver's side; `peeked` names the columns that peeks deliver."""

    def open_reader(self, request: ReadRequest) -> SplitReader:
        """Open a task's side."""


class EngineSource(Protocol):
    """A table that Spark reads by itself (Delta). With changes, `frame` has the column `ROW_KIND`."""

    kind: ClassVar[Literal[SourceKind.ENGINE, SourceKind.SNAPSHOT]] = SourceKind.ENGINE

    @property
    def bounded(self) -> bool:
        """Whether the scan has an end."""

    @property
    def changes(self) -> ChangelogMode:
        """What its rows are; unless INSERT_ONLY, it can deliver the column `ROW_KIND`."""

    @property
    def projects_fields(self) -> bool:
        """Whether it can be given rows with some of their fields: it finds fields by name, and passes over others."""
        return False

    @property
    def lookup_source(self) -> LookupSource | None:
        """Return what can be asked for the rows of keys; None where the table is only read whole."""
        return None

    def reading(self, columns: Sequence[str]) -> EngineSource:  # noqa: ARG002  of the contract
        """Describe the same source with these columns alone; one that cannot read a projection delivers all."""
        return self

    def frame(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Return the table's physical columns."""


class SnapshotSource(EngineSource, Protocol):
    """An engine source that is read as it is; its `frame` refuses streams."""

    kind: ClassVar[Literal[SourceKind.ENGINE, SourceKind.SNAPSHOT]] = SourceKind.SNAPSHOT

    @property
    def bounded(self) -> bool:
        """It ends with what is there."""
        return True

    @property
    def changes(self) -> ChangelogMode:
        """Rows as they are now."""
        return ChangelogMode.INSERT_ONLY


Source = SplitSource | EngineSource


class Guarantee(StrEnum):
    """What a failure may do to rows that are written (Flink's DeliveryGuarantee): lose, repeat, or nothing."""

    NONE = "none"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCapabilities:
    """What a sink takes and promises.

    `guarantee`: what a micro-batch that is run again does to the target; EXPLAIN shows it. `accepts`: the changes that
    it takes. `needs_update_before`: upserts, which lack the row before an update, are not enough. `bounded_only`: only
    queries that end write into it, as it could not tell a batch that is run again. `resumable`: it can tell the target
    of a checkpoint (`Sink.check_resumes`). `evaluates_once`: one action reads a batch, or it keeps the rows itself.
    """

    guarantee: Guarantee
    accepts: ChangelogMode
    needs_update_before: bool = False
    bounded_only: bool = False
    resumable: bool = False
    evaluates_once: bool = False


class TaskWriter(Protocol):
    """How a sink takes what reading tasks wrote in place of rows. All but `open` runs on the driver."""

    def output(
        self,
        filled: Sequence[FilledColumn],
        spark: SparkSession | None = None,
        checkpoint: str | None = None,
    ) -> TaskOutput | WrittenByEngine:
        """Return what tasks need to write the columns `filled`, or why Spark has to write.

        By the target as it is now, or as it is declared where it is not there yet; by the `checkpoint` that the query
        goes on with, where one is given. Without `spark` the settings of a session are taken for the default ones.
        """

    def start(self, files: DataFrame, settings: SinkSettings, output: TaskOutput) -> StreamingQuery:
        """Start the streaming query. `files` has a row for each file that tasks wrote by `output`."""

    def write_batch(self, files: DataFrame, batch: MicroBatch, output: TaskOutput) -> None:
        """Commit the files of a micro-batch, all or none; a batch that is written already is passed over."""

    def open(self, output: RecordOutput, task: int, note: str | None) -> TaskRecords:  # noqa: ARG002  of the contract
        """Open the records of a task; `note` is what the driver says of the batch (`BATCH_OF_SINK`)."""
        raise AssertionError("its tasks write files")


class Sink(Upserting, Protocol):
    """A table that a query writes into."""

    @property
    def capabilities(self) -> SinkCapabilities:
        """What it takes and promises."""

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Create the target, or check that it takes rows of `schema`. Raises InputError if it does not."""

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start the streaming query. Sinks without a way of their own in Spark start `micro_batch_query`."""

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write the rows of a micro-batch, all or none; a batch that is written already is passed over."""

    def write(self, frame: DataFrame) -> None:
        """Append the rows of a batch frame, all or none."""

    @property
    def task_writer(self) -> TaskWriter | None:
        """How tasks write its files; None for a target that Spark writes, or the sink itself, in each case."""
        return None

    def under_lease(self, lost_lease: LostLease) -> Self:  # noqa: ARG002  of the contract
        """Return the same sink, which asks `lost_lease` before a batch statement changes the target.

        For targets that cannot fence off one that was paused; streaming queries have `SinkSettings.lost_lease`.
        """
        return self

    def with_gaps(self) -> Self:
        """Return the same sink for a writer that leaves out batches without rows: numbers of batches have gaps."""
        return self

    def check_resumes(
        self,
        spark: SparkSession,  # noqa: ARG002  of the contract, as those below
        checkpoint: str,
        sink: str,  # noqa: ARG002
        *,
        notes: bool = True,  # noqa: ARG002
    ) -> None:
        """Check the target of a resumable sink before a query resumes. `sink` is that of its MicroBatch.

        `Sink.start` does so itself. `notes`: state for the next check may be kept in the checkpoint; without it
        nothing is written. Raises StateMismatchError.
        """
        raise AssertionError(f"{type(self).__name__} is not resumable: {checkpoint}")

    def check_resumes_here(
        self,
        checkpoint: Path,
        query: str | None,  # noqa: ARG002  of the contract, as below
        sink: str,  # noqa: ARG002
    ) -> None:
        """Check the same without an engine, for a checkpoint in a folder of this machine; writes nothing.

        `query` is the id that the checkpoint carries. Raises StateMismatchError; NotReachedError where only an engine
        can tell.
        """
        raise AssertionError(f"{type(self).__name__} is not resumable: {checkpoint}")


class Connector(Capabilities, Protocol):
    """A kind of table, found by the `connector` option. What it can do beside this is in its `Capabilities`."""

    @property
    def name(self) -> str:
        """The value of the option `connector`."""

    def check(self, table: Table) -> None:
        """Check options, formats and schema without I/O. Raises OptionError or DefinitionError."""

    def source(self, table: Table) -> Source:
        """Describe the scan of `table`. Raises UnsupportedError when tables of this kind cannot be read."""

    def sink(self, table: Table) -> Sink:
        """Describe writing into `table`. Raises UnsupportedError when tables of this kind cannot be written."""
