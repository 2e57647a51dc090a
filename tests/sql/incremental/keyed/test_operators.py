"""Keyed operators over one bucket, without Spark: their changes make the batch answer, and a replay gives the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.append_join import AppendJoin
from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.operator import (
    KeyedBatch,
    KeyedLayout,
    KeyedOperator,
    RunBySpark,
)
from penstock.sql.incremental.keyed.recompute import RecomputeKeys
from penstock.sql.incremental.keyed.statement import TableColumns, translate_query
from penstock.sql.incremental.stages import (
    COUNT,
    ChangelogNormalize,
    InputState,
    Measure,
    RecomputeOperator,
    StageInput,
)
from tests.sql.incremental.keyed import oracle
from tests.sql.incremental.keyed.oracle import rounds, rows_in, some_fast
from tests.sql.maintain.maintaining import ADDED, parsed, recomputed

Row = tuple[Any, ...]

INSERT, BEFORE, AFTER, DELETE = (int(kind) for kind in RowKind)
COLUMNS = pa.schema(
    [
        pa.field("k", pa.int32()),
        pa.field("v", pa.int64()),
        pa.field("t", pa.string()),
        pa.field("d", pa.decimal128(10, 2)),
        pa.field("f", pa.float64()),
        pa.field("s", pa.timestamp("us")),
    ]
)
KINDS = {"k": "INT", "v": "BIGINT", "t": "VARCHAR", "d": "DECIMAL(10, 2)", "f": "DOUBLE"}
VALUES: tuple[Sequence[Any], ...] = (
    (1, 2, -3, None),
    (0, 1, 5, -(2**31), 2**40, None),
    ("", "a", "é", "\U0001f600", "a ", None),
    (Decimal("-0.01"), Decimal("99999999.99"), Decimal("1.50"), None),
    (0.5, -2.25, 1e300, None),
    (datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2026, 1, 1), None),
)
NOTHING = KeyedBatch(batch_id=0, now_ms=0)


# --- the state, the tables, a stage ---


@dataclass
class MemoryState:
    """A KeyedState in memory: what was written, batch by batch."""

    layout: KeyedLayout
    written: list[pa.Table] = field(default_factory=list)
    looked_up: int = 0

    def rows_of(self, keys: pa.Table) -> pa.Table:
        """Return the rows of keys, not added up."""
        self.looked_up += 1
        assert keys.schema.types == list(self.layout.key_types)
        asked = {tuple(row.values()) for row in keys.to_pylist()}
        assert len(asked) == keys.num_rows, "they are distinct"
        rows = pa.concat_tables([self.layout.schema.empty_table(), *self.written])
        found = [
            not self.layout.key or tuple(row[name] for name in self.layout.key) in asked
            for row in rows.to_pylist()
        ]
        return rows.filter(pa.array(found, pa.bool_()))

    def rows_between(self, after: int | None, until: int) -> pa.Table:
        """Return the rows of a span of time, not added up."""
        self.looked_up += 1
        assert self.layout.rowtime is not None, "rows are looked up by it"
        rows = pa.concat_tables([self.layout.schema.empty_table(), *self.written])
        times = rows.column(self.layout.rowtime).cast(pa.int64()).to_pylist()
        found = [time <= until and (after is None or time > after) for time in times]
        return rows.filter(pa.array(found, pa.bool_()))

    def write(self, changes: pa.Table) -> None:
        """Keep the changes of a batch."""
        assert changes.schema.equals(self.layout.schema)
        if changes.num_rows:
            self.written.append(changes)

    def drop_ended(self, until: int) -> None:
        """Drop the rows that end up to a time, in microseconds since the epoch."""
        assert self.layout.ends is not None, "they end"
        for n, rows in enumerate(self.written):
            times = rows.column(self.layout.ends).cast(pa.int64()).to_pylist()
            self.written[n] = rows.filter(pa.array([time > until for time in times], pa.bool_()))

    def counts(self) -> Counter[Row]:
        """Return what is left of each row: its count, unless it is 0."""
        left: Counter[Row] = Counter()
        for table in self.written:
            for row in table.to_pylist():
                left[tuple(row[name] for name in self.layout.names)] += row[COUNT]
        return Counter({row: count for row, count in left.items() if count})


class Changes:
    """A table, and random changes of it: every row that goes is there."""

    def __init__(self, seed: int, *, inserts: bool) -> None:
        self._draw = random.Random(seed)
        self._inserts = inserts
        self.rows: Counter[Row] = Counter()

    def batch(self, most: int) -> list[Row]:
        """Draw changes, their kind last."""
        return [self._change() for _ in range(self._draw.randint(0, most))]

    def _change(self) -> Row:
        if not self._inserts and self.rows and self._draw.random() < 0.45:
            row = self._draw.choice(sorted(self.rows, key=repr))
            self.rows -= Counter([row])
            return (*row, self._draw.choice([BEFORE, DELETE]))
        row = tuple(self._draw.choice(values) for values in VALUES)
        self.rows[row] += 1
        return (*row, INSERT if self._inserts else self._draw.choice([INSERT, AFTER]))


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Write changes as a task has them."""
    return rows_in(COLUMNS.append(pa.field(ROW_KIND, pa.int8())), rows)


