"""Spark gives Flink's answer: one line for each form whose meaning could differ (Flink's function page)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.sql.binding.binder import bind_query, type_expression
from penstock.sql.dialect.flink.trees import parse_query
from penstock.sql.dialect.spark.writer import write_spark
from penstock.sql.expressions.expression import parse_expression
from tests.sql.sql_objects import new_namespace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local(*parts: int) -> datetime:
    """A time without a zone."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[arg-type,misc]


CASES: list[tuple[str, Any]] = [
    # whole numbers stay whole
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("-7 % 3", -1),
    ("MOD(7, 3)", 1),
    ("CAST(7 AS BIGINT) / CAST(2 AS INT)", 3),
    ("7 / 2.0", Decimal("3.500000")),
    ("CAST(7 AS DOUBLE) / 2", 3.5),
    ("CAST(1.9 AS INT)", 1),
    ("ROUND(2.5, 0)", Decimal(3)),
    # texts
    (r"'it''s a \d'", r"it's a \d"),
    ("U&'\\00e9'", "é"),
    ("'a' || 'b'", "ab"),
    ("CONCAT('a', NULL)", None),
    ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
    ("CHAR_LENGTH('äöü')", 3),
    ("SUBSTRING('abcdef' FROM 2 FOR 3)", "bcd"),
    ("SUBSTR('abcdef', 4)", "def"),
    ("POSITION('c' IN 'abc')", 3),
    ("TRIM(BOTH 'x' FROM 'xax')", "a"),
    ("TRIM('  a ')", "a"),
    ("OVERLAY('abcdef' PLACING 'XX' FROM 2 FOR 3)", "aXXef"),
    ("LPAD('a', 3, 'xy')", "xya"),
    ("SPLIT_INDEX('a.b.c', '.', 1)", "b"),
    ("SPLIT_INDEX('a.b.c', '.', 5)", None),
    ("SPLIT_INDEX('a||b', '||', 1)", "b"),
    ("REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)", "bar"),
    ("REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)')", "foothebar"),
    ("REGEXP_EXTRACT('x', 'y')", None),
    (r"REGEXP_REPLACE('a1b2', '\d', '-')", "a-b-"),
    ("REGEXP('abc', 'b')", True),
    (r"'a\b' LIKE 'a\b'", True),
    ("'a_b' LIKE 'a!_b' ESCAPE '!'", True),
    ("FROM_BASE64('aGVsbG8=')", "hello"),
    ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661"),
    ("SHA256('a')", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
    ("STR_TO_MAP('a=1,b=2')", {"a": "1", "b": "2"}),
    ("JSON_VALUE('{\"a\": {\"b\": 1}}', '$.a.b')", "1"),
    ("JSON_VALUE('{\"a\": true}', 'lax $.a' RETURNING BOOLEAN)", True),
    ("JSON_VALUE('{', '$.a')", None),
    ("IS_DIGIT('12')", True),
    ("IS_ALPHA(CAST(NULL AS STRING))", False),
    # casts to text are Flink's
    ("CAST(TRUE AS STRING)", "TRUE"),
    ("CAST(TIMESTAMP '2026-01-01 10:00:00' AS STRING)", "2026-01-01 10:00:00.000000"),
    ("CAST(CAST('2026-01-01 10:00:00.5' AS TIMESTAMP(3)) AS STRING)", "2026-01-01 10:00:00.500"),
    ("CAST('abcdef' AS VARCHAR(3))", "abc"),
    ("CAST('ab' AS CHAR(4))", "ab  "),
    ("TRY_CAST('x' AS INT)", None),
    # NULL and choice
    ("GREATEST(1, CAST(NULL AS INT))", None),
    ("LEAST(3, 1, 2)", 1),
    ("COALESCE(NULL, 2)", 2),
    ("IFNULL(CAST(NULL AS INT), 3)", 3),
    ("NULLIF(1, 1)", None),
    ("IF(1 > 2, 'a', 'b')", "b"),
    ("IF(1 > 2, 'a')", None),
    ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "b"),
    ("CAST(NULL AS INT) IS DISTINCT FROM 1", True),
    ("5 NOT BETWEEN 1 AND 3", True),
    # time
    ("TO_TIMESTAMP('2026-01-02 03:04:05')", local(2026, 1, 2, 3, 4, 5)),
    ("TO_TIMESTAMP('2026-01-02T03:04:05')", None),
    ("TO_TIMESTAMP('yesterday')", None),
    ("TO_TIMESTAMP('02.01.2026 03:04', 'dd.MM.yyyy HH:mm')", local(2026, 1, 2, 3, 4)),
    ("TO_TIMESTAMP('x', 'dd.MM.yyyy')", None),
    ("CAST(TO_TIMESTAMP_LTZ(1767225600, 0) AS STRING)", "2026-01-01 00:00:00.000"),
    ("CAST(TO_TIMESTAMP_LTZ(1767225600123, 3) AS STRING)", "2026-01-01 00:00:00.123"),
    ("TO_TIMESTAMP_LTZ(9223372036854775807, 3)", None),
    ("TO_DATE('2026-01-02')", date(2026, 1, 2)),
    ("TO_DATE('x')", None),
    ("FROM_UNIXTIME(0)", "1970-01-01 00:00:00"),
    ("UNIX_TIMESTAMP('1970-01-01 00:01:00')", 60),
    ("DATE_FORMAT(TIMESTAMP '2026-01-02 03:04:05', 'yyyy/MM/dd HH')", "2026/01/02 03"),
    ("EXTRACT(DAY FROM DATE '2026-01-02')", 2),
    ("EXTRACT(SECOND FROM TIMESTAMP '2026-01-02 03:04:05.9')", 5),
    ("EXTRACT(WEEK FROM DATE '2021-01-01')", 53),
    ("DAYOFWEEK(DATE '2026-01-04')", 1),
    ("FLOOR(TIMESTAMP '2026-01-02 03:04:05' TO HOUR)", local(2026, 1, 2, 3)),
    ("TIMESTAMPADD(HOUR, 1, TIMESTAMP '2026-01-02 03:04:05')", local(2026, 1, 2, 4, 4, 5)),
    ("TIMESTAMPADD(DAY, 1, DATE '2026-01-02')", date(2026, 1, 3)),
    ("TIMESTAMPDIFF(MINUTE, TIMESTAMP '2026-01-01 00:00:00', TIMESTAMP '2026-01-01 01:01:59')", 61),
    ("TIMESTAMPDIFF(WEEK, TIMESTAMP '2026-01-01 00:00:00', TIMESTAMP '2026-01-15 00:00:00')", 2),
    ("TIMESTAMPDIFF(MONTH, TIMESTAMP '2026-01-31 00:00:00', TIMESTAMP '2026-03-30 00:00:00')", 1),
    (
        "TIMESTAMP '2026-01-01 00:00:00' - INTERVAL '1:30' HOUR TO MINUTE",
        local(2025, 12, 31, 22, 30),
    ),
    ("TIMESTAMP '2026-01-01 00:00:00' + INTERVAL '2' WEEK", local(2026, 1, 15)),
    ("DATE '2026-01-31' + INTERVAL '1' QUARTER", date(2026, 4, 30)),
    ("CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')", "1969-12-31 16:00:00"),
    # collections
    ("ARRAY[1, 2][1]", 1),
    ("ARRAY[1, 2][3]", None),
    ("MAP['a', 1, 'b', 2]['b']", 2),
    ("MAP[1, 'x'][1]", "x"),
    ("MAP['a', 1]['z']", None),
    ("CARDINALITY(ARRAY[1, 2])", 2),
    ("CAST(ROW(1, 'x') AS ROW<a BIGINT, b STRING>).b", "x"),
    ("X'1F'", bytearray(b"\x1f")),
]


