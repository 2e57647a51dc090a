"""Checkpoints of versions that planned a query otherwise: it goes on in the form whose state they hold."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from penstock.sql.checkpoint.choice import KnownCheckpoint, WantedQuery, choose_checkpoints
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.query_location import as_checkpointed, insert_fingerprint
from penstock.sql.script.files import ScriptFile
from tests.sql.checkpointed import TABLES, Job

KEYED = (
    "CREATE TABLE k (a BIGINT, b STRING, PRIMARY KEY (b) NOT ENFORCED) "
    "WITH ('connector' = 'delta', 'path' = 'k');\n"
)
NUMBERED = (
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY {order}) AS n FROM src) WHERE {bound}"
)
FIRST = f"INSERT INTO k SELECT a, b FROM {NUMBERED.format(order='a', bound='n = 1')}"
BEST = f"INSERT INTO k SELECT a, b FROM {NUMBERED.format(order='a DESC', bound='n <= 2 AND a > 1')}"
# penstock-query.json, as the version before wrote it for these two
OF_FIRST = """{"version": 1, "sources": ["default_catalog.default_database.src"],
 "sink": "default_catalog.default_database.k",
 "state": ["GROUP BY __key0 COMPUTE ARG_MIN(__row_of_key, __order) FROM (SELECT b AS __key0, NAMED_STRUCT('a', `src`.`a`, 'b', `src`.`b`) AS __row_of_key, STRUCT(a) AS __order FROM src AS `src`) AS __rows"]}"""
OF_FIRST_BY_ARRIVAL = OF_FIRST.replace(
    "STRUCT(a)", "STRUCT(a, __arrived.batch, __arrived.input, __arrived.split, __arrived.position)"
)
OF_BEST = """{"version": 1, "sources": ["default_catalog.default_database.src"],
 "sink": "default_catalog.default_database.k",
 "state": ["FEED feed_0 (a, b)",
  "MAINTAINED ranks_0 KEEP feed_0 BY (b) result COMPUTE SELECT `a` AS `a`, `b` AS `b` FROM (SELECT `a`, `b`, ROW_NUMBER() OVER (PARTITION BY `b` ORDER BY `a` DESC, `b`) AS `n` FROM feed_0) AS __numbered WHERE `n` <= 2"]}"""


def analysed(folder: Path, sql: str) -> AnalysedInsert:
    """Check a file with the INSERT."""
    scripts = Job(project=folder, settings={}).scripts(
        ScriptFile(name="x.sql", text=TABLES + KEYED + sql)
    )
    (insert,) = scripts[0].statements[-1].inserts
    return insert


@pytest.mark.parametrize(
    ("sql", "saved"), [(FIRST, OF_FIRST), (FIRST, OF_FIRST_BY_ARRIVAL), (BEST, OF_BEST)]
)
def test_a_checkpoint_of_an_earlier_version_goes_on_as_it_was(
    tmp_path: Path, sql: str, saved: str
) -> None:
    """Its state has no order of arrival, or is that of Spark's update mode."""
    insert, shape = analysed(tmp_path, sql), QueryFingerprint.from_value(json.loads(saved))

    assert insert_fingerprint(insert) != shape
    assert insert_fingerprint(as_checkpointed(insert, shape)) == shape


def test_other_checkpoints_are_gone_on_from_by_the_rule(tmp_path: Path) -> None:
    """New ones, those of this version, and those that do not fit at all, which are refused as ever."""
    insert = analysed(tmp_path, FIRST)
    other = replace(insert_fingerprint(insert), state=("other",))

    for known in (None, insert_fingerprint(insert), other):
        assert as_checkpointed(insert, known) is insert


WINDOWED = (
    "SELECT a, COUNT(*) AS n, window_start AS s, window_end AS e "
    "FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY a, window_start, window_end"
)
TIMED = (
    "CREATE TABLE timed (a BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', "
    "'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json', "
    "'scan.startup.mode' = 'earliest-offset');\n"
)
HIGHEST = f"SELECT MAX(n) AS m, CAST(s AS STRING) AS b FROM ({WINDOWED}) GROUP BY s, e"


def test_windows_under_other_names_go_on_being_updated(tmp_path: Path) -> None:
    """Where their checkpoint has the stage that updated them; a new one has their windows."""
    insert = analysed(tmp_path, f"{TIMED}INSERT INTO k {HIGHEST}")

    assert insert.query.maintained is None
    assert as_checkpointed(insert, None) is insert
    staged = [before for before in insert.earlier if before.maintained is not None]
    assert staged, "one for each key of the table, and one without"
    for before in staged:
        resumed = as_checkpointed(insert, insert_fingerprint(replace(insert, query=before)))
        assert resumed.query is before


