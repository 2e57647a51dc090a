"""Publish the dead letters of a query with each batch, exactly once, and enforce the batch's limits (driver).

Order, for the batch with id b. Tasks write the files of b's ranges while the sink reads the rows, so all of
them exist when the sink has committed. Then, before Spark commits b: too many bad records stop the query;
otherwise the dead letters are written under a name and version that their sink remembers (query id, b), and the
files of batches before b are removed. Those of b stay until the next batch: a crash at any point repeats b, the
query's sink skips what it has (and may not read the rows again), and the files are still there. A sink that has
the dead letters of b skips them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.errors import OptionError
from penstock.catalog.model.identifier import short_name
from penstock.catalog.model.table import Table
from penstock.connector.bad_records.files import MARK, RangeFile, parse_name
from penstock.connector.bad_records.limits import Tally, check_batch
from penstock.connector.commits import CommitLog, SinkCommit
from penstock.connector.contract import MicroBatch, Sink
from penstock.connector.dead_letters.backends import encode_dead_letters
from penstock.connector.dead_letters.table import STAGING, define_dead_letter_table
from penstock.connector.options.bad_records import (
    BadRecordSettings,
    BesideCheckpoint,
    DeadLetterTarget,
    KafkaTopic,
    bad_record_settings,
)
from penstock.connector.registry import connector_of
from penstock.connector.spark.hadoop_files import delete, list_names, write_text
from penstock.connector.spark.types import spark_schema

DEAD_LETTERS_PER_TASK = 100_000
"""Dead letters that one task writes: few make one file."""


def staging_of(checkpoint: str, index: int, table: Table) -> str | None:
    """Return the folder for what tasks know of a table's bad records; None where those fail the query.

    `index` is the table's place among those that the query reads.
    """
    if not bad_record_settings(table).leaves_out:
        return None
    return f"{checkpoint}/{STAGING}/{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counter:
    """A table that a query reads and whose bad records are left out; `staging` is where tasks count them."""

    table: Table
    settings: BadRecordSettings
    staging: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchFiles:
    """What tasks left for one batch."""

    counter: _Counter
    files: tuple[RangeFile, ...]

    @property
    def tally(self) -> Tally:
        return sum((file.tally for file in self.files), start=Tally())


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPublisher:
    """Where the bad records of one query come together. `after_batch` is an AfterBatch; all runs on the driver."""

    counters: tuple[_Counter, ...]
    checkpoint: str
    pipeline: str
    project: Path
    _sinks: dict[DeadLetterTarget, Sink] = field(default_factory=dict, compare=False, repr=False)

    def prepare(self, spark: SparkSession) -> None:
        """Create or check the user's targets of dead letters: tables, topics. Raises InputError, SinkError."""
        _check_one_cluster([c.settings.outlet for c in self.counters if c.settings.keeps])
        for outlet in self._outlets():
            if not isinstance(outlet, BesideCheckpoint):
                self._prepare(spark, outlet)

    def open(self, spark: SparkSession) -> None:
        """Make what belongs to the checkpoint: the default table, and the folders that tasks look for."""
        if BesideCheckpoint() in self._outlets():
            self._prepare(spark, BesideCheckpoint())
        for counter in self.counters:
            write_text(spark, f"{counter.staging}/{MARK}", self.pipeline)

    def after_batch(self, batch: MicroBatch) -> None:
        """Judge a batch's bad records and publish its dead letters. Raises BadRecordError, SinkError."""
        found = [self._look(counter, batch) for counter in self.counters]
        for item in found:
            check_batch(item.counter.settings, item.tally, str(item.counter.table.identifier))
        for outlet in self._outlets():
            letters = [f for f in found if f.counter.settings.outlet == outlet]
            paths = [path for item in letters for path in _dead_letter_paths(item, batch.batch_id)]
            if paths:
                count = sum(item.tally.bad for item in letters)
                frame = self._read(batch, paths, tasks=1 + count // DEAD_LETTERS_PER_TASK)
                named = f"{batch.sink}/dead-letters" if batch.sink else "dead-letters"
                rows = encode_dead_letters(frame) if isinstance(outlet, KafkaTopic) else frame
                self._sink(outlet).write_batch(
                    rows, replace(batch, sink=named, commits=CommitLog())
                )
                kept = {
                    short_name(item.counter.table.identifier): item.tally.bad for item in letters
                }
                batch.commits.add(SinkCommit(dead_letters={k: n for k, n in kept.items() if n}))
        for counter in self.counters:
            _remove_before(batch.spark, counter.staging, batch.batch_id)

    def _outlets(self) -> Sequence[DeadLetterTarget]:
        kept = (c.settings.outlet for c in self.counters if c.settings.keeps)
        return tuple(dict.fromkeys(kept))

    def _look(self, counter: _Counter, batch: MicroBatch) -> _BatchFiles:
        names = list_names(batch.spark, f"{counter.staging}/{batch.batch_id}")
        return _BatchFiles(counter=counter, files=tuple(filter(None, map(parse_name, names))))

    def _read(self, batch: MicroBatch, paths: Sequence[str], *, tasks: int) -> DataFrame:
        columns = spark_schema(define_dead_letter_table(BesideCheckpoint(), "").schema.physical)
        added = {
            "pipeline": F.lit(self.pipeline),
            "query_id": F.lit(batch.query_id),
            "batch_id": F.lit(batch.batch_id).cast("bigint"),
            "left_out_at": F.current_timestamp(),
        }
        written = type(columns)([field for field in columns.fields if field.name not in added])
        frame = batch.spark.read.schema(written).parquet(*paths).coalesce(tasks)
        return frame.withColumns(added).select(*(F.col(f"`{name}`") for name in columns.names))

    def _prepare(self, spark: SparkSession, outlet: DeadLetterTarget) -> None:
        table = define_dead_letter_table(outlet, self.checkpoint)
        self._sink(outlet).prepare(spark, spark_schema(table.schema.physical))

    def _sink(self, outlet: DeadLetterTarget) -> Sink:
        if outlet not in self._sinks:
            self._sinks[outlet] = self._made_sink(outlet)
        return self._sinks[outlet]

    def _made_sink(self, outlet: DeadLetterTarget) -> Sink:
        table = define_dead_letter_table(outlet, self.checkpoint)
        # batches without dead letters are not written
        return connector_of(table, project=self.project).sink(table).with_gaps()


def _check_one_cluster(outlets: Sequence[DeadLetterTarget]) -> None:
    """Refuse one name for topics of two clusters: one writer would write the dead letters of both.
    Raises OptionError.
    """
    known: dict[str, str] = {}
    for outlet in outlets:
        if isinstance(outlet, KafkaTopic):
            brokers = outlet.brokers
            if known.setdefault(outlet.topic, brokers) != brokers:
                raise OptionError(
                    f"two tables of the query have 'dead-letter.topic' = '{outlet.topic}', one at "
                    f"{known[outlet.topic]} and one at {brokers}",
                    hint="give the topics of two clusters two names, or write the address of one cluster alike",
                )


def dead_letter_publisher(
    tables: Sequence[Table], *, checkpoint: str, pipeline: str, project: Path
) -> DeadLetterPublisher | None:
    """Make the desk of a query that reads `tables`, in the order of its sources; None where it needs none."""
    counters = tuple(
        _Counter(table=table, settings=bad_record_settings(table), staging=staging)
        for index, table in enumerate(tables)
        if (staging := staging_of(checkpoint, index, table)) is not None
    )
    if not counters:
        return None
    return DeadLetterPublisher(
        counters=counters, checkpoint=checkpoint, pipeline=pipeline, project=project
    )


def _dead_letter_paths(found: _BatchFiles, batch_id: int) -> Iterator[str]:
    for file in found.files:
        if file.has_letters:
            yield f"{found.counter.staging}/{batch_id}/{file.name}"


def _remove_before(spark: SparkSession, staging: str, batch_id: int) -> None:
    """Remove the folders of batches that are done."""
    for name in list_names(spark, staging):
        if name.isdigit() and int(name) < batch_id:
            delete(spark, f"{staging}/{name}")
