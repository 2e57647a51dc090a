"""What fault tests read and write: records that can be told apart, a topic of them, and SQL that copies or counts it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from zlib import crc32

from confluent_kafka import Producer

from tests.faults.checker import Expected, Row, Verdict, check
from tests.integration.pipeline import delta_rows
from tests.kafka_server import TIMEOUT_S, KafkaServer

BATCH = 500
"""Records of a micro-batch, of all partitions together."""

FIRST = datetime(
    2024, 1, 1
)  # event time of a partition's first record; the others follow a second apart
MINUTE_S = 60

TABLE = """
CREATE TABLE IF NOT EXISTS events (
  part INT, seq BIGINT, payload STRING, crc BIGINT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.group.id' = '{topic}-readers', 'scan.startup.mode' = 'earliest-offset',
  'scan.max-records-per-batch' = '{batch}', 'scan.parallelism' = '{tasks}', 'format' = 'json'{options}
);
"""
UPSERTS = """
CREATE TABLE IF NOT EXISTS upserts (
  part INT, pair BIGINT, seq BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND,
  PRIMARY KEY (part, pair) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.max-records-per-batch' = '{batch}', 'key.format' = 'json', 'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY'
);
"""
COPY = """
CREATE TABLE IF NOT EXISTS copied (part INT, seq BIGINT, payload STRING, crc BIGINT)
WITH ('connector' = 'delta', 'path' = 'copied');
INSERT INTO copied SELECT part, seq, payload, crc FROM events;
"""
KEEP = """
CREATE TABLE IF NOT EXISTS kept (
  part INT, seq BIGINT, payload STRING, crc BIGINT, PRIMARY KEY (part, seq) NOT ENFORCED
) WITH ('connector' = 'delta', 'path' = 'kept');
INSERT INTO kept SELECT part, seq, payload, crc FROM events;
"""
COUNT = """
CREATE TABLE IF NOT EXISTS counted (part INT, starts TIMESTAMP(3), n BIGINT, seqs BIGINT)
WITH ('connector' = 'delta', 'path' = 'counted');
INSERT INTO counted SELECT part, window_start, COUNT(*), SUM(seq)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, part;
"""
BOUNDED = ", 'scan.bounded.mode' = 'latest-offset'"


def payload(seed: int, part: int, seq: int) -> str:
    """Draw a record's payload, of some ten to some hundred characters; the same for the same record and seed."""
    draw = random.Random(f"{seed}/{part}/{seq}")
    return f"{draw.getrandbits(400 * draw.randint(1, 4)):x}"


@dataclass(slots=True)
class Workload:
    """A topic and what was written to it. `written[p]`: records of partition p, those of aborted transactions too.

    The key of a record is its partition and half of its number: of two records of one minute the second replaces the
    first where they are read as upserts.
    """

    kafka: KafkaServer
    seed: int
    partitions: int = 2
    topic: str = ""
    written: Counter[int] = field(default_factory=Counter)
    aborted: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Make the topic."""
        self.topic = self.topic or self.kafka.create_topic(partitions=self.partitions)

    def write(self, each: int) -> None:
        """Append `each` records to every partition."""
        for part in range(self.partitions):
            first = self.written[part]
            keys = [
                json.dumps({"part": part, "pair": seq // 2}) for seq in range(first, first + each)
            ]
            self.kafka.produce(self.topic, self._next(part, each), partition=part, keys=keys)

    def write_in_transaction(self, part: int, count: int, *, commit: bool) -> None:
        """Append records to one partition in a transaction, which leaves a control record behind them."""
        first = self.written[part]
        self.kafka.transaction(self.topic, self._next(part, count), partition=part, commit=commit)
        if not commit:
            self.aborted |= {(part, seq) for seq in range(first, first + count)}

    @contextmanager
    def open_transaction(self, part: int, count: int) -> Iterator[Producer]:
        """Append records to one partition in a transaction of another program, which has no end yet."""
        # By default the broker aborts it after a minute, which a run on a busy machine takes.
        settings = self.kafka.client_settings(
            transactional_id=f"{self.topic}-open", transaction_timeout_ms=600_000, linger_ms=1
        )
        producer = Producer(settings)
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for record in self._next(part, count):
            producer.produce(self.topic, record, partition=part)
        assert producer.flush(TIMEOUT_S) == 0, "the broker did not take every record"
        yield producer

    def _next(self, part: int, count: int) -> list[str]:
        first = self.written[part]
        self.written[part] += count
        return [self._record(part, seq) for seq in range(first, first + count)]

    def _record(self, part: int, seq: int) -> str:
        text = payload(self.seed, part, seq)
        moment = FIRST + timedelta(seconds=seq)
        return json.dumps(
            {
                "part": part,
                "seq": seq,
                "payload": text,
                "crc": crc32(text.encode()),
                "ts": f"{moment:%Y-%m-%d %H:%M:%S}",
            }
        )

    @property
    def expected(self) -> Expected:
        """What a result has to hold."""
        return Expected(counts=dict(self.written), aborted=frozenset(self.aborted))

    def script(self, *statements: str, options: str = "", batch: int = BATCH) -> str:
        """Give the SQL that declares the topic's table, and more statements (`COPY`, `COUNT`)."""
        text = TABLE + "".join(statements)
        return text.format(
            topic=self.topic,
            bootstrap=self.kafka.bootstrap,
            batch=batch,
            tasks=self.partitions,
            options=options,
        )

    def check_copy(self, table: Path) -> Verdict:
        """Hold a copy in a Delta table against what was written; a table has no order."""
        query = "SELECT part, seq, payload, crc FROM {table}"
        return check((Row(*row) for row in delta_rows(table, query)), self.expected)

    def windows(self) -> list[tuple[int, datetime, int, int]]:
        """Count the minutes of each partition as a batch query would: (part, start, rows, sum of numbers), sorted."""
        counts: Counter[tuple[int, int]] = Counter()
        sums: Counter[tuple[int, int]] = Counter()
        for part, seq in self.expected:
            counts[part, seq // MINUTE_S] += 1
            sums[part, seq // MINUTE_S] += seq
        return [
            (part, FIRST + timedelta(minutes=minute), count, sums[part, minute])
            for (part, minute), count in sorted(counts.items())
        ]


def counted(table: Path) -> Sequence[tuple[int, datetime, int, int]]:
    """Read the windows that a pipeline counted, sorted."""
    query = "SELECT part, starts::TIMESTAMP, n, seqs FROM {table} ORDER BY ALL"
    return [(part, starts, n, seqs) for part, starts, n, seqs in delta_rows(table, query)]