def test_windows_that_no_version_wrote_into_a_table_have_one_form(tmp_path: Path) -> None:
    """It takes rows that stay, and they were updated. In one phase it was run."""
    appended = "CREATE TABLE l (a BIGINT, b STRING) WITH ('connector' = 'delta', 'path' = 'l');\n"

    insert = analysed(tmp_path, f"{TIMED}{appended}INSERT INTO l {HIGHEST}")

    assert insert.earlier == (insert.query.in_one_phase(),)


def test_windows_with_ties_open_go_on_in_both_earlier_forms(tmp_path: Path) -> None:
    """Top-N over them was updated, by ties broken and open."""
    best = (
        f"SELECT m, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY m) AS r FROM ({HIGHEST})) "
        "WHERE r = 1"
    )
    insert = analysed(tmp_path, f"{TIMED}INSERT INTO k {best}")
    forms = {insert_fingerprint(replace(insert, query=query)) for query in insert.earlier}

    assert insert_fingerprint(insert) not in forms
    assert len(forms) == len(insert.earlier) >= 1


BUSIEST = (
    f"SELECT x.a, CAST(x.s AS STRING) AS b FROM ({WINDOWED}) AS x JOIN (SELECT MAX(n) AS m, s, e FROM ({WINDOWED}) AS w "
    "GROUP BY s, e) AS y ON x.s = y.s AND x.e = y.e AND x.n >= y.m"
)


def test_windows_that_spark_kept_below_a_join_are_kept_by_it_still(tmp_path: Path) -> None:
    """Where their checkpoint has Spark's state of them, whether the join's was Spark's, too, or a stage's."""
    appended = "CREATE TABLE l (a BIGINT, b STRING) WITH ('connector' = 'delta', 'path' = 'l');\n"
    insert = analysed(tmp_path, f"{TIMED}{appended}INSERT INTO l {BUSIEST}")
    assert insert.query.aggregates_panes
    before = [query for query in insert.earlier if not query.aggregates_panes]

    assert {query.joins_in_time for query in before} == {True, False}
    for query in before:
        resumed = as_checkpointed(insert, insert_fingerprint(replace(insert, query=query)))
        assert insert_fingerprint(resumed) == insert_fingerprint(replace(insert, query=query))
        assert not resumed.query.aggregates_panes


def test_a_query_that_numbers_no_rows_has_one_form(tmp_path: Path) -> None:
    """Nor does one whose checkpoint says the same as ever."""
    summed = "INSERT INTO k SELECT CAST(SUM(DISTINCT CAST(a AS DOUBLE)) AS BIGINT), b FROM src GROUP BY b"

    assert analysed(tmp_path, summed).earlier == ()


OF_SETS = """{"version": 1, "sources": ["default_catalog.default_database.src"],
 "sink": "default_catalog.default_database.k",
 "state": ["GROUP BY b COMPUTE ARRAY_UNIQUE_AGG(a) FROM src AS `src`"]}"""


def test_distinct_values_that_spark_kept_as_sets_are_kept_by_it_still(tmp_path: Path) -> None:
    """Where its state store has them; a new checkpoint has accumulators."""
    insert = analysed(tmp_path, "INSERT INTO k SELECT COUNT(DISTINCT a), b FROM src GROUP BY b")
    shape = QueryFingerprint.from_value(json.loads(OF_SETS))
    resumed = as_checkpointed(insert, shape)

    assert insert.query.accumulates
    assert insert_fingerprint(insert) != shape
    assert insert_fingerprint(resumed) == shape
    assert resumed.query.maintained is None
    assert insert.earlier == (resumed.query,)


