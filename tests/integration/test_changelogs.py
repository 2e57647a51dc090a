"""Changes from a real topic into Delta tables with a PRIMARY KEY: filtered, joined, aggregated; over a replayed batch.

The reference applies the changes in order to a dictionary and asks the question of what is left.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock
from penstock.connector.changelog import ChangelogMode, RowKind
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.physical.insert import sink_changelog_mode, to_display_rows, to_sink_rows
from penstock.sql.plan.rules.flow import Flow
from tests.delta_tables import read_delta
from tests.integration.test_updating_queries import forget_last_batch, run
from tests.kafka_server import KafkaServer

Order = dict[str, Any]
NAMES = {"r0": "north", "r1": "south"}

DEFINITIONS = """
CREATE TEMPORARY TABLE orders (id BIGINT, region STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '{orders}', 'format' = 'debezium-json', 'scan.startup.mode' = 'earliest-offset',
      'properties.bootstrap.servers' = '{bootstrap}', 'scan.max-records-per-batch' = '100');
CREATE TEMPORARY TABLE latest (id BIGINT, region STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '{latest}', 'key.format' = 'json', 'value.format' = 'json',
      'properties.bootstrap.servers' = '{bootstrap}');
CREATE TEMPORARY TABLE names (region STRING, name STRING, PRIMARY KEY (region) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'names');
CREATE TEMPORARY TABLE named (id BIGINT, amount INT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'named');
CREATE TEMPORARY TABLE totals (region STRING, n BIGINT, total BIGINT, mean INT, PRIMARY KEY (region) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'totals');
CREATE TEMPORARY TABLE large (id BIGINT, amount INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'large')
"""
SCRIPT = """
INSERT INTO named SELECT o.id, o.amount, n.name FROM orders AS o JOIN names AS n ON o.region = n.region
  WHERE o.amount > 30;
INSERT INTO totals SELECT region, COUNT(*), SUM(amount), AVG(amount) FROM orders GROUP BY region HAVING COUNT(*) > 3;
INSERT INTO large SELECT id, amount FROM latest WHERE amount > 50
"""


class Orders:
    """Orders that are made, changed and deleted, and the change records that say so."""

    def __init__(self) -> None:
        self.rows: dict[int, Order] = {}
        self._draw = random.Random(11)

    def change(self) -> tuple[int, Order | None, Order | None]:
        """Change one order; gives its id, and the order before and after."""
        number = self._draw.randrange(40)
        before = self.rows.get(number)
        after: Order | None = None
        if before is None or self._draw.random() < 0.8:
            region = f"r{self._draw.randrange(4)}"
            after = {"id": number, "region": region, "amount": self._draw.randrange(100)}
            self.rows[number] = after
        else:
            del self.rows[number]
        return number, before, after


def debezium(before: Order | None, after: Order | None) -> str:
    """Write a change as Debezium does."""
    kind = "c" if before is None else "d" if after is None else "u"
    return json.dumps({"before": before, "after": after, "op": kind})


def produce(
    kafka: KafkaServer,
    topics: Mapping[str, str],
    changes: Sequence[tuple[int, Order | None, Order | None]],
) -> None:
    """Write changes to both topics, those of an order in one partition."""
    for partition in range(2):
        mine = [change for change in changes if change[0] % 2 == partition]
        records = [debezium(before, after) for _, before, after in mine]
        kafka.produce(topics["orders"], records, partition=partition)
        keys = [json.dumps({"id": number}) for number, _, _ in mine]
        values = [None if after is None else json.dumps(after) for _, _, after in mine]
        kafka.produce(topics["latest"], values, keys=keys, partition=partition)


def read(project: Path, table: str) -> list[tuple[Any, ...]]:
    """Give the rows of a Delta table, sorted."""
    rows = read_delta(project / table).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_tables_equal_what_is_left_of_the_changes(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """Rows that leave a filter, lose their match, or are the last of a group are gone; a replay changes nothing."""
    topics = {name: kafka.create_topic(partitions=2) for name in ("orders", "latest")}
    orders, script = Orders(), project / "changes.sql"
    script.write_text(SCRIPT, encoding="utf-8")
    with penstock.connect(spark) as session:
        for statement in DEFINITIONS.format(**topics, bootstrap=kafka.bootstrap).split(";"):
            session.sql(statement)
        session.sql("INSERT INTO names VALUES ('r0', 'north'), ('r1', 'south')")
        produce(kafka, topics, [orders.change() for _ in range(120)])
        run(session, script)
        for sink in ("named", "totals", "large"):
            forget_last_batch(project / ".penstock" / "checkpoints" / "changes" / sink)
        produce(kafka, topics, [orders.change() for _ in range(80)])
        run(session, script)
    left = orders.rows.values()
    counts = Counter(o["region"] for o in left)
    sums = {region: sum(o["amount"] for o in left if o["region"] == region) for region in counts}

    assert read(project, "named") == sorted(
        (o["id"], o["amount"], NAMES[o["region"]])
        for o in left
        if o["amount"] > 30 and o["region"] in NAMES
    )
    assert read(project, "totals") == sorted(
        (region, n, sums[region], sums[region] // n) for region, n in counts.items() if n > 3
    )
    assert read(project, "large") == sorted(
        (o["id"], o["amount"]) for o in left if o["amount"] > 50
    )


def test_a_sink_of_upserts_gets_no_rows_as_they_were(spark: SparkSession) -> None:
    """By its own key they are replaced; where the key of the rows is not known they are deletes."""
    rows = [(1, kind.value) for kind in RowKind]
    frame = spark.createDataFrame(rows, "id INT, __row_kind TINYINT")
    sent = {}
    for key in (("id",), None):
        flow = Flow(columns=("id",), changes=ChangelogMode.ALL, key=key, kinds=True)
        query = AnalysedQuery(query=None, leaves=(), flow=flow)  # type: ignore[arg-type]
        assert sink_changelog_mode(query, ChangelogMode.UPSERT) is ChangelogMode.UPSERT
        found = to_sink_rows(frame, query, ChangelogMode.UPSERT).collect()
        sent[key] = [row["__row_kind"] for row in found]

    assert sent == {("id",): [0, 2, 3], None: [0, 3, 2, 3]}


def test_a_select_shows_changes_with_their_kind_in_front(spark: SparkSession) -> None:
    """As Flink's SQL client does."""
    frame = spark.createDataFrame(
        [(1, kind.value) for kind in RowKind], "id INT, __row_kind TINYINT"
    )
    flow = Flow(columns=("id",), changes=ChangelogMode.ALL, kinds=True)
    query = AnalysedQuery(query=None, leaves=(), flow=flow)  # type: ignore[arg-type]
    shown = to_display_rows(frame, query, streaming=False)

    assert [tuple(row) for row in shown.collect()] == [("+I", 1), ("-U", 1), ("+U", 1), ("-D", 1)]
