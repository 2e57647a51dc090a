"""The dialect alone, `flink_to_spark(sql, schema)`: right Spark SQL, or an error that says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlglot
from sqlglot.errors import ParseError, UnsupportedError
from sqlglot.optimizer.annotate_types import annotate_types

from penstock.sql.compatibility import Kind, Row, Status
from penstock.sql.compatibility.page import ROWS
from penstock.sql.dialect import flink_to_spark

FLINK_ONLY = re.compile(
    r"\b(TUMBLE|HOP|CUMULATE|SESSION|DESCRIPTOR|MATCH_RECOGNIZE|SYSTEM_TIME|TIMESTAMP AS OF|OPTIONS|STATE_TTL|LOOKUP|"
    r"MULTI_JOIN|NEST_LOOP|SHUFFLE_MERGE|FRESHNESS|METADATA|WATERMARK|ENFORCED|MULTISET|ORDINALITY|PROCTIME)\b|\bROW\("
)
UNTYPED = {
    "UNNEST an array",
    "UNNEST an array, without names of columns",
    "UNNEST a map",
    "LEFT JOIN UNNEST",
    "UNNEST WITH ORDINALITY",
}
"""Rows that are translated, and only with the types of their columns."""

PARTS = (Kind.QUERY, Kind.HINT, Kind.EXPRESSION, Kind.FUNCTION, Kind.TYPE)
WHOLE = [row for row in ROWS if row.kind == Kind.STATEMENT]
RUN = [row for row in ROWS if row.kind in PARTS and row.status != Status.REFUSE]
REFUSED = [row for row in ROWS if row.kind in PARTS and row.status == Status.REFUSE]


def query(row: Row) -> str:
    """The example as a query."""
    match row.kind:
        case Kind.EXPRESSION | Kind.FUNCTION:
            return f"SELECT {row.example} AS v"
        case Kind.TYPE:
            return f"SELECT CAST(NULL AS {row.example}) AS v"
    return row.example


def check(text: str) -> None:
    """Whether a text is Spark's as far as sqlglot can tell."""
    assert sqlglot.parse_one(text, read="spark") is not None
    assert FLINK_ONLY.search(text) is None, text


@pytest.mark.parametrize("row", RUN, ids=lambda row: f"{row.kind}-{row.name}")
def test_what_runs_is_written_unless_it_is_penstocks_own(row: Row) -> None:
    """Native and translated rows are Spark SQL; those of an own layer are so, or refused."""
    try:
        text = flink_to_spark(query(row))
    except UnsupportedError:
        assert row.status == Status.OWN or row.name in UNTYPED
        return
    assert row.name not in UNTYPED
    check(text)


@pytest.mark.parametrize("row", [*WHOLE, *REFUSED], ids=lambda row: f"{row.kind}-{row.name}")
def test_other_rows_are_refused_or_said_in_sparks_words(row: Row) -> None:
    """Nothing is left out on the way, and no other error comes of it."""
    try:
        text = flink_to_spark(query(row))
    except UnsupportedError:
        return
    check(text.replace("VOID", "STRING"))  # a type that sqlglot does not know


