"""Which INSERTs reading tasks write, and the reason why Spark writes the others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from penstock.connector.expression import FieldValue, FunctionCall
from penstock.connector.file_output import FileOutput, WrittenByEngine
from penstock.sql.convert.statement import parse_statement
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.analyzer import Analyzer, filled_columns
from penstock.sql.plan.explain.statements import table_writer
from penstock.sql.plan.table_writer import choose_table_writer
from penstock.sql.script.splitter import split
from penstock.sql.settings import TIME_ZONE
from penstock.sql.statements.dml import InsertInto
from tests.sql.sql_objects import new_namespace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = """
CREATE TABLE clicks (
  id BIGINT, url STRING, at TIMESTAMP(3), r ROW<url STRING, n INT>, twice AS id * 2,
  part INT METADATA FROM 'partition' VIRTUAL, tags ARRAY<STRING>, items ARRAY<ROW<id BIGINT, url STRING>>
) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json',
        'scan.startup.mode' = 'earliest-offset');
CREATE TABLE stored (id BIGINT, url STRING) WITH ('connector' = 'delta', 'path' = 's');
CREATE TABLE changes (id BIGINT, url STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'kafka', 'topic' = 'c', 'properties.bootstrap.servers' = 'nowhere:1',
        'format' = 'debezium-json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE a (id BIGINT, url STRING) WITH ('connector' = 'delta', 'path' = 'a');
CREATE TABLE keyed (id BIGINT, url STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'k');
CREATE TABLE merged (id BIGINT, url STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'm', 'delta.enableDeletionVectors' = 'false');
CREATE TABLE fed (id BIGINT, url STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'f', 'delta.enableChangeDataFeed' = 'true');
CREATE TABLE sparks (id BIGINT, url STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 's', 'sink.writer' = 'spark');
CREATE TABLE gathered (id BIGINT, url STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'g', 'sink.target-file-size' = '64 mb');
CREATE TABLE by_number (id DOUBLE, url STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'n');
CREATE TABLE by_spark (id BIGINT, url STRING) WITH ('connector' = 'delta', 'path' = 'b', 'sink.writer' = 'spark');
CREATE TABLE amounts (id DECIMAL(19, 0), price DECIMAL(12, 2)) WITH ('connector' = 'delta', 'path' = 'd');
CREATE TABLE shown (id BIGINT, url STRING) WITH ('connector' = 'print');
CREATE TABLE finer (id BIGINT, at TIMESTAMP(6), tz TIMESTAMP_LTZ(6), r ROW<at TIMESTAMP(6)>, text STRING)
  WITH ('connector' = 'kafka', 'topic' = 'f', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json',
        'scan.startup.mode' = 'earliest-offset');
CREATE TABLE times (at TIMESTAMP(3), whole TIMESTAMP(0), tz TIMESTAMP_LTZ(3), tenths TIMESTAMP(1), full TIMESTAMP(6),
                    r ROW<at TIMESTAMP(3)>)
  WITH ('connector' = 'delta', 'path' = 't');
CREATE VIEW names AS SELECT url AS u, id FROM clicks;
CREATE VIEW renamed (x, y) AS SELECT * FROM names;
"""
OTHER = "the query does more than take columns of one table"


def insert(text: str, project: Path = Path("/nowhere")) -> AnalysedInsert:
    namespace = new_namespace(TABLES)
    (statement,) = (parse_statement(one, namespace) for one in split(f"{text};", "f.sql"))
    assert isinstance(statement, InsertInto)
    return Analyzer(namespace=namespace, project=project).analyse_insert(statement)


def told(text: str) -> str | None:
    return table_writer(insert(text), shared=False)


@pytest.mark.parametrize(
    ("query", "sources"),
    [
        ("SELECT id, url FROM clicks", ["id", "url"]),
        ("SELECT * FROM (SELECT id, url FROM clicks)", ["id", "url"]),
        ("SELECT c.id AS x, c.url FROM clicks AS c", ["id", "url"]),
        ("SELECT id, u FROM names", ["id", "url"]),
        ("SELECT y, x FROM renamed", ["id", "url"]),
        ("SELECT id FROM clicks", ["id"]),
        ("SELECT id, clicks.r.url FROM clicks", ["id", "r.url"]),
        ("SELECT id, url FROM clicks WHERE id > 3", ["id", "url"]),
        ("SELECT id, u FROM names AS n WHERE n.u LIKE 'a%' AND id <> 3", ["id", "url"]),
    ],
)
def test_columns_of_one_table_are_written_where_they_are_read(
    query: str, sources: list[str]
) -> None:
    """By whatever names, and through views."""
    names = "id" if len(sources) == 1 else "id, url"
    made = insert(f"INSERT INTO a ({names}) {query}")
    found = choose_table_writer(
        made.query, tuple(filled_columns(made.statement, made.target).values()), made.sink
    )

    assert isinstance(found, FileOutput), found
    paths = [
        column.source.path for column in found.columns if isinstance(column.source, FieldValue)
    ]
    assert [".".join(path) for path in paths] == sources
    assert [column.name for column in found.columns] == ["id", "url"]


@pytest.mark.parametrize(
    "values",
    [
        "twice, url",
        "id + 1, SUBSTRING(url, 1, 5)",
        "CAST(r.n AS BIGINT), CASE WHEN id > 3 THEN url ELSE 'x' END",
        "YEAR(`at`), url || '-' || r.url",
        "COALESCE(id, 0), 'x'",
        "id % 10, UPPER(url)",
        "id, DATE_FORMAT(`at`, 'yyyy-MM-dd')",
        "part, url",
        "CHAR_LENGTH(url), url",
    ],
)
def test_values_are_computed_where_they_are_written(values: str) -> None:
    """Of functions that have Spark's result there."""
    assert told(f"INSERT INTO a SELECT {values} FROM clicks WHERE id > 3") == "the reading tasks"


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ("SELECT id, tag FROM clicks, UNNEST(tags) AS t (tag) WHERE tag <> '' AND id > 3", "UNNEST(tags) AS t (tag)"),
        ("SELECT c.id, i.url FROM clicks AS c LEFT JOIN UNNEST(c.items) AS i (id, url) ON TRUE",
         "UNNEST(c.items) AS i (id, url)"),
        ("SELECT t.n, i.url FROM clicks AS c CROSS JOIN UNNEST(c.items) AS i (id, url) "
         "CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, n)",
         "UNNEST(c.items) AS i (id, url), UNNEST(tags) WITH ORDINALITY AS t (tag, n)"),
    ],
)  # fmt: skip
def test_rows_of_arrays_are_written_where_they_are_read(query: str, calls: str) -> None:
    """EXPLAIN names the calls."""
    assert told(f"INSERT INTO a {query}") == f"the reading tasks, behind {calls}"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "SELECT id, url FROM clicks WHERE id > 3 AND INITCAP(url) = 'X'",
            "a condition is checked by Spark",
        ),
        ("WITH q AS (SELECT url, id FROM clicks) SELECT q.id, q.url FROM q", OTHER),
        ("SELECT DISTINCT id, url FROM clicks", "the rows are changes"),
        ("SELECT id, tag FROM clicks CROSS JOIN UNNEST(ARRAY[url, 'x']) AS t (tag)", OTHER),
        (
            "SELECT id, tag FROM clicks CROSS JOIN UNNEST(tags) AS t (tag) WHERE INITCAP(tag) = 'X'",
            "a condition is checked by Spark",
        ),
        ("SELECT DISTINCT id, tag FROM clicks, UNNEST(tags) AS t (tag)", "the rows are changes"),
        ("SELECT id, url FROM clicks UNION ALL SELECT id, url FROM clicks", OTHER),
        ("SELECT c.id, s.url FROM clicks AS c JOIN stored AS s ON c.id = s.id", OTHER),
        ("SELECT id, url FROM stored", "Spark reads the table, too"),
        ("SELECT id, INITCAP(url) FROM clicks", "column url is computed"),
        ("SELECT POWER(id, 2), url FROM clicks", "column id is computed"),
        ("SELECT id, url FROM clicks WHERE twice = 4", "a condition is checked by Spark"),
        (
            "SELECT id, url FROM clicks WHERE DATE_FORMAT(`at`, 'yyyy') = '2026'",
            "a condition is checked by Spark",
        ),
        ("SELECT id, CAST(NULL AS STRING) FROM clicks", "column url is computed"),
        ("SELECT id * 1.5, url FROM clicks", "column id is cast from DECIMAL(23, 1) to BIGINT"),
    ],
)
def test_other_queries_are_written_by_spark(query: str, reason: str) -> None:
    """With the reason."""
    assert told(f"INSERT INTO a {query}") == f"Spark: {reason}"