def operator_of(
    stage: RecomputeOperator, ttl_ms: int = 0, *, inserts: bool = False
) -> KeyedOperator:
    """Give a stage over tables with COLUMNS its operator; the result has the types that its SQL has."""
    for column in stage.query.find_all(exp.Column):
        if column.name in KINDS:
            column.type = exp.DataType.build(KINDS[column.name])
    tables = {}
    for one in stage.inputs:
        columns = [*COLUMNS, *([pa.field(one.arrival, pa.int64())] if one.arrival else [])]
        if one.measures:
            sums = [pa.field(measure.name, pa.int64()) for measure in one.measures]
            columns = [
                *(COLUMNS.field(name) for name in one.key),
                *sums,
                pa.field(COUNT, pa.int64()),
            ]
        tables[one.name] = TableColumns(sql="x", columns=tuple(columns), order="x")
    arrivals = {one.arrival for one in stage.inputs}
    statement = translate_query(stage.query, tables)
    result = pa.schema([pa.field(n, kind) for n, kind in statement.columns if n not in arrivals])
    schemas = {**{one.name: COLUMNS for one in stage.inputs}, stage.name: result}
    of_inserts = frozenset(one.name for one in stage.inputs) if inserts else frozenset[str]()
    operator = keyed_operator(stage, schemas, ttl_ms, of_inserts)
    assert not isinstance(operator, RunBySpark), operator.reason
    return operator


class Bucket:
    """A stage over one bucket; the changes that it gives are applied. `replays`: each batch is run twice."""

    def __init__(self, operator: KeyedOperator, *, replays: bool = True) -> None:
        self.operator = operator
        self.replays = replays
        self.states = {name: MemoryState(layout) for name, layout in operator.layouts.items()}
        self.rows: Counter[Row] = Counter()
        self.batches = 0

    def give(self, now_ms: int = 0, /, **changes: Sequence[Row]) -> list[Row]:
        """Run the next batch."""
        batch = KeyedBatch(batch_id=self.batches, now_ms=now_ms)
        self.batches += 1
        given = {name: table_of(rows) for name, rows in changes.items()}
        replayed = self._copied() if self.replays else None
        result = self.operator.run(given, self.states, batch)
        if replayed is not None:
            again = self.operator.run(given, replayed, batch)

            assert result.equals(again), "a replay gives the same, in the same order"
            written = [bytes_of(state) for state in replayed.values()]
            assert written == [bytes_of(state) for state in self.states.values()]
        found = [tuple(row.values()) for row in result.to_pylist()]
        self._apply(found)
        return found

    def _copied(self) -> dict[str, MemoryState]:
        return {name: replace(s, written=list(s.written)) for name, s in self.states.items()}

    def _apply(self, changes: Sequence[Row]) -> None:
        for *row, kind in changes:
            self.rows[tuple(row)] += 1 if kind in ADDED else -1
            assert self.rows[tuple(row)] >= 0, f"{row} goes and was not there"
        self.rows = +self.rows


