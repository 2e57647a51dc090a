"""A query over tables of every kind, planned as an INSERT's and run batch by batch; its changes make its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.scan import ARRIVED, ARRIVED_FIELDS
from penstock.sql.checkpoint.watermarks import Watermarks
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.keyed.choose import choose_operators
from penstock.sql.incremental.keyed.runtime.run import KeyedRun
from penstock.sql.incremental.operators.query import IncrementalRun
from penstock.sql.incremental.stages import INPUT_TIME, IncrementalQuery, sources_of
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.plan.stage_runs import typed_relations
from penstock.sql.statements.statement import Select
from penstock.sql.syntax.nodes import ScanTable
from tests.sql.incremental.keyed.oracle import answer, rows_in
from tests.sql.maintain.maintaining import ADDED, Change, open_run
from tests.sql.maintain.temporal_tables import KAFKA, UPSERT
from tests.sql.sql_objects import new_namespace, parse_script

Row = tuple[Any, ...]
INSERT, BEFORE, AFTER, DELETE = (int(kind) for kind in RowKind)
START = datetime(2026, 1, 1, 10)
CHANGED = KAFKA.replace("'json'", "'debezium-json'")
TABLES = f"""
CREATE TABLE events (id BIGINT, k STRING, x BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({KAFKA});
CREATE TABLE cdc (id BIGINT, region STRING, amount BIGINT, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED)
  WITH ({CHANGED});
CREATE TABLE latest (id BIGINT, region STRING, amount BIGINT, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED,
  WATERMARK FOR ts AS ts) WITH ({UPSERT});
CREATE FUNCTION spun AS 'operator.neg' LANGUAGE PYTHON;
"""
"""events: rows that stay. cdc: changes with the row before. latest: upserts."""

COLUMNS = {
    "events": ("id", "k", "x", "ts"),
    "cdc": ("id", "region", "amount", "ts"),
    "latest": ("id", "region", "amount", "ts"),
}
TYPES = (pa.int64(), pa.string(), pa.int64(), pa.timestamp("us"))
SCHEMAS = {
    table: pa.schema(list(zip(names, TYPES, strict=True))) for table, names in COLUMNS.items()
}
Batch = Mapping[str, Sequence[Row]]
"""By table the rows of a batch: two numbers and a text, their time in seconds, and their kind but in events."""


def at(seconds: int) -> datetime:
    """A time of the tests."""
    return START + timedelta(seconds=seconds)


def planned(sql: str, ttl_ms: int = 0) -> AnalysedQuery:
    """Analyse an INSERT of this query into a table that takes everything."""
    namespace = new_namespace(TABLES)
    (statement,) = parse_script(sql, "f.sql", namespace)
    assert isinstance(statement, Select)
    anywhere = SinkTable(name="anywhere", accepts=ChangelogMode.ALL, columns=())
    return analyse(
        statement.query,
        namespace,
        Path("/nowhere"),
        appends=True,
        sink=anywhere,
        state_ttl_ms=ttl_ms,
    )


def operators_of(query: AnalysedQuery, ttl_ms: int = 0) -> list[str]:
    """Name the classes of the keyed operators of a query, by the types that are known without Spark."""
    assert query.maintained is not None
    schemas = typed_relations(query, query.maintained)
    chosen = choose_operators(query.maintained, schemas, ttl_ms, lambda name, _: schemas[name])
    return [type(operator).__name__ for operator in chosen.found.values()]


@dataclass
class Driven:
    """A query, its run and what its changes make; its state is in `folder`. `keyed` as in `open_run`."""

    spark: SparkSession
    folder: Path
    query: AnalysedQuery
    ttl_ms: int = 0
    keyed: bool = True
    batches: int = 0
    before: int | None = None
    rows: Counter[Row] = field(default_factory=Counter)
    run: IncrementalRun | KeyedRun | None = None

    @property
    def maintained(self) -> IncrementalQuery:
        """The stages of the query."""
        assert self.query.maintained is not None
        return self.query.maintained

    def give(
        self, now_s: int = 0, /, *, upto: int | None = None, **tables: Sequence[Row]
    ) -> list[Change]:
        """Run the next batch at a time in seconds, up to a watermark, and apply its changes."""
        changes = self.changes(tables, now_s, upto)
        self.batches, self.before = self.batches + 1, upto
        self._apply(changes)
        return changes

    def changes(self, tables: Batch, now_s: int = 0, upto: int | None = None) -> list[Change]:
        """Run the next batch without applying what it gives: it is run again."""
        now = datetime(2026, 2, 1, tzinfo=UTC) + timedelta(seconds=now_s)
        frame = self._frame(tables).withColumn(INPUT_TIME, F.lit(now))
        if self.run is None:
            folder = f"file:{self.folder}"
            self.run = open_run(frame, self.maintained, folder, self.ttl_ms, keyed=self.keyed)
        span = self._span(upto) if any(map(sources_of, self.maintained.stages)) else None
        match self.run:
            case KeyedRun():
                # every second batch is one task's
                records = self.batches % 2 or None
                now_ms = int(now.timestamp() * 1000)
                batch = self.run.batch(frame, self.batches, now_ms, span, records=records)
            case IncrementalRun():
                batch = self.run.batch(frame, self.batches, span)
        with batch as changes:
            return [tuple(row) for row in changes.collect()]

    def _span(self, upto: int | None) -> Watermarks:
        sources = len(self.query.leaves)
        return Watermarks(
            before_ms=[self._ms(self.before)] * sources, now_ms=[self._ms(upto)] * sources
        )

    @staticmethod
    def _ms(seconds: int | None) -> int | None:
        return None if seconds is None else int(at(seconds).replace(tzinfo=UTC).timestamp() * 1000)

    def _frame(self, tables: Batch) -> DataFrame:
        """Give what Spark streams for the rows of a batch."""
        tree = self.query.query.copy()
        for node in tree.find_all(ScanTable):
            table = self.query.leaves[node.scan].table.identifier.name
            names = COLUMNS[table]
            types = f"{names[0]} LONG, {names[1]} STRING, {names[2]} LONG, {names[3]} TIMESTAMP_NTZ"
            types += "" if table == "events" else f", {ROW_KIND} TINYINT"
            rows = [timed(row) for row in tables.get(table, ())]
            if node.arrives:
                types += (
                    f", {ARRIVED} STRUCT<{', '.join(f'{name}: LONG' for name in ARRIVED_FIELDS)}>"
                )
                rows = [(*row, (self.batches, node.scan, 0, n)) for n, row in enumerate(rows)]
            view = f"driven_{table}_arrives" if node.arrives else f"driven_{table}"
            self.spark.createDataFrame(rows, types).coalesce(1).createOrReplaceTempView(view)
            node.set("this", exp.to_identifier(view))
        return self.spark.sql(to_spark_query(tree))

    def _apply(self, changes: Sequence[Change]) -> None:
        upserts = self.query.flow.changes is ChangelogMode.UPSERT
        key = [self.maintained.columns.index(name) for name in self.maintained.key or ()]
        for *row, kind in changes:
            if upserts and kind in ADDED:
                same = [of for of in self.rows if [of[n] for n in key] == [row[n] for n in key]]
                for one in same:
                    del self.rows[one]
            self.rows[tuple(row)] += 1 if kind in ADDED else -1
            assert self.rows[tuple(row)] >= 0, f"{row} goes and was not there"
        self.rows = +self.rows


def timed(row: Row) -> Row:
    """Return a row with its time."""
    return (*row[:3], at(row[3]), *row[4:])


def batch_answer(sql: str, batches: Sequence[Batch]) -> Counter[Row]:
    """What a query means over the rows of all batches, by DuckDB.

    Tables have what is left; `versions` the upserts of `latest`, with NULL as the amount of a deleted row.
    """
    rows: dict[str, Counter[Row]] = {table: Counter() for table in COLUMNS}
    known: dict[int, Row] = {}
    versions: list[Row] = []
    for batch in batches:
        for event in map(timed, batch.get("events", ())):
            rows["events"][event] += 1
        for *row, kind in map(timed, batch.get("cdc", ())):
            rows["cdc"][tuple(row)] += 1 if kind in ADDED else -1
        for *row, kind in map(timed, batch.get("latest", ())):
            known.pop(row[0], None)
            versions.append((*row[:2], row[2] if kind in ADDED else None, row[3]))
            if kind in ADDED:
                known[row[0]] = tuple(row)
    rows["latest"] = Counter(known.values())
    tables = {name: rows_in(SCHEMAS[name], list(of.elements())) for name, of in rows.items()}
    return answer(sql, {**tables, "versions": rows_in(SCHEMAS["latest"], versions)})
