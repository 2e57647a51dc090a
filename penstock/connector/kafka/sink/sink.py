"""The Kafka sink: stages a micro-batch, runs the Spark jobs that send it, and records it in the checkpoint.

A sink that is not called for every batch, such as that of dead letters, checks how long its marker is remembered.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.catalog.errors import SinkError, StateMismatchError, UnsupportedError
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import Guarantee, MicroBatch, Sink, SinkCapabilities, SinkSettings
from penstock.connector.kafka.client.connection import Connection, TopicPartition, admin_connection
from penstock.connector.kafka.sink.client import (
    SinkAdmin,
    check_topics,
    check_transactions,
    marker_partition,
    producer_connection,
    transaction_timeout_ms,
)
from penstock.connector.kafka.sink.protocol import Marker, SlotNames, may_write, read_marker
from penstock.connector.kafka.sink.records import (
    check_topic_given,
    ordered,
    records_of,
    single_topic,
    slotted,
    writes_changes,
)
from penstock.connector.kafka.sink.settings import Delivery, KafkaSinkSettings, Partitioner, Staging
from penstock.connector.kafka.sink.sink_state import (
    BEGAN,
    FOLDER,
    SinkState,
    check_unchanged,
    parse_sink_state,
    read_sink_state,
    record_sink_state,
)
from penstock.connector.kafka.sink.tasks import (
    REPORT,
    SlotTask,
    Transactions,
    Writing,
    write_plainly,
    write_slot,
)
from penstock.connector.kafka.table.fields import KafkaTable
from penstock.connector.spark.hadoop_files import delete, list_names, read_text, rename, write_text
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.determinism import nondeterminism
from penstock.connector.spark.sink.micro_batch import (
    batch_digest,
    micro_batch_query,
    saved_query_id,
)
from penstock.connector.spark.sink.target_rows import check_complete

RETENTION = "offsets.retention.minutes"
DEFAULT_RETENTION_MIN = 10_080
"""Kafka's own, assumed where the broker's settings may not be seen."""


def first_attempt_ms(spark: SparkSession, folder: str, batch_id: int, now_ms: int) -> int:
    """Record that a batch is about to be written, and return when it first was (epoch ms). Notes of other batches are
    removed.

    Raises StateMismatchError where the note is damaged.
    """
    path = f"{folder}/{batch_id}"
    text = read_text(spark, path)
    if text is None:
        for name in list_names(spark, folder):
            delete(spark, f"{folder}/{name}")
        write_text(spark, path, str(now_ms))
        return now_ms
    if not text.isdigit():
        raise StateMismatchError(
            f"the file {path} does not say when batch {batch_id} was first written",
            hint="restore the checkpoint from a backup; or SET another 'pipeline.name' to start over",
        )
    return int(text)


def marker_lasts_ms(admin: SinkAdmin) -> int:
    """Return for how long a marker is trusted to exist: most of the time that the broker keeps it."""
    minutes = int(admin.broker_setting(RETENTION) or DEFAULT_RETENTION_MIN)
    return minutes * 60_000 * 6 // 7


def check_remembered(
    what: str, found: Marker | None, *, first_ms: int, now_ms: int, lasts_ms: int
) -> None:
    """Check that a marker that is missing never was. Raises StateMismatchError."""
    if found is not None or now_ms - first_ms <= lasts_ms:
        return
    days = (now_ms - first_ms) / 86_400_000
    raise StateMismatchError(
        f"{what}: its writing was begun {days:.1f} days ago and it is unknown whether it ended: the broker has "
        "forgotten it by now",
        hint="look for its records in the topic; then start over, with --from-scratch or another 'pipeline.name'",
    )


def stage_records(spark: SparkSession, records: DataFrame, folder: str, batch_id: int) -> DataFrame:
    """Stage the records of a batch, unless they are staged already, and return them. Raises SinkError."""
    target, writing = f"{folder}/{batch_id}", f"{folder}/{batch_id}.writing"
    names = list_names(spark, folder)
    if str(batch_id) not in names:
        records.write.mode("overwrite").parquet(writing)
        if not rename(spark, writing, target):
            raise SinkError(
                f"the staged rows of batch {batch_id} cannot be given their name {target}",
                hint="does the checkpoint's file system rename directories, and is there one runner only?",
            )
    else:
        evaluate_batch(records)
    for name in names:
        if name != str(batch_id):
            delete(spark, f"{folder}/{name}")
    return spark.read.parquet(target)


def evaluate_batch(frame: DataFrame) -> None:
    """Compute a batch without keeping its rows: a query's state moves on with its batch, written before or not."""
    frame.write.format("noop").mode("overwrite").save()


logger = logging.getLogger(__name__)

_PARTITIONS_KEPT = {"spark.sql.adaptive.enabled": "false"}
"""Nothing merges or drops partitions while a job runs: a partition is a slot, an empty one too."""

_SPECULATION = "spark.speculation"