def bytes_of(state: MemoryState) -> tuple[int, bytes]:
    """Return how many batches have written to a state, and what the last one has, as it is in files."""
    if not state.written:
        return 0, b""
    sink = pa.BufferOutputStream()
    pq.write_table(state.written[-1], sink)
    return len(state.written), sink.getvalue().to_pybytes()


def answer(sql: str, tables: Mapping[str, Counter[Row]]) -> Counter[Row]:
    """Return what a query gives over all rows at once."""
    given = {name: rows_in(COLUMNS, list(rows.elements())) for name, rows in tables.items()}
    return oracle.answer(sql, given)


# --- the batch answer ---


@dataclass(frozen=True, kw_only=True)
class Case:
    """A stage, and its SQL for DuckDB over the tables `a` and `b` where it is another."""

    query: str
    sql: str = ""
    key: tuple[str, ...] | None = ("k",)
    by: tuple[str, ...] = ("k",)
    joins: bool = False
    inserts: bool = False
    keeps: InputState = InputState.ROWS
    existing: str = ""

    @property
    def stage(self) -> RecomputeOperator:
        """The stage."""
        names = ("a", "b") if " b" in self.query else ("a",)
        inputs = [StageInput(name=name, key=self.by, keeps=self.keeps) for name in names]
        query = (
            self.query.replace(f"{self.existing} JOIN", "LEFT JOIN")
            if self.existing
            else self.query
        )
        stage = recomputed("s", query, *inputs, key=self.key, joins=self.joins)
        if self.existing:
            # the planner writes them, users do not
            stage.query.args["joins"][0].set("kind", self.existing)
        return stage


def joined(kind: str, *, inserts: bool = False) -> Case:
    """A join of one kind."""
    existing = kind in ("SEMI", "ANTI")
    columns = "a.k AS k, a.v AS x" if existing else "a.k AS k, a.v AS x, b.v AS y"
    query = f"SELECT {columns} FROM a {kind} JOIN b ON a.k = b.k AND a.v < b.v"
    existing_kind = kind if existing else ""
    return Case(query=query, key=None, joins=True, inserts=inserts, existing=existing_kind)


def ranked(function: str, *, keep: str = "", inserts: bool = False) -> Case:
    """The first two of each `k` by `v`; NULL is the least."""
    columns = "k, v, t, d, f, s"
    order = f"v DESC NULLS LAST, {', '.join(f'{c} NULLS FIRST' for c in 'tdfs')}"
    if function != "ROW_NUMBER":
        order = "v DESC NULLS LAST"
    inner = f"SELECT {columns}, {function}() OVER (PARTITION BY k ORDER BY {order}) AS n FROM a"
    return Case(
        query=f"SELECT {columns}{keep} FROM ({inner}) AS r WHERE n <= 2",
        key=None,
        inserts=inserts,
        keeps=InputState.RESULT if inserts else InputState.ROWS,
    )


def aggregated(values: str, *, sql: str = "", more: str = "") -> Case:
    """Aggregates by `k`."""
    query = f"SELECT k, {{}} FROM a GROUP BY k{more}"
    return Case(query=query.format(values), sql=query.format(sql or values))


