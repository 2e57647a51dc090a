"""The state of each keyed operator as a checkpoint has it goes on: today's code reads what an earlier one has written.

`saved/operators/<name>` is the folder `keyed` of a checkpoint behind the batches of GIVEN, by the version that added
it. `SAVE_STATES=1 pytest` of this file writes the folders that are not there. Add folders, change none: a query whose
state is another one from now on keeps its folder, and gets a second case.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.connector.spark.session import configured
from penstock.sql.incremental.keyed.files.manifest import read_manifest
from penstock.sql.settings import BUCKETS
from tests.sql.maintain.driven import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    Batch,
    Driven,
    Row,
    at,
    batch_answer,
    operators_of,
    planned,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAVED = Path(__file__).parent / "saved" / "operators"
GIVEN: tuple[Batch, ...] = (
    {
        "events": [(1, "r0", 1, 1), (2, "r1", 2, 2), (3, "r0", 3, 30), (4, None, 1, 31)],
        "cdc": [(1, "r0", 5, 1, INSERT), (2, "r1", 3, 2, INSERT), (3, "r0", 9, 30, INSERT)],
        "latest": [(1, "r0", 4, 1, AFTER), (2, "r1", 3, 2, AFTER), (4, "r2", 6, 30, AFTER)],
    },
    {
        "events": [
            (5, "r2", 2, 62), (6, "r0", 1, 63), (7, "r1", 3, 64), (8, "r0", 2, 90), (9, "r2", 1, 121),
        ],
        "cdc": [
            (1, "r0", 5, 1, BEFORE), (1, "r0", 6, 1, AFTER), (4, "r1", 8, 62, INSERT),
            (2, "r1", 3, 2, DELETE), (5, None, 1, 90, INSERT),
        ],
        "latest": [
            (1, "r0", 5, 62, AFTER), (4, "r2", 6, 63, DELETE), (3, "r0", 9, 64, AFTER),
            (2, "r2", 7, 90, AFTER),
        ],
    },
)  # fmt: skip
LATER: tuple[Batch, ...] = (
    {
        "events": [(10, "r1", 1, 122), (11, None, 3, 150)],
        "cdc": [
            (3, "r0", 9, 30, DELETE), (4, "r1", 8, 62, BEFORE), (4, "r2", 8, 62, AFTER),
            (6, "r1", 8, 122, INSERT),
        ],
        "latest": [(1, "r0", 5, 122, DELETE), (5, "r1", 2, 123, AFTER)],
    },
    {
        "events": [(12, "r0", 4, 181)],
        "cdc": [(1, "r0", 6, 1, DELETE), (5, None, 1, 90, DELETE)],
        "latest": [(3, "r0", 2, 181, AFTER), (2, "r1", 3, 182, AFTER)],
    },
)  # fmt: skip
UPTO = (35, 95, 130, 400)
"""The watermarks of these batches, in seconds."""


@dataclass(frozen=True, kw_only=True)
class SavedCase:
    """A query, the operators that its state is of, and its SQL for DuckDB where it is another.

    `{upto}` is there the time of the watermark; `at_end`: rows come behind the last batch alone.
    """

    sql: str
    operators: tuple[str, ...]
    answer: str = ""
    at_end: bool = False

    def rows(self, batches: int) -> Counter[Row]:
        """What the query means over the first batches."""
        if self.at_end and batches < len(UPTO):
            return Counter()
        sql = (self.answer or self.sql).replace("{upto}", str(at(UPTO[batches - 1])))
        return batch_answer(sql, (*GIVEN, *LATER)[:batches])


def over(calls: str, frame: str) -> SavedCase:
    """OVER aggregates, whose rows come with the watermark."""
    window = f"OVER (PARTITION BY k ORDER BY ts{frame})"
    listed = ", ".join(f"{call} {window}" for call in calls.split("; "))
    sql = f"SELECT id, {listed}, ts FROM events"
    own = "OverTotals" if not frame else "OverFrames"
    return SavedCase(
        sql=f"SELECT id, {listed} FROM events",
        operators=(own,),
        answer=f"SELECT * EXCLUDE (ts) FROM ({sql}) WHERE ts <= '{{upto}}'",
    )


def best(table: str, order: str, bound: int) -> str:
    """The first rows of each key by an order."""
    key = "k" if table == "events" else "region"
    number = f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {order}) AS n"
    return f"SELECT {key}, id FROM (SELECT *, {number} FROM {table}) WHERE n <= {bound}"


CASES = {
    "aggregate": SavedCase(
        sql="SELECT region, MIN(amount), MAX(amount), COUNT(DISTINCT amount), COUNT(*) FROM cdc GROUP BY region",
        operators=("RecomputeKeys",),
    ),
    "sums": SavedCase(
        sql="SELECT e.k, SUM(l.amount), COUNT(*) FROM events AS e JOIN latest AS l ON e.x = l.id GROUP BY e.k",
        operators=("NormalizeUpserts", "RecomputeKeys"),
    ),
    "accumulators": SavedCase(
        sql="SELECT k, COUNT(DISTINCT x), MIN(x), MAX(x), COUNT(*) FROM events GROUP BY k",
        operators=("AccumulateInserts",),
    ),
    "normalized_upserts": SavedCase(
        sql="SELECT region, SUM(amount), COUNT(*) FROM latest GROUP BY region",
        operators=("NormalizeUpserts", "RecomputeKeys"),
    ),
    "join_of_unique_keys": SavedCase(
        sql="SELECT c.id, c.region, l.amount FROM cdc AS c LEFT JOIN latest AS l ON c.id = l.id",
        operators=("NormalizeUpserts", "RecomputeKeys"),
    ),
    "join_of_one_unique_key": SavedCase(
        sql="SELECT e.id, l.region, l.amount FROM events AS e JOIN latest AS l ON e.x = l.id",
        operators=("NormalizeUpserts", "RecomputeKeys"),
    ),
    "join_without_unique_keys": SavedCase(
        sql="SELECT e.id, c.id FROM events AS e FULL JOIN cdc AS c ON e.k = c.region AND c.amount > e.x",
        operators=("RecomputeKeys",),
    ),
    "join_of_inserts": SavedCase(
        sql="SELECT a.id, b.id FROM events AS a JOIN events AS b ON a.k = b.k AND a.x < b.x",
        operators=("AppendJoin",),
    ),
    "top_n_of_inserts": SavedCase(
        sql=best("events", "x DESC, id", 2), operators=("RecomputeKeys",)
    ),
    "top_n_of_changes": SavedCase(
        sql=best("cdc", "amount DESC, id", 2), operators=("RecomputeKeys",)
    ),
    "first_row": SavedCase(sql=best("events", "ts", 1), operators=("BestRow",)),
    "except": SavedCase(
        sql="SELECT k, x FROM events EXCEPT SELECT region, id FROM cdc",
        operators=("RecomputeKeys",),
    ),
    "over_totals": over("SUM(x); MAX(x); COUNT(*)", ""),
    "over_rows": over("SUM(x); COUNT(*)", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
    "over_interval": over(
        "SUM(x); COUNT(*)", " RANGE BETWEEN INTERVAL '60' SECOND PRECEDING AND CURRENT ROW"
    ),
    "temporal_join": SavedCase(
        sql="SELECT e.id, l.amount FROM events AS e JOIN latest FOR SYSTEM_TIME AS OF e.ts AS l ON e.x = l.id",
        operators=("JoinVersions",),
        answer="SELECT e.id, v.amount FROM events AS e ASOF JOIN versions AS v ON e.x = v.id AND e.ts >= v.ts "
        "WHERE v.amount IS NOT NULL AND e.ts <= '{upto}'",
    ),
    "windows_of_changes": SavedCase(
        sql="SELECT region, window_end, COUNT(*), SUM(amount) FROM TABLE(TUMBLE(TABLE latest, DESCRIPTOR(ts), "
        "INTERVAL '1' HOUR)) GROUP BY region, window_start, window_end",
        operators=("NormalizeUpserts", "AggregateWindows"),
        answer="SELECT region, TIMESTAMP '2026-01-01 11:00:00', COUNT(*), SUM(amount)::BIGINT FROM latest "
        "GROUP BY region",
        at_end=True,
    ),
}


def opened(spark: SparkSession, name: str, folder: Path, batches: int) -> Driven:
    """Open the state in a folder behind some batches."""
    found = Driven(spark, folder, planned(CASES[name].sql), batches=batches)
    if batches:
        found.before, found.rows = UPTO[batches - 1], CASES[name].rows(batches)
    return found


def give(driven: Driven, name: str) -> None:
    """Run the next batch; the last one closes windows of an hour."""
    batch, upto = (*GIVEN, *LATER)[driven.batches], UPTO[driven.batches]
    if CASES[name].at_end:
        upto = 7200 if driven.batches == len(UPTO) - 1 else 0
    driven.give(upto=upto, **batch)


def save(spark: SparkSession, name: str, folder: Path) -> None:
    """Write the state behind the batches of GIVEN, in two buckets."""
    with configured(spark, {BUCKETS: "2"}):
        driven = opened(spark, name, folder, 0)
        for _ in GIVEN:
            give(driven, name)
    for crc in folder.rglob(".*.crc"):
        crc.unlink()


@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
def test_the_saved_state_of_an_operator_goes_on(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Each batch behind it makes the answer over all rows, those of before among them."""
    case, folder = CASES[name], tmp_path / "keyed"
    assert set(operators_of(planned(case.sql))) == set(case.operators)
    if os.environ.get("SAVE_STATES") and not (SAVED / name).exists():
        save(spark, name, SAVED / name)
    shutil.copytree(SAVED / name, folder)
    driven = opened(spark, name, folder, len(GIVEN))
    for n in range(len(LATER)):
        give(driven, name)

        assert driven.rows == case.rows(len(GIVEN) + n + 1)
    assert driven.rows


@pytest.mark.parametrize("name", CASES)
def test_what_is_saved_is_a_state(name: str) -> None:
    """Its last manifest names files that are there, of each operator some."""
    folder = SAVED / name
    manifest = folder / "manifests" / f"{len(GIVEN) - 1}.json"
    state = read_manifest(manifest.read_text(encoding="utf-8"), str(manifest))
    files = {(bucket.folder, file) for bucket, file in state.names}

    assert state.buckets == 2
    assert files
    assert all((folder / bucket / file).is_file() for bucket, file in files)
    assert {path.name for path in SAVED.iterdir()} == set(CASES)
