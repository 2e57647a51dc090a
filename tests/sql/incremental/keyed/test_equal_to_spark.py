"""What stages of keyed operators compute in DuckDB is what Spark computes, value for value, over odd values."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from sqlglot import exp

from penstock.sql.binding.binder import annotate
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.keyed.accumulate import AccumulateInserts
from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.operator import KeyedBatch
from penstock.sql.incremental.keyed.statement import TableColumns, result_columns, translate_query
from penstock.sql.incremental.keyed.tables import BucketTables, normalized, typed
from penstock.sql.incremental.stages import InputState, StageInput
from penstock.sql.plan.rules.inline import find_relations
from penstock.sql.statements.statement import Select
from tests.sql.incremental.keyed.test_operators import MemoryState
from tests.sql.maintain.maintaining import recomputed
from tests.sql.sql_objects import new_namespace, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A type: in Flink's SQL, in Arrow, and its odd values."""

    sql: str
    type: pa.DataType
    values: Sequence[Any]


NAN, INFINITE = float("nan"), float("inf")
KINDS = {
    "b": Kind(sql="TINYINT", type=pa.int8(), values=(-128, 127, 0, -1, None)),
    "h": Kind(sql="SMALLINT", type=pa.int16(), values=(-(2**15), 2**15 - 1, 0, 7, None)),
    "i": Kind(sql="INT", type=pa.int32(), values=(-(2**31), 2**31 - 1, 0, -1, 127, None)),
    "l": Kind(sql="BIGINT", type=pa.int64(), values=(-(2**63), 2**63 - 1, 0, 2**53 + 1, 127, None)),
    "d": Kind(
        sql="DECIMAL(10, 2)",
        type=pa.decimal128(10, 2),
        values=(*(Decimal(d) for d in ("-99999999.99", "99999999.99", "0", "0.01", "127")), None),
    ),
    "e": Kind(
        sql="DECIMAL(38, 0)",
        type=pa.decimal128(38, 0),
        values=(Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0), Decimal(127), None),
    ),
    "f": Kind(
        sql="DOUBLE",
        type=pa.float64(),
        values=(NAN, INFINITE, -INFINITE, 0.0, -0.0, 5e-324, 1.7976931348623157e308, -2.5, None),
    ),
    "g": Kind(
        sql="FLOAT", type=pa.float32(), values=(NAN, INFINITE, 0.0, 0.1, -3.4028234e38, None)
    ),
    "t": Kind(
        sql="STRING",
        type=pa.string(),
        values=("", "a", "A", "a ", "é", "e\u0301", "\U0001f600", "\uffff", "\0", "a\0b", None),
    ),
    "x": Kind(sql="BYTES", type=pa.binary(), values=(b"", b"\0", b"\xff", b"a", None)),
    "y": Kind(sql="BOOLEAN", type=pa.bool_(), values=(True, False, None)),
    "a": Kind(
        sql="DATE",
        type=pa.date32(),
        values=(date(1, 1, 1), date(1582, 10, 15), date(1969, 12, 31), date(9999, 12, 31), None),
    ),
    "s": Kind(
        sql="TIMESTAMP(6)",
        type=pa.timestamp("us"),
        values=(
            datetime(1, 1, 1),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(2026, 3, 29, 2, 30),
            datetime(9999, 12, 31, 23, 59, 59, 999999),
            None,
        ),
    ),
    "z": Kind(
        sql="TIMESTAMP_LTZ(6)",
        type=pa.timestamp("us", "UTC"),
        values=(
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
            datetime(9999, 12, 30, tzinfo=UTC),
            None,
        ),
    ),
    # without overflow and division by zero
    "n": Kind(sql="INT", type=pa.int32(), values=(-7, 1, 2, 9, -10, None)),
    "m": Kind(sql="BIGINT", type=pa.int64(), values=(-7, 3, 2, -2, 2**31, None)),
    "w": Kind(sql="TINYINT", type=pa.int8(), values=(-7, 3, 2, 11, None)),
    "c": Kind(
        sql="DECIMAL(5, 3)",
        type=pa.decimal128(5, 3),
        values=(Decimal("-99.999"), Decimal("0.001"), Decimal("1.500"), None),
    ),
    "o": Kind(sql="DOUBLE", type=pa.float64(), values=(0.1, -2.5, 3.0, 1e300, None)),
}
MOST = max(len(kind.values) for kind in KINDS.values())
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("k", pa.int32()),
        *(pa.field(f"{name}{side}", kind.type) for name, kind in KINDS.items() for side in (1, 2)),
    ]
)
NAMESPACE = new_namespace(
    "CREATE TABLE odd (id INT, k INT, "
    + ", ".join(f"{name}{side} {kind.sql}" for name, kind in KINDS.items() for side in (1, 2))
    + ") WITH ('connector' = 'kafka')"
)