CASES = {
    "INNER join of inserts": joined("INNER", inserts=True),
    "COUNT": aggregated("COUNT(*) AS n, COUNT(v) AS m, COUNT(t) AS o"),
    "SUM": aggregated("SUM(v) AS x, SUM(d) AS y, SUM(DISTINCT v) AS z"),
    "AVG": aggregated(
        "AVG(v) AS x, AVG(k) AS y, AVG(DISTINCT v) AS z",
        sql="(SUM(v::HUGEINT) // COUNT(v))::BIGINT, k, (SUM(DISTINCT v::HUGEINT) // COUNT(DISTINCT v))::BIGINT",
    ),
    "MIN and MAX": aggregated(
        "MIN(v) AS a1, MAX(v) AS a2, MIN(t) AS a3, MAX(d) AS a4, MAX(s) AS a5, MIN(f) AS a6"
    ),
    "COUNT DISTINCT": aggregated(
        "COUNT(DISTINCT v) AS x, COUNT(DISTINCT t) AS y, COUNT(DISTINCT v, t) AS z",
        sql="COUNT(DISTINCT v), COUNT(DISTINCT t), COUNT(DISTINCT (v, t)) FILTER (WHERE v IS NOT NULL AND t IS NOT NULL)",
    ),
    "LISTAGG": aggregated(
        "LISTAGG(t, '-') WITHIN GROUP (ORDER BY t) AS x, LISTAGG(DISTINCT t) WITHIN GROUP (ORDER BY t) AS y",
        sql="string_agg(t, '-' ORDER BY t), string_agg(DISTINCT t, ',' ORDER BY t)",
    ),
    "FILTER": aggregated(
        "COUNT(*) FILTER (WHERE v > 0) AS x, SUM(v) FILTER (WHERE t <> 'a') AS y, "
        "COUNT(DISTINCT t) FILTER (WHERE d IS NOT NULL) AS z, MAX(v) FILTER (WHERE v < 0) AS w"
    ),
    "HAVING": aggregated("COUNT(*) AS n, MAX(v) AS hi", more=" HAVING COUNT(*) > 1 AND MIN(v) < 5"),
    "values of aggregates": aggregated(
        "CASE WHEN COUNT(*) > 2 THEN MAX(v) ELSE COALESCE(MIN(v), 0) END AS x, COUNT(*) + 1 AS y"
    ),
    "no key": Case(
        query="SELECT COUNT(*) AS n, MAX(v) AS hi FROM a",
        sql="SELECT COUNT(*), MAX(v) FROM a HAVING COUNT(*) > 0",
        key=(),
        by=(),
    ),
    "several keys": Case(
        query="SELECT k, t, s, COUNT(*) AS n FROM a GROUP BY k, t, s",
        key=("k", "t", "s"),
        by=("k", "t", "s"),
    ),
    "aggregate of inserts": Case(
        query="SELECT k, MAX(v) AS hi, COUNT(*) AS n FROM a GROUP BY k", inserts=True
    ),
    "DISTINCT": Case(query="SELECT DISTINCT k, v FROM a", key=("k", "v"), by=("k", "v")),
    "ROW_NUMBER": ranked("ROW_NUMBER"),
    "ROW_NUMBER with the number": ranked("ROW_NUMBER", keep=", n"),
    "ROW_NUMBER of inserts": ranked("ROW_NUMBER", inserts=True),
    "RANK": ranked("RANK", keep=", n"),
    "DENSE_RANK": ranked("DENSE_RANK", keep=", n"),
    "deduplication": Case(
        query="SELECT k, s FROM (SELECT k, s, ROW_NUMBER() OVER (PARTITION BY k ORDER BY s NULLS FIRST) AS n FROM a) AS r "
        "WHERE n = 1"
    ),
    "INNER JOIN": joined("INNER"),
    "LEFT JOIN": joined("LEFT"),
    "RIGHT JOIN": joined("RIGHT"),
    "FULL JOIN": joined("FULL"),
    "SEMI JOIN": joined("SEMI"),
    "ANTI JOIN": joined("ANTI"),
    "CROSS JOIN": Case(
        query="SELECT a.k AS x, b.k AS y FROM a CROSS JOIN b", key=None, by=(), joins=True
    ),
    **{
        name: Case(query=f"SELECT k, v FROM a {name} SELECT k, v FROM b", key=None, by=("k", "v"))
        for name in ("UNION", "INTERSECT", "EXCEPT", "UNION ALL", "INTERSECT ALL", "EXCEPT ALL")
    },
}