@pytest.mark.parametrize(
    ("sql", "spark"),
    [
        ("SELECT a, `b c` FROM t WHERE a LIKE 'x%'", "SELECT `a`, `b c` FROM `t` WHERE `a` LIKE 'x%'"),
        ("SELECT a[1], m['k'] FROM t", "SELECT try_element_at(`a`, 1), `m`['k'] FROM `t`"),
        ("SELECT /*+ NEST_LOOP(u) */ 1 FROM t JOIN u ON t.a > u.a",
         "SELECT /*+ SHUFFLE_REPLICATE_NL(u) */ 1 FROM `t` JOIN `u` ON `t`.`a` > `u`.`a`"),
        ("SELECT a, b FROM t, LATERAL TABLE(f(a)) AS x (b)", "SELECT `a`, `b` FROM `t`, LATERAL F(`a`) AS `x`(`b`)"),
        ("SELECT * FROM TABLE(f('a'))", "SELECT * FROM F('a')"),
        ("SELECT CAST(1 < 2 AS STRING), CAST(ROW(1, TRUE) AS STRING), CONCAT(a, b || c) FROM t",
         "SELECT upper(CAST(1 < 2 AS STRING)), concat('(', coalesce(CAST(1 AS STRING), 'NULL'), ', ', "
         "coalesce(upper(CAST(TRUE AS STRING)), 'NULL'), ')'), concat(`a`, `b` || `c`) FROM `t`"),
        ("EXECUTE INSERT INTO t (a) SELECT a FROM u", "INSERT INTO `t` (`a`) SELECT `a` FROM `u`"),
        ("SELECT 7 / 2, AVG(CAST(1 AS INT)) FROM t", "SELECT CAST(7 DIV 2 AS INT), CAST(AVG(CAST(1 AS INT)) AS INT) FROM `t`"),
    ],
)  # fmt: skip
def test_the_words_are_sparks_and_the_meaning_is_flinks(sql: str, spark: str) -> None:
    """Positions, NULLs, whole numbers."""
    assert flink_to_spark(sql) == spark


def test_windowing_functions_are_written_out() -> None:
    """As sub-queries that give every row its windows; sessions by Spark's own grouping."""
    hop = flink_to_spark(
        "SELECT window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTE, "
        "INTERVAL '10' MINUTE)) GROUP BY window_start, window_end"
    )
    session = flink_to_spark(
        "SELECT k, window_end FROM TABLE(SESSION(TABLE bids PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) "
        "GROUP BY k, window_start, window_end"
    )

    assert "window(`ts`, '600000 milliseconds', '300000 milliseconds', '0 milliseconds')" in hop
    assert "SESSION_WINDOW(`ts`, '300000 milliseconds')" in session
    check(hop)
    check(session)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts AS r ON o.c = r.c", "FOR SYSTEM_TIME AS OF"),
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS A.x > 1)", "MATCH_RECOGNIZE"),
        ("SELECT a FROM t /*+ OPTIONS('k' = 'v') */", "OPTIONS of a table"),
        ("SELECT /*+ STATE_TTL('t' = '1d') */ a FROM t", "the hint STATE_TTL has no form in Spark SQL"),
        ("SELECT * FROM TABLE(f(TABLE t))", "the table function F"),
        ("SELECT * FROM t LEFT JOIN LATERAL TABLE(f(t.a)) AS x (b) ON TRUE", "rows would be lost"),
        ("CREATE MATERIALIZED TABLE m AS SELECT 1 AS a", "CREATE MATERIALIZED TABLE has no form"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'kafka')", "CREATE TABLE has no form"),
        ("SHOW TABLES", "SHOW TABLES has no form"),
        ("INSERT OVERWRITE t SELECT 1", "INSERT OVERWRITE replaces other rows in Spark"),
        ("SELECT AVG(price) FROM bids", "the Spark form of AVG(price) depends on types that are not known"),
        ("SELECT JSON_VALUE(doc, '$.a') FROM t", "the Spark form of JSON_VALUE(doc, '$.a') depends"),
        ("SELECT CAST(a AS STRING) FROM t", "the Spark form of CAST(a AS STRING) depends"),
        ("SELECT CAST(ROW(1, my_fn(a)) AS STRING) FROM t", "depends on the types of its parts"),
        ("SELECT UPPER(my_fn(a)), MOD(a, b), a / b FROM t", "the Spark form of a / b depends"),
    ],
)  # fmt: skip
def test_what_spark_would_take_for_something_else_is_refused(sql: str, message: str) -> None:
    """With the words that it is about."""
    with pytest.raises(UnsupportedError) as caught:
        flink_to_spark(sql)
    assert message in str(caught.value)


