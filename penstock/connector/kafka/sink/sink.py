"""The Kafka sink: stages a micro-batch, runs the Spark jobs that send it, and records it in the checkpoint.

A sink that is not called for every batch, such as that of dead letters, checks how long its marker is remembered.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.catalog.errors import SinkError, UnsupportedError
from penstock.catalog.model.table import Table
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import (
    Guarantee,
    MicroBatch,
    Sink,
    SinkCapabilities,
    SinkSettings,
    TaskWriter,
)
from penstock.connector.file_output import (
    FilledColumn,
    RecordOutput,
    TaskOutput,
    TaskRecords,
    WrittenByEngine,
)
from penstock.connector.kafka.client.connection import Connection, TopicPartition, admin_connection
from penstock.connector.kafka.sink.batch_files import (
    check_attempt,
    evaluate_batch,
    is_staged,
    stage_records,
)
from penstock.connector.kafka.sink.client import (
    SinkAdmin,
    check_topics,
    check_transactions,
    marker_partition,
    producer_connection,
    transaction_timeout_ms,
)
from penstock.connector.kafka.sink.protocol import (
    SlotNames,
    digest_by_tasks,
    lacks_batch,
    read_marker,
)
from penstock.connector.kafka.sink.records import (
    check_topic_given,
    encoded_digest,
    ordered,
    records_of,
    single_topic,
    slotted,
    writes_changes,
)
from penstock.connector.kafka.sink.settings import Delivery, KafkaSinkSettings, Partitioner, Staging
from penstock.connector.kafka.sink.sink_state import (
    FOLDER,
    BatchBegun,
    SinkState,
    batch_begun,
    check_unchanged,
    ledger_path,
    parse_sink_state,
    read_sink_state,
    record_sink_state,
)
from penstock.connector.kafka.sink.task_output import ended_by, record_output
from penstock.connector.kafka.sink.tasks import (
    REPORT,
    SlotTask,
    Transactions,
    Writing,
    read_transactions,
    transactions_text,
    write_plainly,
    write_slot,
)
from penstock.connector.kafka.table.fields import KafkaTable
from penstock.connector.spark.session import configured, job_property
from penstock.connector.spark.sink.determinism import nondeterminism
from penstock.connector.spark.sink.micro_batch import (
    batch_digest,
    micro_batch_query,
    saved_query_id,
)
from penstock.connector.spark.sink.target_rows import check_complete
from penstock.connector.spark.sink.task_files import count_rows, run_tasks
from penstock.connector.spark.source.columns import FILE
from penstock.connector.spark.source.task import BATCH_OF_SINK

logger = logging.getLogger(__name__)

_PARTITIONS_KEPT = {"spark.sql.adaptive.enabled": "false"}
"""Nothing merges or drops partitions while a job runs: a partition is a slot, an empty one too."""
_SPECULATION = "spark.speculation"


@dataclass(slots=True, kw_only=True)
class KafkaSink(Sink):
    """Writes into topics. `table` holds formats, columns and log-in; `upsert`: the key's last record counts.

    `sparse`: batches may be left out (`check_remembered`); for tables with one slot, so that a batch is written whole
    or not at all. `definition` is the table's, by which tasks make the sink again; None: none of them does.
    """

    table: KafkaTable
    settings: KafkaSinkSettings
    name: str
    upsert: bool
    sparse: bool = False
    definition: Table | None = field(default=None, repr=False)
    _written: dict[str, int] = field(default_factory=dict, repr=False)
    _timeout_ms: int | None = None
    _asked: SinkAdmin | None = field(default=None, repr=False)

    @property
    def capabilities(self) -> SinkCapabilities:
        """What `sink.delivery-guarantee` says; all changes into upsert topics and by a format of changes.

        Formats of changes write the row before an update.
        """
        changes = writes_changes(self.table)
        return SinkCapabilities(
            guarantee=Guarantee(self.settings.delivery.value),
            accepts=ChangelogMode.ALL if self.upsert or changes else ChangelogMode.INSERT_ONLY,
            needs_update_before=changes,
            resumable=True,
            evaluates_once=True,
        )

    @property
    def task_writer(self) -> TaskWriter | None:
        """Reading tasks write the records that they can encode."""
        if self.definition is None:
            return None
        return KafkaTaskWriter(sink=self, definition=self.definition)

    def with_gaps(self) -> KafkaSink:
        """Return a sink that is given some batches only."""
        return KafkaSink(
            table=self.table,
            settings=self.settings,
            name=self.name,
            upsert=self.upsert,
            sparse=True,
        )

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Check columns, topics, rights and time limits. Raises InputError, SinkError, BrokerUnavailableError."""
        check_complete(self.table.schema, schema.names, owner=self.name)
        check_topic_given(self.table, schema.names, owner=self.name)
        admin = self._admin()
        check_topics(admin, self.table.settings.subscription)
        if self.settings.delivery is Delivery.EXACTLY_ONCE:
            _refuse_speculation(spark, self.name)
            timeout_ms = self._transaction_timeout_ms(admin)
            topic = marker_partition(admin, self.table.settings.subscription)
            check_transactions(self._connection(), admin, self.settings.prefix, timeout_ms, topic)

    def check_resumes(
        self,
        spark: SparkSession,
        checkpoint: str,
        sink: str,
        *,
        notes: bool = True,  # noqa: ARG002  of the contract
    ) -> None:
        """Check that slots and prefix are those with which the checkpoint began; makes no request."""
        if self.settings.delivery is Delivery.EXACTLY_ONCE:
            saved = self._saved(spark, checkpoint, sink)
            if saved is not None:
                self._check_unchanged(saved[1])

    def check_resumes_here(self, checkpoint: Path, query: str | None, sink: str) -> None:
        """Check the same without Spark; asks no broker."""
        if self.settings.delivery is not Delivery.EXACTLY_ONCE or query is None:
            return
        path = Path(ledger_path(str(checkpoint), self._names(query, sink)))
        if path.is_file():
            self._check_unchanged(parse_sink_state(path.read_text(encoding="utf-8"), str(path)))

    def _names(self, query: str, sink: str) -> SlotNames:
        return SlotNames.of(self.settings.prefix, query, f"{sink}/{self.name}")

    def _saved(
        self, spark: SparkSession, checkpoint: str, sink: str
    ) -> tuple[SlotNames, SinkState] | None:
        """Return the slots of a checkpoint and what it says of them; None where it has not begun."""
        query = saved_query_id(spark, checkpoint)
        if query is None:
            return None
        names = self._names(query, sink)
        ledger = read_sink_state(spark, ledger_path(checkpoint, names))
        return None if ledger is None else (names, ledger)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start writing batch after batch. Raises UnsupportedError for a query that could not be replayed.

        Raises StateMismatchError for a table that does not go with the checkpoint.
        """
        if self.settings.delivery is not Delivery.EXACTLY_ONCE:
            return micro_batch_query(frame, settings, self.write_batch)
        self.check_resumes(frame.sparkSession, settings.checkpoint, "")
        _refuse_speculation(frame.sparkSession, self.name)
        write = partial(self._write_once, stages=self._stages(nondeterminism(frame)))
        return micro_batch_query(frame, settings, write)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write the rows of a micro-batch; exactly-once passes over what is written."""
        if self.settings.delivery is Delivery.EXACTLY_ONCE:
            # the frame shows what was made of the batch's rows, not how these came about
            reasons = tuple(dict.fromkeys((*batch.differences(), *nondeterminism(frame))))
            self._write_once(frame, batch, stages=self._stages(reasons))
        else:
            self._write_plainly(frame)

    def write(self, frame: DataFrame) -> None:
        """Write the rows of a batch frame; with exactly-once in one transaction."""
        if self.settings.delivery is not Delivery.EXACTLY_ONCE:
            self._write_plainly(frame)
            return
        admin = self._admin()
        topic = marker_partition(admin, self.table.settings.subscription)
        # a writer of its own: nobody replays it, and a task that is tried again finds its marker
        names = SlotNames.of(self.settings.prefix, uuid.uuid4().hex, self.name)
        shared = Transactions(
            names=names,
            timeout_ms=self._transaction_timeout_ms(admin),
            partition=TopicPartition(topic, 0),
            batch_id=0,
            first_batch=0,
            digest="once",
        )
        self._write_slots(records_of(frame, self.table, owner=self.name), 1, shared)

    # --- by reading tasks --------------------------------------------------------------------------------

    def planned_slots(
        self, spark: SparkSession, checkpoint: str | None
    ) -> tuple[int, BatchBegun | None]:
        """Return the number of slots, that with which a checkpoint began or that of one that begins, and the batch of
        the checkpoint that some slots have and that is not complete; asks the broker.
        """
        saved = None if checkpoint is None else self._saved(spark, checkpoint, "")
        if checkpoint is None or saved is None:
            return self._first_slots(spark), None
        names, ledger = saved
        return ledger.slots, batch_begun(spark, checkpoint, ledger, names, self._admin())

    def start_by_tasks(
        self, frame: DataFrame, settings: SinkSettings, output: RecordOutput
    ) -> StreamingQuery:
        """Start a query whose tasks write the records; `frame` has a row for each task. Raises as `start`."""
        if self.settings.delivery is Delivery.EXACTLY_ONCE:
            self.check_resumes(frame.sparkSession, settings.checkpoint, "")
            _refuse_speculation(frame.sparkSession, self.name)
        return micro_batch_query(
            frame, settings, lambda rows, batch: self.write_by_tasks(rows, batch, output)
        )

    def write_by_tasks(self, frame: DataFrame, batch: MicroBatch, output: RecordOutput) -> None:
        """Run the tasks of a batch, which write its records; exactly-once passes over what is written."""
        if self.settings.delivery is not Delivery.EXACTLY_ONCE:
            run_tasks(frame)
            return
        shared, slots = self._transactions(batch, by_tasks=output.tasks)
        assert slots == output.tasks, "the slots of a checkpoint do not change"
        check_attempt(batch, shared, slots, self._admin())
        follows = self._written.get(shared.names.scope) == batch.batch_id - 1
        if not follows and not self._is_open(shared, slots):
            count_rows(frame)
        else:
            counted = batch.commits.transactions(batch.sink, slots)
            with counted, job_property(batch.spark, BATCH_OF_SINK, transactions_text(shared)):
                reports = frame.select(FILE).collect()
                self._check_reported(sorted(int(report[FILE]) for report in reports), slots)
        self._written[shared.names.scope] = batch.batch_id

    # --- exactly once ------------------------------------------------------------------------------------

    def _write_once(self, frame: DataFrame, batch: MicroBatch, *, stages: bool) -> None:
        spark = batch.spark
        shared, slots = self._transactions(batch)
        staged = f"{batch.checkpoint}/{FOLDER}/{shared.names.scope}/staged"
        if slots > 1 and not (stages and is_staged(spark, staged, batch.batch_id)):
            shared = replace(shared, digest=encoded_digest(shared.digest, frame, self.table))
        check_attempt(batch, shared, slots, self._admin())
        follows = self._written.get(shared.names.scope) == batch.batch_id - 1
        if not follows and not self._is_open(shared, slots):
            evaluate_batch(frame)
        else:
            records = records_of(frame, self.table, owner=self.name)
            if stages:
                records = stage_records(spark, ordered(records), staged, batch.batch_id)
            with batch.commits.transactions(batch.sink, slots):
                self._write_slots(records, slots, shared)
        self._written[shared.names.scope] = batch.batch_id

    def _transactions(
        self, batch: MicroBatch, *, by_tasks: int | None = None
    ) -> tuple[Transactions, int]:
        """Return what the slots of a batch have in common, and how many there are.

        A checkpoint begins with those of the reading tasks, `by_tasks`: executors may have come since.
        """
        names = self._names(batch.query_id, batch.sink)
        path = ledger_path(batch.checkpoint, names)
        ledger = self._ledger(batch.spark, path, batch.batch_id, by_tasks)
        digest = batch_digest(batch)
        shared = Transactions(
            names=names,
            timeout_ms=self._transaction_timeout_ms(self._admin()),
            partition=TopicPartition(ledger.topic, 0),
            batch_id=batch.batch_id,
            first_batch=ledger.first_batch,
            digest=digest if by_tasks is None else digest_by_tasks(digest),
            sparse=self.sparse,
        )
        return shared, ledger.slots

    def _ledger(
        self, spark: SparkSession, path: str, batch_id: int, by_tasks: int | None
    ) -> SinkState:
        ledger = read_sink_state(spark, path)
        if ledger is None:
            slots = by_tasks or self._first_slots(spark)
            topic = marker_partition(self._admin(), self.table.settings.subscription)
            began = SinkState(
                prefix=self.settings.prefix, slots=slots, first_batch=batch_id, topic=topic
            )
            ledger = record_sink_state(spark, path, began)
        self._check_unchanged(ledger)
        return ledger

    def _first_slots(self, spark: SparkSession) -> int:
        if self.settings.parallelism is None and not self._keyless:
            return spark.sparkContext.defaultParallelism
        return self.settings.parallelism or 1

    def _check_unchanged(self, ledger: SinkState) -> None:
        check_unchanged(
            ledger, prefix=self.settings.prefix, slots=self.settings.parallelism, owner=self.name
        )

    def _is_open(self, shared: Transactions, slots: int) -> bool:
        """Return whether a slot lacks the batch; asked where it may be a replay, before anything is computed.

        Only the tasks' own answers count for what is written. Here a batch that cannot be is refused without
        disturbing the runner that is ahead.
        """
        admin, claims = self._admin(), [shared.claim(slot) for slot in range(slots)]
        return lacks_batch(claims, [read_marker(admin, c.slot, shared.partition) for c in claims])

    def _write_slots(self, records: DataFrame, slots: int, shared: Transactions) -> None:
        by_key = self._by_key(records)
        task = SlotTask(writing=self.writing(by_key=by_key), transactions=shared)
        with configured(records.sparkSession, _PARTITIONS_KEPT):
            chosen = slotted(records, slots, by_key=by_key)
            reports = chosen.mapInArrow(partial(write_slot, task=task), REPORT).collect()
        self._check_reported(sorted(report["slot"] for report in reports), slots)

    def _check_reported(self, reported: list[int], slots: int) -> None:
        if reported != list(range(slots)):
            raise SinkError(
                f"{self.name}: slots {reported} of {slots} say that they are written, so the batch is not done"
            )

    def _stages(self, reasons: Sequence[str]) -> bool:
        """Return whether batches are staged, for `reasons` why a replay may differ. Raises UnsupportedError."""
        if self.sparse:  # one slot: the batch is there whole or not at all
            return False
        if self.settings.staging is Staging.ALWAYS:
            return True
        if not reasons:
            return False
        said = "; ".join(reasons)
        if self.settings.staging is Staging.NEVER:
            raise UnsupportedError(
                f"{self.name}: a replayed batch might give other rows: {said}",
                hint="leave out 'sink.staging' = 'never': batches are then kept in the checkpoint and published "
                "from there; or set 'sink.delivery-guarantee' = 'at-least-once'",
            )
        logger.info("%s: batches are staged before they are published: %s", self.name, said)
        return True

    # --- plainly -----------------------------------------------------------------------------------------

    def _write_plainly(self, frame: DataFrame) -> None:
        records = records_of(frame, self.table, owner=self.name)
        by_key = self._by_key(records)
        tasks = self.settings.parallelism
        if by_key and tasks is None:
            tasks = frame.sparkSession.sparkContext.defaultParallelism
        writing = self.writing(by_key=by_key)
        with configured(records.sparkSession, _PARTITIONS_KEPT):
            if tasks is not None:
                records = slotted(records, tasks, by_key=by_key)
            records.mapInArrow(partial(write_plainly, writing=writing), REPORT).collect()

    @property
    def _keyless(self) -> bool:
        """Whether only their order shows which changes are of one row: a task then writes into one partition."""
        return writes_changes(self.table) and self.table.formats.key is None

    def _by_key(self, records: DataFrame) -> bool:
        """Return whether rows of a key have to come together: to know which of its changes is the last."""
        return self.settings.buffers or ROW_KIND in records.columns

    def writing(self, *, by_key: bool) -> Writing:
        """Return how records leave tasks."""
        # a column says the topic wherever there is one, also of a table with a single topic
        written = {c.metadata_key for c in self.table.schema.metadata if not c.virtual}
        return Writing(
            connection=self._connection(),
            topic=single_topic(self.table) if "topic" not in written else None,
            fixed=self._keyless or self.settings.partitioner is Partitioner.FIXED,
            by_key=by_key,
            only_last=self.settings.buffers,
        )

    def _connection(self) -> Connection:
        return producer_connection(self.table.settings.client, self.settings)

    def _admin(self) -> SinkAdmin:
        if self._asked is None:
            self._asked = SinkAdmin(admin_connection(self.table.settings.client))
        return self._asked

    def _transaction_timeout_ms(self, admin: SinkAdmin) -> int:
        if self._timeout_ms is None:
            asked_ms = self.settings.transaction_timeout_ms
            self._timeout_ms = transaction_timeout_ms(admin, asked_ms, owner=self.name)
        return self._timeout_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTaskWriter(TaskWriter):
    """Lets reading tasks write the records of `sink`, which is that of `definition`."""

    sink: KafkaSink
    definition: Table

    def output(
        self,
        filled: Sequence[FilledColumn],
        spark: SparkSession | None = None,
        checkpoint: str | None = None,
    ) -> RecordOutput | WrittenByEngine:
        """Decide by the table's definition; a batch of the checkpoint that was begun is ended as it was begun."""
        output = record_output(self.definition, self.sink.table, self.sink.settings, filled)
        if isinstance(output, WrittenByEngine):
            return output
        began = None
        if spark is not None and self.sink.settings.delivery is Delivery.EXACTLY_ONCE:
            slots, began = self.sink.planned_slots(spark, checkpoint)
            output = replace(output, tasks=slots)
        return ended_by(output, began, self.sink.settings, owner=self.sink.name)

    def start(self, files: DataFrame, settings: SinkSettings, output: TaskOutput) -> StreamingQuery:
        """Start the query. Raises as the sink's `start`."""
        assert isinstance(output, RecordOutput), "as `output` gives it"
        return self.sink.start_by_tasks(files, settings, output)

    def write_batch(self, files: DataFrame, batch: MicroBatch, output: TaskOutput) -> None:
        """Run the tasks of a batch, which write its records; exactly-once passes over what is written."""
        assert isinstance(output, RecordOutput), "as `output` gives it"
        self.sink.write_by_tasks(files, batch, output)

    def open(self, output: RecordOutput, task: int, note: str | None) -> TaskRecords:
        """Open the records of a task, in it; with exactly-once `task` is the slot."""
        from penstock.connector.kafka.sink.task_records import RecordEncoder, open_records

        transactions = None
        if self.sink.settings.delivery is Delivery.EXACTLY_ONCE:
            assert note is not None, "written batch by batch"
            transactions = read_transactions(note)
        encoder = RecordEncoder(self.sink.table, output.columns, owner=self.sink.name)
        return open_records(encoder, self.sink.writing(by_key=False), task, transactions)


def _refuse_speculation(spark: SparkSession, owner: str) -> None:
    if spark.sparkContext.getConf().get(_SPECULATION, "false").lower() == "true":
        raise UnsupportedError(
            f"{owner}: {_SPECULATION} = true with 'sink.delivery-guarantee' = 'exactly-once': a second attempt of a "
            "task fences the first, which counts as a failure of it",
            hint=f"set {_SPECULATION} to false",
        )
