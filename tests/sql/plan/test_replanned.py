"""Checkpoints of plans that gave wrong rows: they are refused, and the refusal says which rows were wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.sql.checkpoint.fingerprint import QueryFingerprint, check_fits, ways_on
from penstock.sql.plan.query_location import insert_fingerprint
from penstock.sql.script.files import ScriptFile
from tests.sql.checkpointed import TABLES, Job

CHANGING = """
CREATE TABLE latest (id BIGINT, b STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 't',
  'properties.bootstrap.servers' = 'nowhere:1', 'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE timed (a BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 't',
  'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE k (id BIGINT, b STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'delta', 'path' = 'k');
"""
NUMBERED = "(SELECT id, b, ROW_NUMBER() OVER (PARTITION BY b ORDER BY id) AS n FROM latest)"
STAGE = "MAINTAINED ranks_0 KEEP normalize_0 BY (b) rows COMPUTE SELECT 1"
UNION = "SELECT id, b FROM latest UNION ALL SELECT a, b FROM src"


def fingerprint(folder: Path, query: str) -> QueryFingerprint:
    """What an INSERT of the query keeps."""
    text = f"{TABLES}{CHANGING}INSERT INTO k {query}"
    scripts = Job(project=folder, settings={}).scripts(ScriptFile(name="x.sql", text=text))
    (insert,) = scripts[0].statements[-1].inserts
    return insert_fingerprint(insert)


@pytest.mark.parametrize(
    ("query", "state", "wrong"),
    [
        (UNION, (), "by the key of one part"),
        (
            "SELECT x.a, 'b' FROM timed AS x FULL JOIN timed AS y ON x.a = y.a AND y.ts >= x.ts",
            ("JOIN timed AS y ON x.a = y.a AND y.ts >= x.ts",),
            "FULL JOIN whose interval ends one of its sides only",
        ),
        (
            f"SELECT x.id, y.b FROM {NUMBERED} AS x JOIN {NUMBERED} AS y ON x.b = y.b WHERE x.n <= 3 AND y.n = 1",
            (STAGE,),
            "bound of a Top-N was taken from another column",
        ),
        (
            f"SELECT x.id, y.b FROM latest AS x LEFT JOIN {NUMBERED} AS y ON x.b = y.b WHERE y.n = 1",
            (STAGE,),
            "no match in an outer join",
        ),
        (
            "SELECT x.id, y.b FROM latest AS x JOIN latest AS y ON x.b = y.b RIGHT JOIN latest AS z ON y.id = z.id "
            "WHERE x.id = y.id",
            (STAGE,),
            "equality of WHERE was forgotten",
        ),
    ],
)
def test_a_checkpoint_of_a_plan_with_wrong_rows_is_refused_with_them(
    tmp_path: Path, query: str, state: tuple[str, ...], wrong: str
) -> None:
    """What to do comes first: start over."""
    wanted = fingerprint(tmp_path, query)
    known = replace(wanted, state=state, replanned=())

    with pytest.raises(StateMismatchError) as caught:
        check_fits(known, wanted, "cp")

    assert "earlier versions gave wrong rows for this query" in caught.value.message
    assert wrong in caught.value.message
    assert ways_on(known, wanted)[0].startswith("start over")


@pytest.mark.parametrize(
    ("query", "state"),
    [
        (UNION, ("MAINTAINED rows_0 ROWS SELECT 1",)),
        ("SELECT id, b FROM latest", ("GROUP BY id",)),
        ("SELECT a, MAX(b) FROM src GROUP BY a", ("GROUP BY b",)),
    ],
)
def test_other_checkpoints_that_do_not_fit_are_of_a_changed_query(
    tmp_path: Path, query: str, state: tuple[str, ...]
) -> None:
    """A state that the wrong plan never had, and queries that had none."""
    wanted = fingerprint(tmp_path, query)
    known = replace(wanted, state=state, replanned=())

    with pytest.raises(StateMismatchError, match=r"^the query, or the plan that this version has"):
        check_fits(known, wanted, "cp")

    assert ways_on(known, wanted)[0].startswith("undo the change")


def test_a_checkpoint_does_not_hold_what_was_wrong(tmp_path: Path) -> None:
    """The next version may plan it otherwise again, for its own reasons."""
    wanted = fingerprint(tmp_path, UNION)

    assert wanted.replanned
    assert "replanned" not in wanted.to_text()
    assert "wrong" not in wanted.to_text()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, b FROM latest WHERE id < 10 UNION ALL SELECT id, b FROM latest WHERE id >= 10",
        "SELECT id, b FROM latest WHERE id IN (1, 2) UNION ALL SELECT id, b FROM latest WHERE id = 3",
    ],
)
def test_parts_of_a_union_with_other_keys_resume_as_they_were(tmp_path: Path, query: str) -> None:
    """That plan was right."""
    assert fingerprint(tmp_path, query).state == ()