def test_distinct_values_whose_rows_are_kept_are_computed_of_these_still(tmp_path: Path) -> None:
    """With a time to live, where a checkpoint has the rows of each key; a new one has values that expire."""
    counted = "SELECT COUNT(DISTINCT a), b FROM src GROUP BY b HAVING COUNT(*) > 1"
    hinted = counted.replace("SELECT", "SELECT /*+ STATE_TTL('src' = '1 h') */", 1)
    insert = analysed(tmp_path, f"INSERT INTO k {hinted}")
    (before,) = insert.earlier
    resumed = as_checkpointed(insert, insert_fingerprint(replace(insert, query=before)))

    assert insert.query.accumulates
    assert "expiring accumulators" in insert_fingerprint(insert).state[-1]
    assert "KEEP feed_0 BY (b) rows" in insert_fingerprint(resumed).state[-1]
    assert resumed.query is before
    # without a time to live Spark kept them as sets, and did so with HAVING
    kept = analysed(tmp_path, f"INSERT INTO k {counted}")
    assert kept.query.accumulates
    assert [query.maintained for query in kept.earlier] == [None]


MAPS = (
    "CREATE TABLE maps (a BIGINT, m MAP<STRING, STRING>) WITH ('connector' = 'kafka', 'topic' = 't', "
    "'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');\n"
    "CREATE TABLE l (a BIGINT, m MAP<STRING, STRING>, b STRING) WITH ('connector' = 'delta', 'path' = 'l');\n"
)


def test_joins_that_stages_of_spark_ran_go_on_as_stages(tmp_path: Path) -> None:
    """Where their checkpoint has the rows of both sides; a new one has Spark's join."""
    joined = "INSERT INTO l SELECT x.a, x.m, y.b FROM maps AS x JOIN src AS y ON x.a = y.a"
    insert = analysed(tmp_path, MAPS + joined)
    assert insert.query.maintained is None
    assert as_checkpointed(insert, None) is insert
    (staged,) = [before for before in insert.earlier if before.maintained is not None]
    resumed = as_checkpointed(insert, insert_fingerprint(replace(insert, query=staged)))

    assert insert_fingerprint(insert) != insert_fingerprint(resumed)
    assert resumed.query is staged


ROUNDED = "INSERT INTO k SELECT ABS(MAX(n)) AS a, b FROM (SELECT COUNT(*) AS n, b FROM src GROUP BY b) GROUP BY b"


def test_lists_that_stages_computed_stay_in_them(tmp_path: Path) -> None:
    """Where a checkpoint has the state of such stages; a new one has that of keyed operators."""
    insert = analysed(tmp_path, ROUNDED)
    assert insert.query.lists_apart
    assert as_checkpointed(insert, None) is insert
    before = [query for query in insert.earlier if not query.lists_apart]
    assert before
    for query in before:
        resumed = as_checkpointed(insert, insert_fingerprint(replace(insert, query=query)))
        assert resumed.query is query
    again = insert_fingerprint(insert)
    assert as_checkpointed(insert, again) is insert
    assert again not in {insert_fingerprint(replace(insert, query=query)) for query in before}


def test_old_checkpoints_of_several_inserts_are_told_apart_by_their_earlier_shapes() -> None:
    """They hold neither name nor statement."""
    now = [QueryFingerprint(sources=("s",), sink="t", state=(f"now {n}",)) for n in (1, 2)]
    then = [QueryFingerprint(sources=("s",), sink="t", state=(f"then {n}",)) for n in (1, 2)]
    wanted = [
        WantedQuery(
            base="t", table="t", text=str(n), shape=shape, earlier_shapes=partial(tuple, [before])
        )
        for n, (shape, before) in enumerate(zip(now, then, strict=True))
    ]
    known = [
        KnownCheckpoint(location=folder, folder=folder, table="t", shape=before)
        for folder, before in zip(("t", "t-2"), then, strict=True)
    ]
    chosen = choose_checkpoints(wanted, known, pipeline="p")

    assert [one.known for one in chosen] == known


JOINED = (
    "SELECT COALESCE(x.n, y.n) AS a, 'all' AS b FROM (SELECT COUNT(*) AS n FROM src) AS x "
    "FULL JOIN (SELECT MAX(a) AS n FROM src) AS y ON x.n = y.n"
)


def test_a_full_join_goes_on_by_the_keys_of_both_sides(tmp_path: Path) -> None:
    """Its rows were written by that key; now all rows of a key of the target are kept."""
    insert = analysed(tmp_path, f"INSERT INTO k {JOINED}")
    (before,) = insert.earlier
    assert insert.query.maintained is not None
    assert before.maintained is not None
    last, earlier_last = insert.query.maintained.stages[-1], before.maintained.stages[-1]
    resumed = as_checkpointed(insert, insert_fingerprint(replace(insert, query=before)))

    assert last.name.startswith("ranks")
    assert earlier_last.name.startswith("rows")
    assert resumed.query is before