def test_a_form_gives_flinks_answer(spark: SparkSession) -> None:
    """All forms in one query; ANSI mode, as Penstock runs."""
    texts = []
    for sql, _ in CASES:
        tree = parse_expression(sql)
        type_expression(tree, {})
        texts.append(write_spark(tree))

    row = spark.sql(
        f"SELECT {', '.join(f'{text} AS c{i}' for i, text in enumerate(texts))}"
    ).first()

    assert row is not None
    wrong = [
        (sql, wanted, got) for (sql, wanted), got in zip(CASES, row, strict=True) if got != wanted
    ]
    assert wrong == []


def test_an_unknown_division_has_flinks_value(spark: SparkSession) -> None:
    """Where the types are not known here, Spark is left to look at them."""
    text = write_spark(parse_expression("a / b"))
    frame = spark.sql("SELECT -7L AS a, 2 AS b")
    whole = spark.sql("SELECT 1700000000123456789L AS a, 1000000L AS b")
    parts = spark.sql("SELECT -7D AS a, 2 AS b")

    values = [f.selectExpr(f"{text} AS c").first() for f in (frame, whole, parts)]

    assert [value and value[0] for value in values] == [-3, 1700000000123, -3.5]


def test_aggregates_give_flinks_answer(spark: SparkSession) -> None:
    """AVG of whole numbers is whole, LISTAGG joins by a comma, ARRAY_AGG keeps NULL."""
    texts = []
    for sql in (
        "AVG(a)", "AVG(a) FILTER (WHERE a > 1)", "LISTAGG(s)", "ARRAY_AGG(a) FILTER (WHERE s <> 'x')", "COUNT(*)",
    ):  # fmt: skip
        tree = parse_expression(sql)
        type_expression(tree, {"a": parse_expression("CAST(1 AS INT)").args["to"], "s": None})
        texts.append(write_spark(tree))

    row = spark.sql(
        f"SELECT {', '.join(texts)} FROM VALUES (1, 'x'), (2, 'y'), (NULL, 'z'), (4, 'x') AS t(a, s)"
    ).first()

    assert row is not None
    assert row[0] == 2
    assert row[1] == 3
    assert sorted(row[2].split(",")) == ["x", "x", "y", "z"]
    assert row[3:] == ([2, None], 4)


