"""The query of a job, and its view for the start decision: an INSERT, or the one query of a statement set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.connector.commits import CommitLog, OffsetCommits
    from penstock.connector.contract import LostLease, Trigger
    from penstock.connector.spark.source.retry import Outage
    from penstock.sql.checkpoint.failure_record import FailureRecord
    from penstock.sql.checkpoint.fingerprint import QueryFingerprint
    from penstock.sql.checkpoint.identity import QueryLocation
    from penstock.sql.checkpoint.plan_record import PlanRecord
    from penstock.sql.observation.batch_metrics import BatchMetrics
    from penstock.sql.observation.pipeline import PipelineTraits
    from penstock.sql.plan.analysed import TableScan


class CheckpointedQuery(Protocol):
    """A query as far as the start decision needs it."""

    @property
    def sink(self) -> str:
        """The table that it writes into, or the tables, as messages name them."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables that it reads."""

    @property
    def bounded(self) -> bool:
        """Whether each of them has an end."""

    @property
    def pipeline(self) -> str:
        """The name that one runner at a time may hold."""

    @property
    def is_stream(self) -> bool:
        """Whether it reads tables; else it writes once and has no checkpoint."""

    @property
    def location(self) -> QueryLocation:
        """Its name, and where its checkpoint is."""

    @property
    def checkpoint(self) -> str:
        """Its checkpoint directory."""

    @property
    def shape(self) -> QueryFingerprint:
        """The fingerprint that its checkpoint must have."""

    @property
    def leaves(self) -> Sequence[TableScan]:
        """The tables that it reads, in the order that the checkpoint knows them by."""

    @property
    def project(self) -> Path:
        """The folder that relative paths of tables are relative to."""

    def check_target(self) -> None:
        """Check that its target fits the checkpoint; changes nothing.

        Raises StateMismatchError; NotReachedError where that cannot be checked here.
        """


class StartableQuery(CheckpointedQuery, Protocol):
    """A query that can be started, and restarted after a failure."""

    @property
    def spark(self) -> SparkSession:
        """The session that it is started in."""

    @property
    def traits(self) -> PipelineTraits:
        """How it computes its rows, and what its sinks promise."""

    @property
    def leases(self) -> tuple[str, ...]:
        """The leases that are held while it runs: `pipeline`, and its checkpoint where that may be
        reached by another name.
        """

    @property
    def commits(self) -> CommitLog:
        """What its sinks reported of their commits in this process."""

    @property
    def plan(self) -> PlanRecord | None:
        """The plan that it was started with last; None before a start."""

    @property
    def rows_by_sink(self) -> Mapping[str, int] | None:
        """Rows written since it was planned, by table, where one query writes several; else None."""

    @property
    def statement_digest(self) -> str:
        """The digest of a statement without a checkpoint that adds its rows each time that it is run; else empty."""

    def prepare(self) -> None:
        """Create or check what it writes into. Raises InputError."""

    def write(self, lost_lease: LostLease | None = None) -> None:
        """Write the rows of INSERT .. VALUES, atomically; `lost_lease` is of the table (`Sink.under_lease`)."""

    def start(self, trigger: Trigger, lost_lease: LostLease | None = None) -> StreamingQuery:
        """Start it from its checkpoint. `lost_lease`: see SinkSettings."""

    def outage(self) -> Outage | None:
        """Return what its sources wait for; None while all of them answer. Reads small local files."""

    def offset_commits(self) -> Mapping[int, OffsetCommits]:
        """Return how commits to consumer groups ended, by the number of the source. Reads small local files."""

    def record_failures(self, failures: Iterable[FailureRecord]) -> None:
        """Keep failures in its checkpoint, for people. May raise any error of Spark."""

    def read_metrics(self, progress: Mapping[str, Any]) -> BatchMetrics:
        """Read what a batch did from its progress event."""


class StartableStatementSet(Protocol):
    """A statement set that passed every check, as one query or as one for each INSERT."""

    @property
    def spark(self) -> SparkSession:
        """The session that it is started in."""

    @property
    def queries(self) -> tuple[StartableQuery, ...]:
        """The queries that run."""

    @property
    def reason(self) -> str | None:
        """Why they are several; None where there is one."""

    @property
    def rivals(self) -> tuple[str, ...]:
        """The checkpoints that the other way to run the set would have; none of them may exist."""