FAST = ("COUNT", "MIN and MAX", "deduplication", "ROW_NUMBER", "LEFT JOIN", "EXCEPT ALL")
"""Cases of which `make test-fast` runs each test."""


@pytest.mark.parametrize("name", CASES)
def test_changes_make_the_batch_answer(name: str) -> None:
    """After every batch; when all rows are gone, so are the result and the state."""
    case = CASES[name]
    stage = case.stage
    bucket = Bucket(operator_of(stage, inserts=case.inserts))
    tables = {one.name: Changes(n, inserts=case.inserts) for n, one in enumerate(stage.inputs)}
    for _ in range(rounds(5, few=2)):
        bucket.give(**{table: changes.batch(10) for table, changes in tables.items()})

        rows = {table: changes.rows for table, changes in tables.items()}
        assert bucket.rows == answer(case.sql or case.query, rows)
    if not case.inserts:
        gone = {t: [(*r, DELETE) for r in changes.rows.elements()] for t, changes in tables.items()}
        bucket.give(**gone)

        assert not bucket.rows
        assert not any(state.counts() for state in bucket.states.values())


@pytest.mark.parametrize("name", CASES)
def test_a_batch_without_changes_looks_nothing_up_and_writes_nothing(name: str) -> None:
    """Whatever the operator; its result has the columns of any other."""
    operator = operator_of(CASES[name].stage, inserts=CASES[name].inserts)
    states = {table: MemoryState(layout) for table, layout in operator.layouts.items()}
    none = operator.run({}, states, NOTHING)
    empty = operator.run({table: table_of([]) for table in states}, states, NOTHING)
    full = operator.run({"a": table_of(Changes(1, inserts=True).batch(9))}, states, NOTHING)

    assert none.num_rows == empty.num_rows == 0
    assert none.schema == empty.schema == full.schema
    assert all(s.looked_up <= 1 for s in states.values())
    assert states.popitem()[1].looked_up == 1


@pytest.mark.parametrize("name", some_fast((n for n in CASES if not CASES[n].inserts), FAST))
def test_what_comes_and_goes_in_one_batch_changes_nothing(name: str) -> None:
    """In whatever order the changes of a batch are; -U of a key is in front of its +U."""
    stage = CASES[name].stage
    operator = operator_of(stage)
    bucket, other = Bucket(operator, replays=False), Bucket(operator, replays=False)
    draw = random.Random(5)
    for batch in range(rounds(3, few=1)):
        tables = {one.name: Changes(batch, inserts=True) for one in stage.inputs}
        coming = {table: changes.batch(8) for table, changes in tables.items()}
        passing = table_of(Changes(batch + 9, inserts=True).batch(8)).to_pylist()
        noise = [(*list(row.values())[:-1], kind) for row in passing for kind in (INSERT, DELETE)]
        mixed = {
            table: draw.sample([*rows, *noise], len(rows) + len(noise))
            for table, rows in coming.items()
        }

        assert bucket.give(**coming) == other.give(**mixed)
    for one, two in zip(bucket.states.values(), other.states.values(), strict=True):
        assert one.counts() == two.counts()


@pytest.mark.parametrize("name", some_fast((n for n in CASES if CASES[n].key is not None), FAST))
def test_the_row_before_stands_in_front_of_the_row_after(name: str) -> None:
    """Of one key: +I, or -D, or -U and +U."""
    case = CASES[name]
    operator = operator_of(case.stage, inserts=case.inserts)
    changing = Changes(3, inserts=case.inserts)
    bucket = Bucket(operator, replays=False)
    for _ in range(rounds(4, few=2)):
        names = [column for column, _ in _columns_of(operator)]
        places = [names.index(column) for column in case.key or ()]
        kinds: dict[Row, list[int]] = {}
        for change in bucket.give(a=changing.batch(10)):
            kinds.setdefault(tuple(change[n] for n in places), []).append(change[-1])

        assert all(found in ([INSERT], [DELETE], [BEFORE, AFTER]) for found in kinds.values())