def rows_of_pairs() -> pa.Table:
    """Return rows with every pair of the values of each type."""
    pairs = [(one, two) for one in range(MOST) for two in range(MOST)]
    columns: list[Sequence[Any]] = [range(len(pairs)), [one % 4 for one, _ in pairs]]
    columns += [
        [kind.values[pair[side] % len(kind.values)] for pair in pairs]
        for kind in KINDS.values()
        for side in (0, 1)
    ]
    arrays = [pa.array(c, of.type) for c, of in zip(columns, COLUMNS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def bound(sql: str) -> exp.Query:
    """Return a query over `odd` as a stage has it: with types."""
    (statement,) = run(sql, NAMESPACE)
    assert isinstance(statement, Select)
    relations = find_relations(statement.query, NAMESPACE)
    annotate(relations.query, NAMESPACE)
    query = relations.query
    assert isinstance(query, exp.Query)
    return query


def by_duckdb(sql: str, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Run a query as a keyed operator does; `schema` is Spark's."""
    statement = translate_query(
        bound(sql), {"odd": TableColumns(sql="odd", columns=tuple(COLUMNS))}
    )
    columns = ", ".join(text for _, text in result_columns(statement, schema, {}))
    with BucketTables() as tables:
        tables.give("given", rows)
        kept = ", ".join(f"{normalized(f'c{n}', of.type)} AS c{n}" for n, of in enumerate(COLUMNS))
        tables.create("odd", f"SELECT {kept} FROM given")
        return typed(tables.rows(f"SELECT {columns} FROM ({statement.sql})"), schema)


def by_spark(spark: SparkSession, sql: str, rows: pa.Table) -> pa.Table:
    """Run a query as a stage that Spark computes."""
    schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    spark.createDataFrame(rows, schema).createOrReplaceTempView("odd")
    return spark.sql(to_spark_query(bound(sql))).toArrow()


def written(value: object) -> str:
    """Write a value so that only the same bits are equal, but for the sign of zero, and NaN."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value + 0.0).hex()
    return repr(value)


def differences(ours: pa.Table, theirs: pa.Table, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the columns in which two tables differ, with the values of both, NULL group by NULL group."""
    found = {}
    for n, name in enumerate(names):
        pairs = zip(ours.column(n).to_pylist(), theirs.column(n).to_pylist(), strict=True)
        unlike = [(one, two) for one, two in pairs if written(one) != written(two)]
        if unlike:
            found[name] = unlike[:3]
    return found


def check(spark: SparkSession, expressions: Sequence[str], tail: str, first: str) -> None:
    """Run expressions by both engines and compare; rows are told apart by the first column."""
    rows = rows_of_pairs()
    shown = ", ".join(f"{text} AS v{n}" for n, text in enumerate(expressions))
    sql = f"SELECT {first} AS id, {shown} FROM odd{tail}"
    theirs = by_spark(spark, sql, rows).sort_by("id")
    ours = by_duckdb(sql, rows, theirs.schema).sort_by("id")

    assert differences(ours, theirs, ["id", *expressions]) == {}


COMPARED = [
    f"{name}1 {operator} {name}2"
    for name in KINDS
    for operator in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
]
MIXED = [
    f"{one} {operator} {two}"
    for one, two in (
        ("b1", "l2"), ("i1", "h2"), ("i1", "f2"), ("l1", "f2"), ("d1", "c2"), ("n1", "o2"), ("c1", "d2"),
    )
    for operator in ("=", "<", ">=", "IS NOT DISTINCT FROM")
]  # fmt: skip
CHOSEN = [
    text.format(name)
    for name in KINDS
    for text in (
        "COALESCE({0}1, {0}2)",
        "NULLIF({0}1, {0}2)",
        "CASE WHEN {0}1 < {0}2 THEN {0}1 WHEN {0}1 = {0}2 THEN NULL ELSE {0}2 END",
        "CASE {0}1 WHEN {0}2 THEN 1 ELSE 2 END",
        "{0}1 IS NULL",
        "{0}1 IS NOT NULL",
        "{0}1 IN ({0}2, {0}1)",
        "{0}1 NOT IN ({0}2)",
        "{0}1 BETWEEN {0}2 AND {0}1",
        "GREATEST({0}1, {0}2)",
        "LEAST({0}1, {0}2)",
    )
]
LOGICAL = [
    "y1 AND y2", "y1 OR y2", "NOT y1", "y1 IS TRUE", "y1 IS NOT TRUE", "y1 IS FALSE", "y1 IS NOT FALSE",
    "y1 = (i1 < i2)", "y1 AND NOT (l1 > l2 OR t1 = t2)", "IF(y1, n1, n2)", "IF(y1, n1, m2)",
]  # fmt: skip
COMPUTED = [
    "n1 + n2", "n1 - n2", "n1 * n2", "n1 / n2", "MOD(n1, n2)", "-n1", "n1 + m2", "n1 - m2", "n1 * m2", "n1 / m2",
    "MOD(m1, n2)", "m1 / m2", "MOD(m1, m2)", "w1 + w2", "w1 - n2", "w1 * w2", "w1 / w2", "MOD(w1, w2)", "-w1",
    "w1 + 1", "n1 + 1", "n1 + 2147483648", "n1 * 2 - 1", "c1 + c2", "c1 - c2", "c1 * c2", "c1 + d2", "d1 * c2",
    "d1 + d2", "-d1", "o1 + o2", "o1 - o2", "o1 * o2", "o1 / o2", "f1 + f2", "f1 - f2", "f1 * f2", "-f1", "f1 + n1",
    "o1 * m2", "o1 + w2", "(n1 + n2) * (m1 - 1)", "MOD(n1, 3)", "n1 / 2", "c1 + 1.5", "c1 * 0.908",
    "n1 + c2", "c1 * n2", "m1 + c2", "m1 * c2", "c1 - 1", "c1 * 2", "2 * c1", "100 - c1", "n1 + 0.5", "m1 * 0.908",
    "w1 - c2", "c1 - m2", "c1 + (-3)", "(c1 + 1) * 2", "(n1 - 0.25) * (1 - c1)",
    "f1 / o2", "n1 / o2", "MOD(l1, -1)", "MOD(b1, -1)", "MOD(l1, n1 - n1 - 1)",
]  # fmt: skip
CASTS = [
    "CAST(b1 AS SMALLINT)", "CAST(b1 AS BIGINT)", "CAST(i1 AS BIGINT)", "CAST(i1 AS DOUBLE)", "CAST(l1 AS DOUBLE)",
    "CAST(i1 AS DECIMAL(12, 2))", "CAST(l1 AS DECIMAL(20, 0))", "CAST(d1 AS DECIMAL(12, 4))",
    "CAST('2026-01-02' AS DATE)", "CAST('2026-01-02 03:04:05.678' AS TIMESTAMP)", "CAST('x''y' AS STRING)",
    "CAST(NULL AS INT)", "CAST(t1 AS STRING)",
]  # fmt: skip
DECIMALS = [
    "d1 > 9", "d1 = 127", "c1 = n2", "l1 < d2", "e1 = i2", "e1 > l2", "COALESCE(c1, n2)", "COALESCE(d1, 0)",
    "CASE WHEN y1 THEN c1 ELSE 0 END", "CASE WHEN y1 THEN d1 ELSE n2 END", "IF(y1, l1, d1)", "d1 IN (127, n2)",
    "d1 BETWEEN 0 AND 200", "GREATEST(c1, n2)", "NULLIF(d1, 127)", "CASE d1 WHEN 127 THEN 'a' ELSE 'b' END",
]  # fmt: skip
TEXTS = [
    "CAST(b1 AS STRING)", "CAST(h1 AS STRING)", "CAST(i1 AS STRING)", "CAST(l1 AS STRING)", "t1 || t2",
    "t1 || '-' || t2", "CAST(n1 AS STRING) || t1", "CAST(i1 AS VARCHAR)",
]  # fmt: skip
TIMES = [
    "CAST(s1 AS DATE)",
    "CAST(s1 AS DATE) = a2",
    "CAST('2026-03-29 02:30:00' AS TIMESTAMP) = s1",
    "s1 < CAST('1970-01-01 00:00:00.000001' AS TIMESTAMP)",
    "a1 < CAST('1970-01-01' AS DATE)",
    "s1 - INTERVAL '1' SECOND = s2",
    "CASE WHEN s1 > CAST('0002-01-01 00:00:00' AS TIMESTAMP) THEN s1 - INTERVAL '25' HOUR END",
    "CASE WHEN s1 < CAST('9000-01-01 00:00:00' AS TIMESTAMP) THEN s1 + INTERVAL '1 02:03:04.567' DAY TO SECOND END",
    "CASE WHEN z1 < z2 THEN z1 + INTERVAL '1' MINUTE END",
]
LITERALS = [
    "'a'",
    "'é''\U0001f600'",
    "1",
    "-1",
    "2147483648",
    "1.50",
    "0.908",
    "TRUE",
    "t1 = 'a '",
    "d1 = 0.01",
    "1e0",
]


@pytest.mark.parametrize(
    "expressions",
    [COMPARED, MIXED, CHOSEN, LOGICAL, COMPUTED, CASTS, DECIMALS, TEXTS, TIMES, LITERALS],
    ids=[
        "compared",
        "mixed",
        "chosen",
        "logical",
        "computed",
        "casts",
        "decimals",
        "texts",
        "times",
        "literals",
    ],
)
def test_expressions_give_the_same(spark: SparkSession, expressions: list[str]) -> None:
    """Of every pair of values."""
    check(spark, expressions, "", "id")


AGGREGATED = [
    "COUNT(*)",
    "AVG(b1)", "AVG(h1)", "AVG(i1)", "AVG(m1)", "AVG(l1)", "AVG(DISTINCT n1)", "AVG(DISTINCT m1) FILTER (WHERE y1)",
    "SUM(b1)", "SUM(h1)", "SUM(i1)", "SUM(m1)", "SUM(d1)", "SUM(c1) FILTER (WHERE y1)", "SUM(DISTINCT i1)",
    "SUM(DISTINCT d1)", "SUM(n1 * 2 + 1)", "SUM(c1 * n1)", "SUM(CASE WHEN y1 THEN d1 ELSE 0 END)", "MAX(CAST(s1 AS DATE))", "SUM(CASE WHEN y1 THEN n1 ELSE 0 END)", "MAX(n1) + MIN(n1)",
    "COUNT(DISTINCT n1, t1)", "COUNT(DISTINCT f1, y1)", "COUNT(n1) FILTER (WHERE t1 > 'a')",
    *(
        text.format(name)
        for name in KINDS
        for text in ("COUNT({0}1)", "COUNT(DISTINCT {0}1)", "MIN({0}1)", "MAX({0}1)", "MAX({0}2) FILTER (WHERE y1)")
    ),
]  # fmt: skip
# Spark fails to plan LISTAGG beside aggregates of the DISTINCT values of other columns
LISTED = [
    "LISTAGG(t1) WITHIN GROUP (ORDER BY t1)",
    "LISTAGG(DISTINCT t1, '|') WITHIN GROUP (ORDER BY t1)",
    "LISTAGG(t1, '') WITHIN GROUP (ORDER BY t1) FILTER (WHERE y1)",
]


@pytest.mark.parametrize("aggregates", [AGGREGATED, LISTED[:1], LISTED[1:2], LISTED[2:]])
def test_aggregates_give_the_same(spark: SparkSession, aggregates: list[str]) -> None:
    """Of groups with every value, of groups whose rows are left out, and of all rows."""
    check(spark, aggregates, " GROUP BY k", "k")
    check(spark, aggregates, " WHERE id < 3 GROUP BY k", "k")
    check(spark, aggregates, "", "COUNT(*)")


ACCUMULATED = [
    *(text for text in AGGREGATED if not re.search(r"[fgo][12]|[*+]|CASE|CAST", text)),
    *(f"{text} FILTER (WHERE n2 > 0)" for text in ("COUNT(DISTINCT t2)", "SUM(m2)", "AVG(l2)", "MIN(z1)", "SUM(DISTINCT n1)")),
]  # fmt: skip


def test_accumulators_give_the_same(spark: SparkSession) -> None:
    """In batches, as they add up; a value counts once for each FILTER."""
    rows = rows_of_pairs()
    shown = ", ".join(f"{text} AS v{n}" for n, text in enumerate(ACCUMULATED))
    sql = f"SELECT k, {shown} FROM odd GROUP BY k"
    theirs = by_spark(spark, sql, rows).sort_by("k")
    one = StageInput(name="odd", key=("k",), keeps=InputState.ACCUMULATORS)
    stage = replace(recomputed("s", sql, one, key=("k",)), query=bound(sql), upserts=True)
    operator = keyed_operator(stage, {"odd": COLUMNS, "s": theirs.schema}, 0)
    assert isinstance(operator, AccumulateInserts), operator
    states = {name: MemoryState(layout) for name, layout in operator.layouts.items()}
    kinds = pa.array([0] * rows.num_rows, pa.int8())
    changes, found = rows.append_column("kind", kinds), []
    for n, start in enumerate(range(0, rows.num_rows, 40)):
        at = KeyedBatch(batch_id=n, now_ms=0)
        found.append(operator.run({"odd": changes.slice(start, 40)}, states, at))
    last = {row["k"]: row for result in found for row in result.to_pylist()}
    ours = pa.Table.from_pylist([last[k] for k in sorted(last)], theirs.schema)

    assert differences(ours, theirs, ["k", *ACCUMULATED]) == {}


@pytest.mark.parametrize("way", ["ASC", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST"])
def test_rows_rank_the_same(spark: SparkSession, way: str) -> None:
    """By values of every type: their order, which are peers, and where NULL stands."""
    ranks = [
        f"{function} OVER (PARTITION BY k ORDER BY {name}1 {way}{more})"
        for name in KINDS
        for function, more in (("ROW_NUMBER()", ", id"), ("RANK()", ""), ("DENSE_RANK()", ""))
    ]
    check(spark, ranks, "", "id")


@pytest.mark.parametrize("name", KINDS)
def test_groups_joins_and_sets_take_the_same_values_for_equal(
    spark: SparkSession, name: str
) -> None:
    """Of every type: NaN and both zeros, texts that look alike, times of one instant."""
    rows = rows_of_pairs()
    pair = f"SELECT {name}{{}} AS v FROM odd WHERE id {{}}"
    one, two = pair.format(1, "< 40"), pair.format(2, "> 30")
    joined = f"FROM ({one}) AS a {{}} JOIN ({two}) AS b ON a.v = b.v"
    queries = [
        f"SELECT {name}1 AS v, COUNT(*) AS n FROM odd GROUP BY {name}1",
        f"SELECT DISTINCT {name}1 AS v, {name}2 AS w FROM odd",
        *(
            f"{one} {word} {two}"
            for word in ("UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
        ),
        *(
            f"SELECT a.v AS v, b.v AS w {joined.format(kind)}"
            for kind in ("INNER", "LEFT", "RIGHT", "FULL")
        ),
    ]
    for sql in queries:
        theirs = by_spark(spark, sql, rows)
        ours = by_duckdb(sql, rows, theirs.schema)

        assert multiset(ours) == multiset(theirs), sql


def multiset(rows: pa.Table) -> list[tuple[str, ...]]:
    """Return the rows in one order."""
    columns = [[written(value) for value in column.to_pylist()] for column in rows.columns]
    return sorted(zip(*columns, strict=True))


FAILING = [
    "i1 + 1", "i1 - 2", "l1 * 2", "b1 + b2", "h1 * h2", "-i1", "-l1", "n1 / 0", "MOD(n1, 0)", "m1 / (m1 - m1)",
    "SUM(l1)", "SUM(l1 + 0)",
]  # fmt: skip


@pytest.mark.parametrize("expression", FAILING)
def test_what_fails_in_spark_fails(spark: SparkSession, expression: str) -> None:
    """Overflow, and division by zero; an interim sum that overflows alone is no failure of either."""
    rows, sql = rows_of_pairs(), f"SELECT {expression} AS v FROM odd"
    if expression.startswith("SUM"):
        rows = rows.filter(pc.greater(rows.column("l1"), 2**62))
    with pytest.raises(ArithmeticException):
        by_spark(spark, sql, rows)
    schema = spark.sql(to_spark_query(bound(sql))).schema
    with pytest.raises(duckdb.Error):
        by_duckdb(sql, rows, to_arrow_schema(schema, timezone="UTC"))