def test_left_join_unnest_keeps_the_rows_that_have_nothing(spark: SparkSession) -> None:
    """Of an empty array and of NULL, as in Flink; CROSS JOIN gives nothing for them."""
    rows = "FROM VALUES (1, ARRAY('x', 'y')), (2, ARRAY()), (3, NULL) AS t(id, tags)"
    spark.sql(f"SELECT id, CAST(tags AS ARRAY<STRING>) AS tags {rows}").createOrReplaceTempView(
        "tagged"
    )
    found = []
    for join in ("LEFT JOIN UNNEST(t.tags) AS u (x) ON TRUE", "CROSS JOIN UNNEST(t.tags) AS u (x)"):
        query = parse_query(f"SELECT t.id, u.x FROM tagged AS t {join} WHERE t.id > 0")
        unnest = query.find(exp.Unnest)
        assert unnest is not None
        unnest.expressions[0].type = exp.DataType.build("ARRAY<STRING>", dialect="flink")
        found.append({tuple(row) for row in spark.sql(write_spark(query)).collect()})

    assert found[0] == {(1, "x"), (1, "y"), (2, None), (3, None)}
    assert found[1] == {(1, "x"), (1, "y")}


def numbered(value: str, columns: str, join: str = "CROSS JOIN", on: str = "") -> str:
    """An UNNEST with its numbers, with the column of texts in front of it."""
    text = " || ' ' || ".join(f"COALESCE(CAST(u.{c} AS STRING), '-')" for c in columns.split(", "))
    return (
        f"SELECT '{value}', t.id, {text} FROM numbered AS t "
        f"{join} UNNEST(t.{value}) WITH ORDINALITY AS u ({columns}) {on}"
    )


def test_unnest_numbers_what_it_gives(spark: SparkSession) -> None:
    """From 1, an INT, of arrays with NULLs in them, of rows, maps and multisets; NULL where LEFT JOIN keeps a row."""
    namespace = new_namespace(
        "CREATE TABLE numbered (id INT, a ARRAY<STRING>, r ARRAY<ROW<x INT, y STRING>>, m MAP<STRING, INT>, "
        "s MULTISET<STRING>, sr MULTISET<ROW<x INT, y STRING>>) WITH ('connector' = 'kafka')"
    )
    spark.sql(
        "SELECT * FROM VALUES (1, array('x', NULL, 'x'), array(struct(1 AS x, 'a' AS y), NULL, struct(2 AS x, CAST(NULL AS STRING) AS y)), "
        "map('k', 1, 'l', NULL), map('p', 2, 'q', 1), map(struct(1 AS x, 'a' AS y), 2)), "
        "(2, array(), array(), map(), map('p', 0), NULL), (3, NULL, NULL, NULL, NULL, NULL) "
        "AS t(id, a, r, m, s, sr)"
    ).createOrReplaceTempView("numbered")
    parts = [
        numbered("a", "e, n", "LEFT JOIN", "ON TRUE"),
        numbered("r", "p, q, n"),
        numbered("m", "k, v, n", "LEFT JOIN", "ON TRUE WHERE t.id < 3"),
        numbered("s", "e, n"),
        numbered("sr", "p, q, n"),
        "SELECT 'no number', t.id, CAST(u.e AS STRING) FROM numbered AS t CROSS JOIN UNNEST(t.s) AS u (e)",
    ]
    query = parse_query(" UNION ALL ".join(parts))
    assert bind_query(query, namespace).errors == ()
    found: dict[str, list[tuple[int, str]]] = {}
    for what, number, text in spark.sql(write_spark(query)).collect():
        found.setdefault(what, []).append((number, text))

    assert {what: sorted(rows) for what, rows in found.items()} == {
        "a": [(1, "- 2"), (1, "x 1"), (1, "x 3"), (2, "- -"), (3, "- -")],
        "r": [(1, "- - 2"), (1, "1 a 1"), (1, "2 - 3")],
        "m": [(1, "k 1 1"), (1, "l - 2"), (2, "- - -")],
        "s": [(1, "p 1"), (1, "p 2"), (1, "q 3")],
        "sr": [(1, "1 a 1"), (1, "1 a 2")],
        "no number": [(1, "p"), (1, "p"), (1, "q")],
    }  # fmt: skip


def test_left_join_unnest_of_a_stream_appends(spark: SparkSession, tmp_path: Path) -> None:
    """With ON Spark would aggregate by the array, which no stream without a watermark can do."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1, "tags": ["x"]}\n{"id": 2, "tags": []}\n')
    rows = spark.readStream.schema("id INT, tags ARRAY<STRING>").json(str(tmp_path / "in"))
    rows.createOrReplaceTempView("tagged_stream")
    sql = (
        "SELECT t.id, u.x, u.n FROM tagged_stream AS t "
        "LEFT JOIN UNNEST(t.tags) WITH ORDINALITY AS u (x, n) ON TRUE"
    )
    writer = spark.sql(write_spark(parse_query(sql))).writeStream.format("memory")
    query = writer.queryName("unnested").trigger(availableNow=True).start()
    query.awaitTermination(60)

    assert {tuple(row) for row in spark.table("unnested").collect()} == {
        (1, "x", 1),
        (2, None, None),
    }
