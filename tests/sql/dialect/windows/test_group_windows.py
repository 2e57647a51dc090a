"""Group windows become windowing functions: the tree that comes of each, and what fits none is refused at its place."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot.errors import UnsupportedError as SqlglotUnsupportedError

from penstock.catalog.errors import InputError
from penstock.sql.dialect import Flink, flink_to_spark, parse_query, to_text, window_tables
from penstock.sql.dialect.windows.group_windows import translate_group_windows
from penstock.sql.syntax.positions import Source, attach

FIVE, HOUR = "INTERVAL '5' MINUTE", "INTERVAL '1' HOUR"
BOUNDS = "`t`.`window_start`, `t`.`window_end`"
GROUPED = "`grouped`.`window_start`, `grouped`.`window_end`"
OF_T = f"FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR})) AS `t`"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            f"SELECT k, TUMBLE_START(ts, {HOUR}) AS s FROM t WHERE a > 1 GROUP BY k, TUMBLE(ts, {HOUR})",
            f"SELECT k, `t`.`window_start` AS s {OF_T} WHERE a > 1 GROUP BY k, {BOUNDS}",
        ),
        (
            f"SELECT x.k, hop_end(x.ts, {FIVE}, {HOUR}) FROM t AS x GROUP BY x.k, hop(ts, {FIVE}, {HOUR})",
            f"SELECT x.k, `x`.`window_end` FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), {FIVE}, {HOUR})) AS `x` "
            "GROUP BY x.k, `x`.`window_start`, `x`.`window_end`",
        ),
        (
            f"SELECT SESSION_END(ts, {HOUR}) AS e FROM t GROUP BY t.k, SESSION(ts, {HOUR})",
            f"SELECT `t`.`window_end` AS e FROM TABLE(SESSION(TABLE t PARTITION BY (`k`), DESCRIPTOR(ts), {HOUR})) "
            f"AS `t` GROUP BY t.k, {BOUNDS}",
        ),
        (
            f"SELECT COUNT(*) FROM t GROUP BY SESSION(ts, {HOUR})",
            f"SELECT COUNT(*) FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), {HOUR})) AS `t` GROUP BY {BOUNDS}",
        ),
        (
            f"SELECT TUMBLE_ROWTIME(ts, {HOUR}) AS r FROM c.d.t /*+ OPTIONS('a'='b') */ GROUP BY TUMBLE(ts, {HOUR})",
            "SELECT `t`.`window_time` AS r FROM TABLE(TUMBLE(TABLE c.d.t /*+ OPTIONS('a'='b') */, DESCRIPTOR(ts), "
            f"{HOUR})) AS `t` GROUP BY {BOUNDS}, `t`.`window_time`",
        ),
        (
            f"SELECT TUMBLE_PROCTIME(ts, {HOUR}) AS p, COUNT(*) FROM t GROUP BY TUMBLE(ts, {HOUR})",
            f"SELECT PROCTIME() AS p, COUNT(*) {OF_T} GROUP BY {BOUNDS}",
        ),
        (
            f"SELECT k FROM t GROUP BY k, TUMBLE(ts, {HOUR}) HAVING TUMBLE_END(ts, INTERVAL '60' MINUTE) > x "
            f"ORDER BY UPPER(TUMBLE_START(t.ts, {HOUR}))",
            f"SELECT k {OF_T} GROUP BY k, {BOUNDS} HAVING `t`.`window_end` > x ORDER BY UPPER(`t`.`window_start`)",
        ),
        (
            f"SELECT n FROM t UNION ALL SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, {HOUR})",
            f"SELECT n FROM t UNION ALL SELECT COUNT(*) {OF_T} GROUP BY {BOUNDS}",
        ),
        (
            f"SELECT k, GROUPING(k) AS g FROM t GROUP BY ROLLUP (k), TUMBLE(ts, {HOUR})",
            f"SELECT k, GROUPING(k) AS g {OF_T} GROUP BY ROLLUP (k), {BOUNDS}",
        ),
        ("SELECT COUNT(*) FROM t GROUP BY k", "SELECT COUNT(*) FROM t GROUP BY k"),
    ],
)
def test_a_table_is_read_by_the_function(sql: str, expected: str) -> None:
    """It keeps its name, by which the columns know it, and what is asked of the window are columns of it."""
    assert to_text(parse_query(sql)) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            f"SELECT /*+ BROADCAST(b) */ a.k, b.k, SUM(a.v) AS k FROM a JOIN b ON a.id = b.id WHERE v > 1 "
            f"GROUP BY a.k, b.k, TUMBLE(a.ts, {HOUR}) HAVING SUM(v) > 1 ORDER BY k, TUMBLE_START(ts, {HOUR})",
            f"SELECT `grouped`.`k`, `grouped`.`k_1` AS `k`, SUM(`grouped`.`v`) AS k FROM TABLE(TUMBLE(("
            "SELECT /*+ BROADCAST(b) */ a.ts AS `ts`, a.k AS `k`, b.k AS `k_1`, a.v AS `v` "
            f"FROM a JOIN b ON a.id = b.id WHERE v > 1), DESCRIPTOR(`ts`), {HOUR})) AS `grouped` "
            f"GROUP BY `grouped`.`k`, `grouped`.`k_1`, {GROUPED} "
            "HAVING SUM(`grouped`.`v`) > 1 ORDER BY k, `grouped`.`window_start`",
        ),
        (
            f"SELECT b.k, COUNT(*) FROM a JOIN b ON a.id = b.id GROUP BY CUBE (a.k, b.k), TUMBLE(a.ts, {HOUR})",
            "SELECT `grouped`.`k`, COUNT(*) FROM TABLE(TUMBLE((SELECT a.ts AS `ts`, b.k AS `k`, a.k AS `k_1` "
            f"FROM a JOIN b ON a.id = b.id), DESCRIPTOR(`ts`), {HOUR})) AS `grouped` "
            f"GROUP BY CUBE (`grouped`.`k_1`, `grouped`.`k`), {GROUPED}",
        ),
        (
            f"SELECT q.window_start, r.f.g FROM (SELECT * FROM t) AS q GROUP BY window_start, r.f.g, TUMBLE(ts, {HOUR})",
            "SELECT `q`.`window_start_1` AS `window_start`, `q`.`g` FROM TABLE(TUMBLE((SELECT ts AS `ts`, "
            "q.window_start AS `window_start_1`, r.f.g AS `g` FROM (SELECT * FROM t) AS q), DESCRIPTOR(`ts`), "
            f"{HOUR})) AS `q` GROUP BY `q`.`window_start_1`, `q`.`g`, `q`.`window_start`, `q`.`window_end`",
        ),
        (
            f"SELECT SUM(v) FROM t GROUP BY TUMBLE(window_end, {HOUR}) ORDER BY MAX(t.Window_Start)",
            "SELECT SUM(`t`.`v`) FROM TABLE(TUMBLE((SELECT window_end AS `window_end_1`, v AS `v`, t.Window_Start AS "
            f"`Window_Start_1` FROM t), DESCRIPTOR(`window_end_1`), {HOUR})) AS `t` GROUP BY {BOUNDS} "
            "ORDER BY MAX(`t`.`Window_Start_1`)",
        ),
        (
            f"SELECT COUNT(*) FROM t AS x (a, b) GROUP BY TUMBLE(b, {HOUR})",
            "SELECT COUNT(*) FROM TABLE(TUMBLE((SELECT b AS `b` FROM t AS x(a, b)), DESCRIPTOR(`b`), "
            f"{HOUR})) AS `x` GROUP BY `x`.`window_start`, `x`.`window_end`",
        ),
        (
            f"SELECT UPPER(k) AS u, MAX(UPPER(t.k)) AS m FROM t GROUP BY UPPER(k), SESSION(ts, {HOUR}) "
            "HAVING UPPER(k) > 'A'",
            "SELECT `t`.`key` AS u, MAX(UPPER(`t`.`k`)) AS m FROM TABLE(SESSION((SELECT ts AS `ts`, UPPER(k) AS "
            f"`key`, t.k AS `k` FROM t) PARTITION BY (`key`), DESCRIPTOR(`ts`), {HOUR})) AS `t` "
            f"GROUP BY `t`.`key`, {BOUNDS} HAVING `t`.`key` > 'A'",
        ),
        (
            f"WITH c AS (SELECT ts FROM t) SELECT COUNT(*) FROM c GROUP BY TUMBLE(ts, {HOUR})",
            "WITH c AS (SELECT ts FROM t) SELECT COUNT(*) FROM TABLE(TUMBLE((SELECT ts AS `ts` FROM c), "
            f"DESCRIPTOR(`ts`), {HOUR})) AS `c` GROUP BY `c`.`window_start`, `c`.`window_end`",
        ),
        (
            f"SELECT SUM(n) FROM (SELECT TUMBLE_ROWTIME(ts, {FIVE}) AS r, COUNT(*) AS n FROM t "
            f"GROUP BY TUMBLE(ts, {FIVE})) GROUP BY TUMBLE(r, {HOUR})",
            "SELECT SUM(`grouped`.`n`) FROM TABLE(TUMBLE((SELECT r AS `r`, n AS `n` FROM (SELECT `t`.`window_time` "
            f"AS r, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {FIVE})) AS `t` GROUP BY {BOUNDS}, "
            f"`t`.`window_time`)), DESCRIPTOR(`r`), {HOUR})) AS `grouped` GROUP BY {GROUPED}",
        ),
    ],
)
def test_whatever_else_is_read_becomes_a_query_of_what_is_used(sql: str, expected: str) -> None:
    """Joins, queries, renamed columns: with names that no column of the function has."""
    assert to_text(parse_query(sql)) == expected


@pytest.mark.parametrize(
    ("sql", "words", "at"),
    [
        (
            f"SELECT HOP_END(ts, {HOUR}) FROM t GROUP BY TUMBLE(ts, {HOUR})",
            "does not go with TUMBLE",
            "HOP_END",
        ),
        (
            f"SELECT TUMBLE_END(ts, {FIVE}) FROM t GROUP BY TUMBLE(ts, {HOUR})",
            "other arguments",
            "TUMBLE_END",
        ),
        (
            f"SELECT TUMBLE_END(at, {HOUR}) FROM t GROUP BY TUMBLE(ts, {HOUR})",
            "other arguments",
            "TUMBLE_END",
        ),
        (
            f"SELECT TUMBLE_END(ts) FROM t GROUP BY TUMBLE(ts, {HOUR})",
            "other arguments",
            "TUMBLE_END",
        ),
        (f"SELECT TUMBLE_END(ts, {HOUR}) FROM t", "needs TUMBLE with the same", "TUMBLE_END"),
        (
            f"SELECT k FROM t GROUP BY k, SESSION(ts, {HOUR}) ORDER BY SESSION_END(ts, {HOUR})",
            "SESSION_END in ORDER BY is supported where it is selected",
            "SESSION_END",
        ),
        (f"SELECT TUMBLE(ts, {HOUR}) FROM t GROUP BY k", "is written in GROUP BY", "TUMBLE"),
        (
            f"SELECT k FROM t WHERE TUMBLE_END(ts, {HOUR}) > x GROUP BY TUMBLE(ts, {HOUR})",
            "needs TUMBLE",
            "TUMBLE_END",
        ),
        ("SELECT k FROM t GROUP BY TUMBLE(ts)", "takes a time column, size", "TUMBLE"),
        (f"SELECT k FROM t GROUP BY HOP(ts, {HOUR})", "takes a time column, slide, size", "HOP"),
        (f"SELECT k FROM t GROUP BY TUMBLE(PROCTIME(), {HOUR})", "needs a time column", "PROCTIME"),
        (f"SELECT * FROM t GROUP BY TUMBLE(ts, {HOUR})", "* cannot be selected", "*"),
        (
            f"SELECT k FROM t GROUP BY TUMBLE(ts, {HOUR}), HOP(ts, {FIVE}, {HOUR})",
            "one window",
            "HOP",
        ),
        (f"SELECT k FROM t GROUP BY CUBE (k), SESSION(ts, {HOUR})", "beside grouping sets", "k)"),
        (
            f"SELECT k FROM t GROUP BY GROUPING SETS ((TUMBLE(ts, {HOUR})))",
            "inside another",
            "TUMBLE",
        ),
        (
            f"SELECT k FROM t GROUP BY SESSION(ts, {HOUR}, TIME '10:00:00')",
            "with an alignment",
            "TIME '",
        ),
    ],
)
def test_a_call_that_fits_no_window_is_refused_at_its_place(sql: str, words: str, at: str) -> None:
    """With what it should be."""
    tree = attach(sqlglot.parse_one(sql, read=Flink), Source(file="a.sql", text=sql))
    with pytest.raises(InputError) as caught:
        translate_group_windows(tree)

    assert words in caught.value.message
    assert caught.value.hint
    assert caught.value.span is not None
    assert sql[caught.value.span.column - 1 :].startswith(at)


def test_a_function_stands_where_its_window_stood() -> None:
    """So that errors about its lengths point there, and not at the table."""
    sql = f"SELECT COUNT(*) FROM t GROUP BY HOP(ts, INTERVAL '7' MINUTE, {HOUR})"
    query = attach(sqlglot.parse_one(sql, read=Flink), Source(file="a.sql", text=sql))
    translate_group_windows(query)
    with pytest.raises(InputError) as caught:
        window_tables(query)

    assert caught.value.span is not None
    assert sql[caught.value.span.column - 1 :].startswith("HOP(")


def test_flink_to_spark_writes_them() -> None:
    """As it writes windowing functions; what is refused is an error of its own."""
    sql = f"SELECT TUMBLE_END(ts, {HOUR}) AS e FROM t GROUP BY TUMBLE(ts, {HOUR})"
    text = flink_to_spark(sql)
    with pytest.raises(SqlglotUnsupportedError, match="needs TUMBLE"):
        flink_to_spark(f"SELECT TUMBLE_END(ts, {HOUR}) FROM t")

    assert "window(`ts`, '3600000 milliseconds'" in text
    assert "TUMBLE" not in text
