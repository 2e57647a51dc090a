"""Maintained queries from real topics into Delta tables with a PRIMARY KEY: equal to the batch answer, over failures."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import PenstockError, QueryFailedError, UnsupportedError
from penstock.sql.plan.physical import incremental as insert_module
from tests.delta_tables import read_delta
from tests.integration.test_changelogs import Orders, debezium, produce
from tests.integration.test_updating_queries import forget_last_batch, run
from tests.kafka_server import KafkaServer

DEFINITIONS = """
CREATE TEMPORARY TABLE orders (id BIGINT, region STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '{orders}', 'format' = 'debezium-json', 'scan.startup.mode' = 'earliest-offset',
      'properties.bootstrap.servers' = '{bootstrap}', 'scan.max-records-per-batch' = '60');
CREATE TEMPORARY TABLE latest (id BIGINT, region STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '{latest}', 'key.format' = 'json', 'value.format' = 'json',
      'properties.bootstrap.servers' = '{bootstrap}');
CREATE TEMPORARY TABLE spread (n BIGINT, regions BIGINT, top INT, PRIMARY KEY (n) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'spread');
CREATE TEMPORARY TABLE matched (id BIGINT, amount INT, region STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'matched')
"""
INSERTS = {
    "matched": "SELECT o.id, o.amount, l.region FROM orders AS o LEFT JOIN latest AS l "
    "ON o.id = l.id AND l.amount > 50",
    "spread": "SELECT n, COUNT(*), MAX(m) FROM "
    "(SELECT region, COUNT(*) AS n, MAX(amount) AS m FROM orders GROUP BY region) GROUP BY n",
}


def answer(name: str, orders: Orders) -> list[tuple[Any, ...]]:
    """Give what a table holds once all changes are read."""
    rows = list(orders.rows.values())
    if name == "matched":
        found = [(r["id"], r["amount"], r["region"] if r["amount"] > 50 else None) for r in rows]
        return sorted(found, key=lambda row: row[0])
    sizes = Counter(row["region"] for row in rows)
    tops = {name: max(r["amount"] for r in rows if r["region"] == name) for name in sizes}
    by_size = {n: [region for region in sizes if sizes[region] == n] for n in sizes.values()}
    return sorted((n, len(names), max(tops[r] for r in names)) for n, names in by_size.items())


def kept(project: Path, table: str) -> list[tuple[Any, ...]]:
    """Give the rows of a Delta table in the order of their first column."""
    rows = read_delta(project / table).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=lambda row: row[0])


@pytest.mark.parametrize("name", ["matched", pytest.param("spread", marks=pytest.mark.nightly)])
def test_a_table_equals_the_batch_answer_after_a_failure_and_a_replay(
    spark: SparkSession,
    kafka: KafkaServer,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """A batch that failed between its state and the sink is run again, and one that the checkpoint does not know."""
    topics = {topic: kafka.create_topic(partitions=2) for topic in ("orders", "latest")}
    orders, script, visits = Orders(), project / "kept.sql", Counter[str]()
    insert = f"INSERT INTO {name} {INSERTS[name]}"
    script.write_text(f"SET 'table.exec.state.ttl' = '1 h'; {insert}", encoding="utf-8")

    def fail_once(place: str) -> None:
        visits[place] += 1
        if visits[place] == 2:
            raise QueryFailedError("between the state and the sink")

    with penstock.connect(spark) as session:
        for statement in DEFINITIONS.format(**topics, bootstrap=kafka.bootstrap).split(";"):
            session.sql(statement)
        produce(kafka, topics, [orders.change() for _ in range(70)])
        with monkeypatch.context() as patch, contextlib.suppress(PenstockError):
            patch.setattr(insert_module, "reach", fail_once)
            run(session, script)
        forget_last_batch(project / ".penstock" / "checkpoints" / "kept" / name)
        produce(kafka, topics, [orders.change() for _ in range(40)])
        run(session, script)
        lines = session.sql(f"EXPLAIN {insert}").collect()

    assert visits["maintained"] > 1
    assert kept(project, name) == answer(name, orders)
    assert "[stage " in str(lines)


@pytest.mark.nightly
def test_the_first_row_of_each_key_stays_and_a_hint_bounds_a_count(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """ON CONFLICT DO NOTHING over several batches, one of them replayed, and NULLs; STATE_TTL as the setting."""
    topic, script = kafka.create_topic(partitions=1), project / "firsts.sql"
    rows = [{"k": f"k{n % 5}", "tags": [n, None, n + 1] if n % 3 else None} for n in range(40)]
    kafka.produce_json(topic, rows[:25])
    tables = f"""
        CREATE TEMPORARY TABLE tagged (k STRING, tags ARRAY<INT>)
        WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json', 'scan.max-records-per-batch' = '13',
              'scan.startup.mode' = 'earliest-offset', 'properties.bootstrap.servers' = '{kafka.bootstrap}');
        CREATE TEMPORARY TABLE firsts (k STRING, tag INT, n INT, PRIMARY KEY (k, n) NOT ENFORCED)
        WITH ('connector' = 'delta', 'path' = 'firsts');
        CREATE TEMPORARY TABLE counts (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('connector' = 'delta', 'path' = 'counts')
    """
    script.write_text(
        """
        INSERT INTO firsts (tag, n, k) SELECT u.tag, u.n, t.k FROM tagged AS t
        CROSS JOIN UNNEST(t.tags) WITH ORDINALITY AS u (tag, n) ON CONFLICT DO NOTHING;
        INSERT INTO counts SELECT /*+ STATE_TTL('t' = '1 d') */ k, COUNT(*) FROM tagged AS t GROUP BY k
        """,
        encoding="utf-8",
    )
    with penstock.connect(spark) as session:
        for statement in tables.split(";"):
            session.sql(statement)
        run(session, script)
        forget_last_batch(project / ".penstock" / "checkpoints" / "firsts" / "firsts")
        kafka.produce_json(topic, rows[25:])
        run(session, script)
    firsts: dict[tuple[str, int], int | None] = {}
    for row in rows:
        for number, tag in enumerate(row["tags"] or (), start=1):
            firsts.setdefault((row["k"], number), tag)

    assert sorted(kept(project, "firsts"), key=repr) == sorted(
        ((k, tag, n) for (k, n), tag in firsts.items()), key=repr
    )
    assert kept(project, "counts") == [(f"k{n}", 8) for n in range(5)]


def test_a_select_gives_the_answer_of_a_bounded_table_at_once(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """One without end has to be an INSERT."""
    topics = {name: kafka.create_topic(partitions=1) for name in ("orders", "latest")}
    orders = Orders()
    produce_first(kafka, topics, orders)
    query = "SELECT n, COUNT(*) AS c FROM (SELECT region, COUNT(*) AS n FROM orders {hint} GROUP BY region) GROUP BY n"
    with penstock.connect(spark) as session:
        for statement in DEFINITIONS.format(**topics, bootstrap=kafka.bootstrap).split(";"):
            session.sql(statement)
        hint = "/*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */"
        rows = session.sql(query.format(hint=hint)).collect()
        with pytest.raises(UnsupportedError, match="it has to be an INSERT"):
            session.sql(query.format(hint=""))

    sizes = Counter(row["region"] for row in orders.rows.values())
    assert Counter({row[0]: row[1] for row in rows}) == Counter(sizes.values())


def produce_first(kafka: KafkaServer, topics: dict[str, str], orders: Orders) -> None:
    """Write changes of some orders into a topic of one partition."""
    records = [debezium(before, after) for _, before, after in (orders.change() for _ in range(80))]
    kafka.produce(topics["orders"], records, partition=0)