@pytest.mark.parametrize(
    "values", ["id, r.n", "r.n, CAST(id AS DECIMAL(12, 2))", "r.n, CAST(r.n AS DECIMAL(5, 1))"]
)
def test_decimals_of_a_target_that_hold_all_numbers_are_written_there(values: str) -> None:
    """The cast to the column cannot fail."""
    assert told(f"INSERT INTO amounts SELECT {values} FROM clicks") == "the reading tasks"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("id, id", "column price is cast from BIGINT to DECIMAL(12, 2)"),
        ("1.5 - 1, 7", "column id is cast from DECIMAL(3, 1) to DECIMAL(19, 0)"),
    ],
)
def test_decimals_that_may_not_hold_a_number_are_written_by_spark(values: str, reason: str) -> None:
    """It fails where the number does not fit, or rounds."""
    assert told(f"INSERT INTO amounts SELECT {values} FROM clicks") == f"Spark: {reason}"


@pytest.mark.parametrize(
    ("columns", "query", "functions"),
    [
        ("at, whole, tz, full", "SELECT at, at, tz, at FROM finer", ["floor_time"] * 3 + [""]),
        ("at, whole, full", "SELECT `at`, `at`, `at` FROM clicks", ["", "floor_time", ""]),
        ("tenths", "SELECT CAST(`at` AS TIMESTAMP(0)) FROM clicks", ["floor_time"]),
    ],
)
def test_times_of_more_digits_than_the_column_are_cut_where_they_are_written(
    columns: str, query: str, functions: list[str]
) -> None:
    """To the digits of the column; others are written as they are."""
    made = insert(f"INSERT INTO times ({columns}) {query}")
    found = choose_table_writer(
        made.query, tuple(filled_columns(made.statement, made.target).values()), made.sink
    )

    assert isinstance(found, FileOutput), found
    sources = [column.source for column in found.columns if column.source is not None]
    assert sorted(
        source.function if isinstance(source, FunctionCall) else "" for source in sources
    ) == sorted(functions)


