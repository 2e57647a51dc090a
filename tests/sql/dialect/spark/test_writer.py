"""What Spark is written, and what it has no form for."""

from __future__ import annotations

import pytest

from penstock.sql.binding.binder import bind_query
from penstock.sql.dialect.flink.trees import parse_query
from penstock.sql.dialect.spark.writer import write_spark
from penstock.sql.syntax.parse_errors import NodeError
from penstock.sql.syntax.positions import Source, attach
from tests.sql.sql_objects import new_namespace


@pytest.mark.parametrize("on", ["ON TRUE", "ON (TRUE)"])
def test_left_join_unnest_is_a_cross_join_of_a_function_that_keeps_rows(on: str) -> None:
    """With ON Spark would aggregate by the array, which no stream can do."""
    written = write_spark(parse_query(f"SELECT u.x FROM t LEFT JOIN UNNEST(t.a) AS u (x) {on}"))

    assert written.endswith("FROM `t` CROSS JOIN LATERAL EXPLODE_OUTER(`t`.`a`) AS `u`(`x`)")


@pytest.mark.parametrize(
    ("join", "what"),
    [
        ("JOIN UNNEST(t.tags) AS u (x) ON u.x > 1", "joined ON TRUE"),
        ("LEFT JOIN UNNEST(t.tags) AS u (x) ON u.x > 1", "joined ON TRUE"),
        ("RIGHT JOIN UNNEST(t.tags) AS u (x) ON TRUE", "not joined by RIGHT JOIN"),
        ("FULL JOIN UNNEST(t.tags) AS u (x) ON TRUE", "not joined by FULL JOIN"),
    ],
)
def test_what_unnest_does_not_do_for_a_join_is_refused(join: str, what: str) -> None:
    """Spark joins by a condition what it has aggregated, which no stream can do."""
    with pytest.raises(NodeError, match=what):
        write_spark(parse_query(f"SELECT t.id, u.x FROM t {join}"))


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        ("UNNEST(a) AS u (x, y)", "UNNEST gives 1 column here, and AS names 2"),
        ("UNNEST(a) WITH ORDINALITY AS u (x)", "UNNEST gives 2 columns here, the last of them"),
        ("UNNEST(m) WITH ORDINALITY AS u (k, v)", "UNNEST gives 3 columns here, the last of them"),
        ("UNNEST(s) AS u (x, n)", "UNNEST gives 1 column here, and AS names 2"),
        ("UNNEST(a, a) AS u (x, y)", "UNNEST of several values is not supported"),
    ],
)
def test_unnest_gives_as_many_columns_as_are_named(relation: str, message: str) -> None:
    """Said by us, at the UNNEST: Spark's own words are of a generator that nobody wrote."""
    tables = "CREATE TABLE t (a ARRAY<INT>, m MAP<STRING, INT>, s MULTISET<INT>) WITH ('connector' = 'kafka')"
    sql = f"SELECT 1 FROM t CROSS JOIN {relation}"
    query = parse_query(sql)
    (error,) = bind_query(
        attach(query, Source(file="a.sql", text=sql)), new_namespace(tables)
    ).errors

    assert message in error.message
    assert error.span is not None
    assert error.span.column == sql.index("UNNEST") + 1


def test_spark_finds_no_variable_in_a_literal() -> None:
    """It replaces `${...}` in the text of a statement; an escape is read later. A literal stays a literal."""
    written = write_spark(parse_query("SELECT '${env:X}', U&'\\0024{y}', '$', m['${k}'] FROM t"))

    assert "${" not in written
    assert r"'\u0024{env:X}', '\u0024{y}', '$'" in written