def test_types_on_the_tree_are_believed() -> None:
    """As sqlglot's own optimizer puts them there."""
    tree = sqlglot.parse_one("SELECT t.a / t.b AS q FROM t", read="flink")
    typed = annotate_types(tree, schema={"t": {"a": "INT", "b": "BIGINT"}}, dialect="flink")

    assert flink_to_spark(typed) == "SELECT CAST(`t`.`a` DIV `t`.`b` AS BIGINT) AS `q` FROM `t`"


def test_a_part_of_a_tree_is_written_like_the_whole() -> None:
    """An expression and a type too; sqlglot's options hold, and the tree stays as it is."""
    tree = sqlglot.parse_one("SELECT a[1] AS x FROM t", read="flink")
    before = tree.sql("flink")

    assert flink_to_spark(tree.selects[0], identify=False) == "try_element_at(a, 1) AS x"
    assert flink_to_spark(sqlglot.exp.DataType.build("BYTES", dialect="flink")) == "BINARY"
    assert flink_to_spark("SELECT 1 AS a", pretty=True) == "SELECT\n  1 AS `a`"
    assert tree.sql("flink") == before


BIDS = {"bids": {"price": "INT", "ts": "TIMESTAMP(3)"}, "rates": {"rate": "BIGINT"}}


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("SELECT price / rate AS q FROM bids JOIN rates ON price = rate",
         "CAST(`bids`.`price` DIV `rates`.`rate` AS BIGINT) AS `q`"),
        ("SELECT b.price / 2 AS q FROM bids AS b", "CAST(`b`.`price` DIV 2 AS INT) AS `q`"),
        ("SELECT p / 2 AS q FROM (SELECT price AS p FROM bids) AS t", "CAST(`t`.`p` DIV 2 AS INT) AS `q`"),
        ("SELECT AVG(price) AS a FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) "
         "GROUP BY window_start, window_end", "CAST(AVG(`price`) AS INT) AS `a`"),
        ("SELECT AVG(price) AS a FROM bids GROUP BY TUMBLE(ts, INTERVAL '5' MINUTE)", "CAST(AVG(`price`) AS INT) AS `a`"),
    ],
)  # fmt: skip
def test_a_schema_types_the_columns(sql: str, written: str) -> None:
    """Columns that name their table, columns of one table alone, of sub-queries and of windowing functions."""
    with pytest.raises(UnsupportedError, match=r"flink_to_spark\(sql, schema\)"):
        flink_to_spark(sql)

    text = flink_to_spark(sql, BIDS)

    assert text.startswith(f"SELECT {written} FROM ")
    check(text)


def test_a_schema_has_the_parts_of_a_name() -> None:
    """As sqlglot takes it: a level each."""
    schema = {"c": {"d": {"t": {"a": "INT"}}}}

    assert flink_to_spark("SELECT a / 2 AS h FROM c.d.t", schema) == (
        "SELECT CAST(`t`.`a` DIV 2 AS INT) AS `h` FROM `c`.`d`.`t`"
    )


def test_the_example_of_the_docs_is_what_they_say() -> None:
    """docs/spark-sql.md, with the text in the line below the call."""
    page = (Path(__file__).resolve().parents[4] / "docs" / "spark-sql.md").read_text("utf-8")
    example = page.partition("    from penstock.sql.dialect import flink_to_spark\n")[2]
    call, text, *_ = [line.strip() for line in example.splitlines() if line.strip()]

    assert "# " + eval(call, {"flink_to_spark": flink_to_spark}) == text


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "", "SELEC 1"])
def test_one_statement_is_written(sql: str) -> None:
    """Several, none and a misspelt one are sqlglot's ParseError."""
    with pytest.raises(ParseError):
        flink_to_spark(sql)


def test_sqlglot_s_own_dialect_stays_as_it_is() -> None:
    """Importing the dialect changes nothing for others in the process."""
    written = sqlglot.transpile("SELECT SUBSTR(a, 0), b / 2 FROM t", read="mysql", write="spark")

    assert written == ["SELECT SUBSTRING(a, 0), b / 2 FROM t"]
