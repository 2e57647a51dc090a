"""The state of keyed operators as a checkpoint has it: that of an earlier version is read and goes on.

`saved/version_1` is the folder `keyed` of a checkpoint after the batches of GIVEN, as the version wrote it that began the
format. Add folders for other formats, change none.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.changelog import RowKind
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.incremental.keyed.files.manifest import VERSION, newest_manifest, state_sizes
from penstock.sql.incremental.stages import InputState, Measure, StageInput
from tests.sql.maintain.maintaining import (
    ADDED,
    Change,
    Pipeline,
    computed,
    feeds,
    maintained,
    open_run,
    parsed,
    recomputed,
    tagged,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAVED = Path(__file__).parent / "saved" / "version_1"
INSERT, BEFORE, AFTER, DELETE = (int(kind) for kind in RowKind)

QUERY = maintained(
    feeds("a", "b"),
    # sums and counts of keys, rows of both sides of a join, rows of a Top-N
    recomputed(
        "g",
        "SELECT k, __m0 AS v, __n AS n FROM a",
        StageInput(name="a", key=("k",), measures=(Measure(name="__m0", value=parsed("SELECT v").selects[0]),)),
        key=("k",),
    ),
    recomputed(
        "j",
        "SELECT g.k AS k, g.v AS v, g.n AS n, b.v AS w FROM g LEFT JOIN b ON g.k = b.k",
        StageInput(name="g", key=("k",)),
        StageInput(name="b", key=("k",)),
        joins=True,
    ),
    recomputed(
        "t",
        "SELECT k, v, n, w FROM (SELECT k, v, n, w, ROW_NUMBER() OVER (PARTITION BY n ORDER BY v DESC, k, w) AS r "
        "FROM j) AS r WHERE r <= 2",
        StageInput(name="j", key=("n",), keeps=InputState.ROWS),
    ),
    columns="k v n w",
)  # fmt: skip
ANSWER = """
WITH g AS (SELECT k, coalesce(SUM(v), 0) AS v, COUNT(*) AS n FROM a GROUP BY k)
SELECT k, v, n, w FROM (
  SELECT g.k, g.v, g.n, b.v AS w,
    ROW_NUMBER() OVER (PARTITION BY g.n ORDER BY g.v DESC NULLS LAST, g.k NULLS FIRST, b.v NULLS FIRST) AS r
  FROM g LEFT JOIN b ON g.k = b.k) WHERE r <= 2
"""
GIVEN: tuple[dict[str, list[Change]], ...] = (
    {"a": [(1, 10, INSERT), (2, 20, INSERT), (None, 5, INSERT)], "b": [(1, 7, INSERT)]},
    {
        "a": [(1, 10, BEFORE), (1, 11, AFTER), (3, None, INSERT), (2, -3, INSERT)],
        "b": [(1, 7, INSERT), (None, 1, INSERT)],
    },
    {"a": [(None, 5, DELETE), (None, 6, INSERT)], "b": [(2, 8, INSERT)]},
)
LATER: tuple[dict[str, list[Change]], ...] = (
    {
        "a": [(2, 20, DELETE), (None, 1, INSERT), (4, 100, INSERT)],
        "b": [(1, 7, DELETE), (2, 8, BEFORE), (2, 9, AFTER)],
    },
    {"a": [(1, 11, DELETE), (3, None, DELETE)], "b": [(1, 7, DELETE)]},
)


def answer(*batches: dict[str, list[Change]]) -> Counter[tuple[object, ...]]:
    """What the rows of all batches give, by another engine."""
    tables = {name: Counter[tuple[object, ...]]() for name in "ab"}
    for batch in batches:
        for name, changes in batch.items():
            for *row, kind in changes:
                tables[name][tuple(row)] += 1 if kind in ADDED else -1
    return computed(ANSWER, tables)


def going_on(spark: SparkSession, folder: Path, batches: int) -> Pipeline:
    """Open the state in a folder behind some batches."""
    run = open_run(tagged(spark, QUERY, {}, 0), QUERY, f"file:{folder}", keyed=True)
    found = Pipeline(spark, QUERY, run)
    found.batches, found.rows = batches, answer(*GIVEN[:batches])
    return found


@pytest.mark.spark
def test_the_state_of_version_1_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Each batch behind it makes the answer over all rows, those of before among them."""
    shutil.copytree(SAVED, tmp_path / "keyed")
    pipeline = going_on(spark, tmp_path / "keyed", len(GIVEN))

    for number in range(len(LATER)):
        pipeline.give(**LATER[number])
        assert pipeline.rows == answer(*GIVEN, *LATER[: number + 1])
    assert {row[0] for row in pipeline.rows} == {None, 2, 4}


@pytest.mark.spark
def test_what_is_written_now_is_read_as_the_saved_one(spark: SparkSession, tmp_path: Path) -> None:
    """The same batches give as many rows of each state: the saved one is of this query."""
    pipeline = going_on(spark, tmp_path / "keyed", 0)
    for batch in GIVEN:
        pipeline.give(**batch)
    shutil.copytree(SAVED, tmp_path / "saved" / "keyed")
    saved, written = (
        newest_manifest(LocalFiles(location=str(of))) for of in (tmp_path / "saved", tmp_path)
    )

    assert saved is not None
    assert written is not None
    sizes = [
        [(of.stage, of.input, of.batch_id, of.rows) for of in state_sizes(manifest)]
        for manifest in (saved, written)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.spark
def test_the_state_of_a_newer_version_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """With what to do, and before anything is computed."""
    shutil.copytree(SAVED, tmp_path / "keyed")
    manifest = tmp_path / "keyed" / "manifests" / f"{len(GIVEN) - 1}.json"
    value = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**value, "version": VERSION + 1}))
    pipeline = going_on(spark, tmp_path / "keyed", len(GIVEN))

    with pytest.raises(StateMismatchError, match="newer version of Penstock") as refused:
        pipeline.give(**LATER[0])
    assert f"format {VERSION + 1}" in refused.value.message
    assert "run that version" in (refused.value.hint or "")
