"""`${...}` in SQL is the text that is written, in every session: Spark would put variables and properties there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.sql.session.session import Session

TEXTS = ("${env:PATH}", "${system:java.home}", "${spark.master}", "${nothing}", "$${env:PATH}")


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session on a Spark whose owner has variables substituted."""
    spark.conf.set("spark.sql.variable.substitute", "true")
    spark._jsparkSession.sparkContext().conf().set("spark.sql.variable.substitute", "true")
    assert spark.sql("SELECT '${nothing}'").first() == ("",)
    assert spark.newSession().sql("SELECT '${nothing}'").first() == ("",)
    with penstock.connect(spark) as session:
        yield session
    spark.conf.set("spark.sql.variable.substitute", "false")


def given(session: Session, query: str) -> list[tuple[object, ...]]:
    """The rows of a query of Flink SQL."""
    frame = session.sql(query)
    assert frame is not None
    return sorted(tuple(row) for row in frame.collect())  # type: ignore[union-attr]


def test_a_literal_with_a_variable_in_it_is_the_text(session: Session) -> None:
    """In SELECT and WHERE, computed columns and views, UPDATE and DELETE, in Flink SQL and in Spark SQL."""
    listed = ", ".join(f"('{text}')" for text in TEXTS)
    session.sql("CREATE TABLE t (a STRING) WITH ('connector' = 'delta', 'path' = 't')")
    session.sql(f"INSERT INTO t VALUES {listed}")
    session.sql("CREATE VIEW v AS SELECT a, a || '${env:PATH}' AS b FROM t WHERE a <> '${nothing}'")
    session.sql(
        "CREATE TABLE c (a STRING, b AS a || '${spark.master}') "
        "WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'json')"
    )
    Path("c").mkdir()
    Path("c/a.json").write_text('{"a": "x"}\n', encoding="utf-8")
    spark = session.spark
    found = {
        "rows": [a for (a,) in given(session, "SELECT a FROM t")],
        "where": given(session, "SELECT a FROM t WHERE a = '${nothing}'"),
        "computed": given(session, "SELECT b FROM c"),
        "view": given(session, "SELECT b FROM v WHERE a = '${spark.master}'"),
        "spark's view": [
            tuple(r) for r in spark.sql("SELECT b FROM v WHERE a = '${spark.master}'").collect()
        ],
        "new session": [
            tuple(r) for r in spark.newSession().sql("SELECT '${env:PATH}', b FROM c").collect()
        ],
    }
    session.sql("UPDATE t SET a = '${a}' WHERE a = '${nothing}'")
    session.sql("DELETE FROM t WHERE a = '${env:PATH}'")

    assert found == {
        "rows": sorted(TEXTS),
        "where": [("${nothing}",)],
        "computed": [("x${spark.master}",)],
        "view": [("${spark.master}${env:PATH}",)],
        "spark's view": [("${spark.master}${env:PATH}",)],
        "new session": [("${env:PATH}", "x${spark.master}")],
    }
    assert given(session, "SELECT a FROM t") == sorted(
        (text,) for text in {*TEXTS, "${a}"} - {"${nothing}", "${env:PATH}"}
    )


def test_a_setting_of_the_user_does_not_switch_substitution_on(session: Session) -> None:
    """A query is planned without it, whatever the session's owner sets meanwhile."""
    session.spark.conf.set("spark.sql.variable.substitute", "true")

    assert given(session, "SELECT '${env:PATH}'") == [("${env:PATH}",)]