@dataclass(slots=True, kw_only=True)
class KafkaSink(Sink):
    """Writes into topics. `table` holds formats, columns and log-in; `upsert`: the key's last record counts.

    `sparse`: batches may be left out (`check_remembered`); for tables with one slot, so that a batch is written whole
    or not at all.
    """

    table: KafkaTable
    settings: KafkaSinkSettings
    name: str
    upsert: bool
    sparse: bool = False
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
        )

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
        query = saved_query_id(spark, checkpoint)
        if self.settings.delivery is not Delivery.EXACTLY_ONCE or query is None:
            return
        ledger = read_sink_state(spark, f"{checkpoint}/{self._ledger_path(query, sink)}")
        if ledger is not None:
            self._check_unchanged(ledger)

    def check_resumes_here(self, checkpoint: Path, query: str | None, sink: str) -> None:
        """Check the same without Spark; asks no broker."""
        if self.settings.delivery is not Delivery.EXACTLY_ONCE or query is None:
            return
        path = checkpoint / self._ledger_path(query, sink)
        if path.is_file():
            self._check_unchanged(parse_sink_state(path.read_text(encoding="utf-8"), str(path)))

    def _ledger_path(self, query: str, sink: str) -> str:
        names = SlotNames.of(self.settings.prefix, query, f"{sink}/{self.name}")
        return f"{FOLDER}/{names.scope}/{BEGAN}"

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

    # --- exactly once ------------------------------------------------------------------------------------

    def _write_once(self, frame: DataFrame, batch: MicroBatch, *, stages: bool) -> None:
        spark = batch.spark
        names = SlotNames.of(self.settings.prefix, batch.query_id, f"{batch.sink}/{self.name}")
        folder = f"{batch.checkpoint}/{FOLDER}/{names.scope}"
        ledger = self._ledger(spark, f"{folder}/{BEGAN}", batch.batch_id)
        shared = Transactions(
            names=names,
            timeout_ms=self._transaction_timeout_ms(self._admin()),
            partition=TopicPartition(ledger.topic, 0),
            batch_id=batch.batch_id,
            first_batch=ledger.first_batch,
            digest=batch_digest(batch),
            sparse=self.sparse,
        )
        if self.sparse:
            self._check_remembered(spark, f"{folder}/attempts", shared)
        follows = self._written.get(names.scope) == batch.batch_id - 1
        if not follows and not self._is_open(shared, ledger.slots):
            evaluate_batch(frame)
        else:
            records = records_of(frame, self.table, owner=self.name)
            if stages:
                records = stage_records(spark, ordered(records), f"{folder}/staged", batch.batch_id)
            self._write_slots(records, ledger.slots, shared)
        self._written[names.scope] = batch.batch_id

    def _check_remembered(self, spark: SparkSession, folder: str, shared: Transactions) -> None:
        now_ms = time.time_ns() // 1_000_000
        first_ms = first_attempt_ms(spark, folder, shared.batch_id, now_ms)
        if first_ms == now_ms:
            return
        claim, admin = shared.claim(0), self._admin()
        check_remembered(
            f"slot '{claim.slot}', batch {claim.batch_id}",
            read_marker(admin, claim.slot, shared.partition),
            first_ms=first_ms,
            now_ms=now_ms,
            lasts_ms=marker_lasts_ms(admin),
        )

    def _ledger(self, spark: SparkSession, path: str, batch_id: int) -> SinkState:
        ledger = read_sink_state(spark, path)
        if ledger is None:
            slots = self.settings.parallelism or 1
            if self.settings.parallelism is None and not self._keyless:
                slots = spark.sparkContext.defaultParallelism
            topic = marker_partition(self._admin(), self.table.settings.subscription)
            began = SinkState(
                prefix=self.settings.prefix, slots=slots, first_batch=batch_id, topic=topic
            )
            ledger = record_sink_state(spark, path, began)
        self._check_unchanged(ledger)
        return ledger

    def _check_unchanged(self, ledger: SinkState) -> None:
        check_unchanged(
            ledger, prefix=self.settings.prefix, slots=self.settings.parallelism, owner=self.name
        )

    def _is_open(self, shared: Transactions, slots: int) -> bool:
        """Return whether a slot lacks the batch; asked where it may be a replay, before anything is computed.

        Only the tasks' own answers count for what is written. Here a batch that cannot be is refused without
        disturbing the runner that is ahead.
        """
        admin = self._admin()
        claims = map(shared.claim, range(slots))
        # every slot is asked: one that does not fit is an error, whatever the others say
        found = [may_write(c, read_marker(admin, c.slot, shared.partition)) for c in claims]
        return any(found)

    def _write_slots(self, records: DataFrame, slots: int, shared: Transactions) -> None:
        by_key = self._by_key(records)
        task = SlotTask(writing=self._writing(by_key=by_key), transactions=shared)
        with configured(records.sparkSession, _PARTITIONS_KEPT):
            chosen = slotted(records, slots, by_key=by_key)
            reports = chosen.mapInArrow(partial(write_slot, task=task), REPORT).collect()
        reported = sorted(report["slot"] for report in reports)
        if reported != list(range(slots)):
            raise SinkError(
                f"{self.name}: slots {reported} of {slots} say that they are written, so the batch is not done"
            )

    def _stages(self, reasons: Sequence[str]) -> bool:
        """Return whether batches are staged before they are published: `reasons` are why a replay may differ.

        Raises UnsupportedError.
        """
        if (
            self.sparse
        ):  # one slot: the batch is there whole or not at all, whatever a replay would give
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
        writing = self._writing(by_key=by_key)
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

    def _writing(self, *, by_key: bool) -> Writing:
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


def _refuse_speculation(spark: SparkSession, owner: str) -> None:
    if spark.sparkContext.getConf().get(_SPECULATION, "false").lower() == "true":
        raise UnsupportedError(
            f"{owner}: {_SPECULATION} = true with 'sink.delivery-guarantee' = 'exactly-once': a second attempt of a "
            "task fences the first, which counts as a failure of it",
            hint=f"set {_SPECULATION} to false",
        )