def _columns_of(operator: KeyedOperator) -> Iterator[tuple[str, pa.DataType]]:
    states = {name: MemoryState(layout) for name, layout in operator.layouts.items()}
    return ((of.name, of.type) for of in operator.run({}, states, NOTHING).schema)


def test_sums_of_doubles_depend_on_the_rows_alone() -> None:
    """Not on the batches that they came in: added in one order, whatever was there in between."""
    stage = recomputed(
        "s",
        "SELECT k, SUM(f) AS x, AVG(f) AS y FROM a GROUP BY k",
        StageInput(name="a", key=("k",)),
        key=("k",),
    )
    rows = [(1, n, "t", None, 1 / (n + 3) * 10 ** (n % 17), None, INSERT) for n in range(40)]
    gone = (1, 99, "t", None, 1e300, None)
    whole, parts = Bucket(operator_of(stage)), Bucket(operator_of(stage))
    whole.give(a=rows)
    parts.give(a=[*rows[20:], (*gone, INSERT)])
    parts.give(a=[(*gone, DELETE), *reversed(rows[:20])])

    assert whole.rows == parts.rows


def test_sums_are_kept_instead_of_rows() -> None:
    """A key whose rows are gone is gone, whatever its sum; one whose sum is 0 is not."""
    measures = tuple(
        Measure(name=name, value=parsed(f"SELECT {value}").expressions[0])
        for name, value in (("total", "v"), ("known", "CASE WHEN v IS NULL THEN 0 ELSE 1 END"))
    )
    stage = recomputed(
        "s",
        f"SELECT k, CASE WHEN known > 0 THEN total END AS x, {COUNT} AS n FROM a",
        StageInput(name="a", key=("k",), measures=measures),
        key=("k",),
    )
    bucket, changes = Bucket(operator_of(stage)), Changes(2, inserts=False)
    for _ in range(5):
        bucket.give(a=changes.batch(10))

        sql = "SELECT k, SUM(v)::BIGINT, COUNT(*) FROM a GROUP BY k"
        assert bucket.rows == answer(sql, {"a": changes.rows})
    assert bucket.states["a"].layout.names == ("k",)


def test_rows_are_numbered_as_they_arrive() -> None:
    """Those of a later batch are newer, whatever the order of the values; only the newest is kept."""
    stage = recomputed(
        "s",
        "SELECT k, v, t, d, f, s, seen FROM (SELECT k, v, t, d, f, s, seen, ROW_NUMBER() OVER (PARTITION BY k "
        "ORDER BY seen DESC NULLS LAST) AS n FROM a) AS r WHERE n <= 1",
        StageInput(name="a", key=("k",), keeps=InputState.RESULT, arrival="seen"),
        key=("k",),
    )
    operator = operator_of(stage)
    bucket, changes = Bucket(operator), Changes(4, inserts=True)
    newest: dict[int | None, Row] = {}
    for _ in range(6):
        batch = changes.batch(8)
        bucket.give(a=batch)
        newest.update({row[0]: row[:-1] for row in batch})

        assert set(bucket.rows) == set(newest.values())
        assert sum(bucket.states["a"].counts().values()) == len(newest)
    assert operator.ordered == {"a"}


# --- upserts ---