@pytest.mark.parametrize(
    ("columns", "query", "reason"),
    [
        ("tenths", "SELECT at FROM finer", "column tenths is cut to TIMESTAMP(1)"),
        ("r", "SELECT r FROM finer", "column r is cut to ROW<`at` TIMESTAMP(3)>"),
        ("at", "SELECT tz FROM finer", "column at is cast from TIMESTAMP_LTZ(6) to TIMESTAMP(6)"),
    ],
)
def test_times_that_tasks_do_not_cut_are_written_by_spark(
    columns: str, query: str, reason: str
) -> None:
    """Of other digits than those of seconds and milliseconds, and inside of rows."""
    assert told(f"INSERT INTO times ({columns}) {query}") == f"Spark: {reason}"


def test_a_table_may_be_left_to_spark() -> None:
    """By its option."""
    found = told("INSERT INTO by_spark SELECT id, url FROM clicks")
    assert found == "Spark: 'sink.writer' = 'spark'"


def test_a_log_that_cannot_be_read_here_is_left_to_spark(tmp_path: Path) -> None:
    """Which says what is wrong with it, or knows more of its form."""
    log = tmp_path / "a" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{", encoding="utf-8")
    found = table_writer(insert("INSERT INTO a SELECT id, url FROM clicks", tmp_path), shared=False)
    assert found is not None
    assert found.startswith("Spark: the log of the Delta table ")


def test_what_hangs_on_another_time_zone_is_written_by_spark() -> None:
    """Tasks compute in UTC."""
    made = insert("INSERT INTO a SELECT id, DATE_FORMAT(`at`, 'HH:mm') FROM clicks")
    columns = tuple(filled_columns(made.statement, made.target).values())
    session = SimpleNamespace(conf={TIME_ZONE: "Europe/Berlin"})
    found = choose_table_writer(made.query, columns, made.sink, cast("SparkSession", session))

    assert found == WrittenByEngine(reason="column url depends on the time zone Europe/Berlin")


@pytest.mark.parametrize(
    ("table", "how"),
    [
        ("keyed", "position: the table has deletion vectors ('delta.enableDeletionVectors')"),
        ("merged", "MERGE: the table has no deletion vectors ('delta.enableDeletionVectors')"),
        ("fed", "MERGE: the table has a change data feed ('delta.enableChangeDataFeed')"),
        ("sparks", "MERGE: 'sink.writer' = 'spark'"),
        ("gathered", "MERGE: 'sink.target-file-size' gathers small files"),
        ("by_number", "MERGE: column id of the key is of type DOUBLE"),
    ],
)
def test_rows_of_a_key_are_replaced_by_position_or_by_merge(table: str, how: str) -> None:
    """With the property, the option or the column that decides it, whatever the query is."""
    for source in ("changes", "clicks"):
        assert told(f"INSERT INTO {table} SELECT id, url FROM {source}") == how
    made = insert(f"INSERT INTO {table} SELECT id, url FROM clicks")
    assert table_writer(made, shared=True) == how
    assert told(f"INSERT INTO {table} VALUES (1, 'x')") is None


def test_of_other_tables_and_statements_nothing_is_told() -> None:
    """A sink that takes rows alone; rows that are written once."""
    assert told("INSERT INTO shown SELECT id, url FROM clicks") is None
    assert told("INSERT INTO a VALUES (1, 'x')") is None


def test_a_set_that_reads_once_is_written_by_spark() -> None:
    """Whatever its INSERTs are by themselves."""
    found = table_writer(insert("INSERT INTO a SELECT id, url FROM clicks"), shared=True)
    assert found == "Spark: the statement set reads once for several tables"
