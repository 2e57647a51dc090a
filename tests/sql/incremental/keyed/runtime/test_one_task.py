"""Which queries and batches one task runs, and the columns whose hash tells the bucket of what it stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import types as s
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.sql.incremental.keyed.choose import choose_operators
from penstock.sql.incremental.keyed.files.manifest import (
    BucketFiles,
    BucketId,
    StateFile,
    StateManifest,
)
from penstock.sql.incremental.keyed.runtime.one_task import (
    MOST_STORED,
    MOST_STORED_BYTES,
    hashed_columns,
    is_small,
    plan_one_task,
)
from penstock.sql.incremental.keyed.runtime.plan import KeyedPlan
from penstock.sql.incremental.stages import (
    INGESTION_ORDER,
    Calc,
    IncrementalQuery,
    InputState,
    JoinTimes,
    Measure,
    OverAggregate,
    RowsState,
    SideTime,
    Stage,
    StageInput,
    StreamInput,
)
from penstock.sql.plan.rules.flow import OperatorKind, UpdatingOperator
from tests.sql.maintain.maintaining import maintained, parsed, recomputed

K, V = ("k", pa.int64()), ("v", pa.int64())
FEED = pa.schema([K, V, ("at", pa.timestamp("us", "UTC")), ("f", pa.float64()), ("t", pa.string())])
NAMES = " ".join(FEED.names)


def query_of(*stages: Stage, changes: ChangelogMode = ChangelogMode.ALL) -> IncrementalQuery:
    """A query over the feeds a and b, whose result is that of the last stage."""
    feeds = tuple(StreamInput(name=n, columns=tuple(FEED.names), changes=changes) for n in "ab")
    return maintained(feeds, *stages, columns="k v")


def plan_of(query: IncrementalQuery, results: Mapping[str, pa.Schema]) -> KeyedPlan:
    """The plan of a query whose stages have the columns `results`."""
    schemas = {"a": FEED, "b": FEED, **results}

    def added(name: str, columns: object) -> pa.Schema:
        return pa.schema([*schemas[name], *((one.name, pa.int64()) for one in columns)])  # type: ignore[attr-defined]

    chosen = choose_operators(query, schemas, 0, added)
    assert not chosen.by_spark
    spark: dict[str, s.StructType] = {n: from_arrow_schema(of) for n, of in schemas.items()}
    return KeyedPlan(
        steps=chosen.steps,
        operators=chosen.operators,
        schemas=spark,
        computed=chosen.computed,
        read=chosen.read,
    )


LONGS = pa.schema([K, V])
COUNTED = recomputed(
    "g", "SELECT k, COUNT(*) AS v FROM a GROUP BY k", StageInput(name="a", key=("k",)), key=("k",)
)


def over(name: str, read: str, **how: object) -> Stage:
    """A sum over the changes of a relation, by v."""
    one = StageInput(name=read, key=("v",), **how)  # type: ignore[arg-type]
    return recomputed(name, f"SELECT v AS k, SUM(k) AS v FROM {read} GROUP BY v", one, key=("k",))


def calc(text: str) -> Calc:
    """A Calc over the counts of COUNTED."""
    return Calc(name="c", inputs=("g",), query=parsed(text))


def test_values_of_a_key_are_in_the_bucket_of_the_key() -> None:
    """What COUNT(DISTINCT) stores is looked up by a longer key."""
    one = StageInput(name="a", key=("k",), keeps=InputState.ACCUMULATORS)
    stage = recomputed("g", "SELECT k, COUNT(DISTINCT v) AS v FROM a GROUP BY k", one, key=("k",))
    query = query_of(replace(stage, upserts=True), changes=ChangelogMode.INSERT_ONLY)
    plan = plan_of(query, {"g": pa.schema([K, V])})

    assert plan.layouts["g", "a_distinct_0"].key == ("k", "__value0")
    assert hashed_columns(plan) == {("g", "a"): ("k",), ("g", "a_distinct_0"): ("k",)}
    assert plan_one_task(query, plan) is not None


def test_a_task_runs_operators_of_different_keys_and_the_sql_between_them() -> None:
    """ROW_KIND is the last column of what a Calc gives."""
    between = calc(f"SELECT k + 1 AS k, v, {ROW_KIND} FROM g WHERE v > 1")
    query = query_of(COUNTED, between, over("h", "c"))
    found = plan_one_task(query, plan_of(query, {"g": LONGS, "c": LONGS, "h": LONGS}))

    assert found is not None
    assert [stage.name for stage in found.stages] == ["g", "c", "h"]
    assert found.calcs["c"].names == ("k", "v", ROW_KIND)
    assert found.hashed == {("g", "a"): ("k",), ("h", "c"): ("v",)}


def test_spark_computes_what_comes_before_the_first_operator() -> None:
    """Whatever it is."""
    first = Calc(
        name="c", inputs=("a",), query=parsed(f"SELECT LENGTH(HEX(t)) AS k, v, {ROW_KIND} FROM a")
    )
    query = query_of(first, over("h", "c"))
    plan = plan_of(query, {"c": LONGS, "h": LONGS})
    found = plan_one_task(query, plan)

    assert found is not None
    assert [stage.name for stage in found.stages] == ["h"]
    assert not found.calcs


@pytest.mark.parametrize(
    ("stages", "results"),
    [
        # an expression that DuckDB does not compute as Spark
        (
            (COUNTED, calc(f"SELECT k, LENGTH(HEX(v)) AS v, {ROW_KIND} FROM g"), over("h", "c")),
            {"g": LONGS, "c": LONGS, "h": LONGS},
        ),
        # numbers whose sums depend on their order, and whose zeros have a sign
        (
            (
                recomputed(
                    "g",
                    "SELECT k, MAX(f) AS v FROM a GROUP BY k",
                    StageInput(name="a", key=("k",)),
                    key=("k",),
                ),
                calc(f"SELECT k, CAST(v > 1 AS BIGINT) AS v, {ROW_KIND} FROM g"),
                over("h", "c"),
            ),
            {"g": pa.schema([K, ("v", pa.float64())]), "c": LONGS, "h": LONGS},
        ),
        # the rows of an operator, which count in their order
        (
            (COUNTED, over("h", "g", arrival="n")),
            {"g": LONGS, "h": LONGS},
        ),
        # rows that have numbers of their bucket
        (
            (
                OverAggregate(
                    name="o",
                    rows="a",
                    key=("k",),
                    time=None,
                    waits_for=(),
                    frame_state=RowsState(count=1),
                    query=parsed(f"SELECT k, v, {INGESTION_ORDER} FROM a"),
                    mechanism=UpdatingOperator(way=OperatorKind.AGGREGATE, key=(), state="rows"),
                ),
            ),
            {"o": LONGS},
        ),
        # a key whose hash Spark alone computes
        (
            (
                recomputed(
                    "g",
                    "SELECT f, COUNT(*) AS v FROM a GROUP BY f",
                    StageInput(name="a", key=("f",)),
                    key=("f",),
                ),
            ),
            {"g": pa.schema([("f", pa.float64()), V])},
        ),
        # an addend that Spark adds to what an operator gives
        (
            (
                COUNTED,
                recomputed(
                    "h",
                    "SELECT v AS k, m AS v FROM g",
                    StageInput(
                        name="g",
                        key=("v",),
                        measures=(
                            Measure(name="m", value=parsed("SELECT LENGTH(HEX(k))").expressions[0]),
                        ),
                    ),
                    key=("k",),
                ),
            ),
            {"g": LONGS, "h": LONGS},
        ),
    ],
    ids=["a function", "fractions", "an order", "numbers", "a key", "an addend"],
)
def test_tasks_by_bucket_run_what_one_task_cannot(
    stages: tuple[Stage, ...], results: Mapping[str, pa.Schema]
) -> None:
    """All stages of the query then."""
    query = query_of(*stages)

    assert plan_one_task(query, plan_of(query, results)) is None


def test_an_operator_in_the_task_of_another_has_the_buckets_of_its_key() -> None:
    """An aggregation by more columns, and by the same ones, behind a join within a time."""
    side = SideTime(ends="at", micros=0, rowtime="at")
    join = recomputed(
        "j",
        "SELECT a.v AS v, a.k AS k, b.v AS w FROM a JOIN b ON a.k = b.k",
        StageInput(name="a", key=("k",)),
        StageInput(name="b", key=("k",)),
        joins=True,
    )
    join = replace(join, times=JoinTimes(sides=(side, side), waits_for=()))
    group = recomputed(
        "g",
        "SELECT v, k, MAX(w) AS w FROM j GROUP BY v, k",
        StageInput(name="j", key=("v", "k")),
        key=("v", "k"),
    )
    joined = pa.schema([V, K, ("w", pa.int64())])
    query = query_of(join, group, changes=ChangelogMode.INSERT_ONLY)
    plan = plan_of(query, {"j": joined, "g": joined})

    assert [[stage.name for stage in step] for step in plan.steps] == [["j", "g"]]
    assert hashed_columns(plan) == {("j", "a"): ("k",), ("j", "b"): ("k",), ("g", "j"): ("k",)}


def test_a_batch_is_small_by_its_records_and_by_what_is_stored() -> None:
    """A number that is not known is none."""

    def state(rows: int, size: int = 1) -> StateManifest:
        file = StateFile(name="f", first=0, last=0, rows=rows, bytes=size)
        bucket = BucketId(stage="s", input="a", bucket=0)
        files = {bucket: BucketFiles(files=(file,))}
        return StateManifest(state_id="s", buckets=2, batch_id=0, files=files)

    assert is_small(100, 100, state(MOST_STORED))
    assert is_small(0, 100, StateManifest(state_id="s", buckets=2, batch_id=-1))
    assert not is_small(101, 100, state(0))
    assert not is_small(100, 100, state(MOST_STORED + 1))
    assert is_small(100, 100, state(1, MOST_STORED_BYTES))
    assert not is_small(100, 100, state(1, MOST_STORED_BYTES + 1))
    assert not is_small(None, 100, state(0))
    assert not is_small(0, 0, state(0))