def test_upserts_replace_the_row_of_their_key() -> None:
    """The last change of a key in a batch counts; a delete of what is not there gives nothing."""
    operator = keyed_operator(
        ChangelogNormalize(name="s", input="a", key=("k", "t")), {"a": COLUMNS, "s": COLUMNS}, 0
    )
    assert not isinstance(operator, RunBySpark)
    bucket, draw = Bucket(operator), random.Random(8)
    rows: dict[Row, Row] = {}
    for _ in range(10):
        upserts = []
        for change in Changes(draw.randrange(99), inserts=True).batch(20):
            kind = draw.choice([INSERT, AFTER, DELETE])
            upserts.append((*change[:-1], kind))
            if kind == DELETE:
                rows.pop((change[0], change[2]), None)
            else:
                rows[change[0], change[2]] = change[:-1]
        bucket.give(a=upserts)

        assert bucket.rows == bucket.states["a"].counts() == Counter(rows.values())
    assert bucket.give() == []


# --- time to live ---

TTL_MS = 1000


@pytest.mark.parametrize("sums", [True, False])
def test_a_key_expires_as_a_whole(*, sums: bool) -> None:
    """When it did not change for that long: it begins anew, and deletions of what is gone change nothing."""
    value = Measure(name="total", value=parsed("SELECT COALESCE(v, 0)").expressions[0])
    kept = StageInput(name="a", key=("k",), measures=(value,) if sums else ())
    query = (
        f"SELECT k, {COUNT} AS n FROM a" if sums else "SELECT k, COUNT(*) AS n FROM a GROUP BY k"
    )
    bucket = Bucket(operator_of(recomputed("s", query, kept, key=("k",)), TTL_MS))
    draw, now_ms = random.Random(6), 0
    counts: dict[int, int] = {}
    newest: dict[int, int] = {}
    for _ in range(rounds(30, few=10)):
        now_ms += draw.choice([100, 400, 1000])
        before = {k: n for k, n in counts.items() if n and now_ms - newest[k] < TTL_MS}
        after = dict(before)
        changes: list[Row] = []
        for k in draw.sample([1, 2, 3], draw.randint(0, 3)):
            kind = draw.choice([INSERT, INSERT, DELETE])
            changes.append((k, 1, None, None, None, None, kind))
            count = before.get(k, 0) + (1 if kind == INSERT else -1)
            after[k] = max(count, 0)
            newest[k] = now_ms if kind == INSERT or k in before else newest.get(k, 0)
        bucket.rows.clear()
        bucket.rows.update(before.items())
        bucket.give(now_ms, a=changes)
        counts = after

        assert bucket.rows == Counter({row: 1 for row in after.items() if row[1]})


def test_rows_of_each_input_of_a_join_expire_on_their_own() -> None:
    """By row, after the time of their own input; 0 keeps them."""
    stage = recomputed(
        "s",
        "SELECT a.k AS k, a.v AS x, b.v AS y FROM a JOIN b ON a.k = b.k",
        StageInput(name="a", key=("k",), time_to_live_ms=TTL_MS),
        StageInput(name="b", key=("k",), time_to_live_ms=0),
        joins=True,
    )
    bucket = Bucket(operator_of(stage, ttl_ms=7))

    def row(v: int, kind: int = INSERT) -> Row:
        return (1, v, None, None, None, None, kind)

    assert bucket.give(0, a=[row(1)], b=[row(10)]) == [(1, 1, 10, INSERT)]
    assert bucket.give(500, a=[row(2)]) == [(1, 2, 10, INSERT)]
    assert sorted(bucket.give(1200, b=[row(20)])) == [(1, 2, 20, INSERT)]
    assert bucket.give(9000, b=[row(30)]) == []
    assert sorted(bucket.give(9100, a=[row(3)])) == [(1, 3, y, INSERT) for y in (10, 20, 30)]
    assert bucket.give(9200, a=[row(2, DELETE)]) == []
    assert bucket.give(9300, b=[row(10, DELETE)]) == [(1, 3, 10, DELETE)]


def test_an_upsert_renews_its_key() -> None:
    """The same row again, too; an expired one is no row before."""
    operator = keyed_operator(
        ChangelogNormalize(name="s", input="a", key=("k",)), {"a": COLUMNS, "s": COLUMNS}, TTL_MS
    )
    assert not isinstance(operator, RunBySpark)
    bucket = Bucket(operator)
    row = (1, 5, None, None, None, None)
    first = bucket.give(0, a=[(*row, AFTER)])
    same = bucket.give(900, a=[(*row, AFTER)])
    later = bucket.give(1800, a=[(*row, DELETE)])
    bucket.give(2000, a=[(*row, AFTER)])
    bucket.rows.clear()
    expired = bucket.give(4000, a=[(*row, AFTER)])

    assert first == [(*row, INSERT)]
    assert same == [(*row, BEFORE), (*row, AFTER)]
    assert later == [(*row, DELETE)]
    assert expired == [(*row, INSERT)]


def test_what_has_no_operator_says_why() -> None:
    """The expression, or the type."""
    stage = recomputed("s", "SELECT k, SOUNDEX(t) AS x FROM a", StageInput(name="a", key=("k",)))
    odd = pa.schema([pa.field("k", pa.int32()), pa.field("m", pa.map_(pa.string(), pa.int32()))])
    normalize = ChangelogNormalize(name="s", input="a", key=("k",))

    found = keyed_operator(stage, {"a": COLUMNS, "s": COLUMNS}, 0)
    assert isinstance(found, RunBySpark)
    assert "SOUNDEX(t)" in found.reason
    found = keyed_operator(normalize, {"a": odd, "s": odd}, 0)
    assert isinstance(found, RunBySpark)
    assert "map<string, int32>" in found.reason


def test_an_inner_join_of_inserts_writes_its_new_rows_alone() -> None:
    """Whatever the key has; equal rows stay as many, also where merged files count them as one."""
    stage = joined("INNER", inserts=True).stage
    bucket = Bucket(operator_of(stage, inserts=True))
    assert isinstance(bucket.operator, AppendJoin)
    row = (1, 5, None, None, None, None)
    bucket.give(a=[(*row, INSERT), (None, *row[1:], INSERT), (*row, INSERT)])
    assert bucket.states["a"].written[0].num_rows == 2, "NULL matches nothing, and is not kept"
    merged = bucket.states["a"].written[0].slice(0, 1)
    count = merged.schema.get_field_index(COUNT)
    bucket.states["a"].written = [merged.set_column(count, COUNT, pa.array([2], pa.int64()))]
    found = bucket.give(b=[(1, 6, None, None, None, None, INSERT)])

    assert found == [(1, 5, 6, INSERT)] * 2
    assert [len(state.written) for state in bucket.states.values()] == [1, 1]


def test_an_inner_join_of_inserts_whose_rows_expired_before_goes_on_without_them() -> None:
    """Its time to live was taken away: rows that were subtracted are in its state."""
    stage = joined("INNER", inserts=True).stage
    bucket = Bucket(operator_of(stage, TTL_MS, inserts=True))

    def row(v: int) -> Row:
        return (1, v, None, None, None, None, INSERT)

    bucket.give(0, a=[row(1)])
    bucket.give(2 * TTL_MS, a=[row(2)], b=[row(10)])
    bucket.operator = operator_of(stage, inserts=True)
    assert isinstance(bucket.operator, AppendJoin)

    assert bucket.give(2 * TTL_MS + 1, b=[row(20)]) == [(1, 2, 20, INSERT)]


def test_a_join_of_rows_that_expire_or_are_updated_compares() -> None:
    """As rows are to be taken back, or are not there any more."""
    inner, outer = joined("INNER", inserts=True).stage, joined("LEFT", inserts=True).stage

    assert isinstance(operator_of(inner), RecomputeKeys)
    assert isinstance(operator_of(inner, TTL_MS, inserts=True), RecomputeKeys)
    assert isinstance(operator_of(outer, inserts=True), RecomputeKeys)
