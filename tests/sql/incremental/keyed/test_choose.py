"""Which stages run in one task: the rows of a result are in the bucket where the next stage needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from penstock.sql.incremental.keyed.choose import AddedColumns, keyed_operator, task_steps
from penstock.sql.incremental.keyed.operator import KeyedOperator, RunBySpark
from penstock.sql.incremental.stages import Stage, StageInput
from tests.sql.maintain.maintaining import recomputed

INPUT = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("f", pa.float64()), ("n", pa.int32())])
A, B = (StageInput(name=name, key=("k",)) for name in "ab")
SUM = "SELECT k, SUM(v) AS v FROM j GROUP BY k"


def steps(
    *stages: tuple[Stage, Sequence[tuple[str, pa.DataType]]],
    computed: Mapping[str, AddedColumns] | None = None,
) -> list[list[str]]:
    """Return the names of the stages of each task, for stages with the columns of their results."""
    schemas = dict.fromkeys("abc", INPUT)
    schemas |= {stage.name: pa.schema(columns) for stage, columns in stages}
    operators: dict[str, KeyedOperator] = {}
    for stage, _ in stages:
        operator = keyed_operator(stage, schemas, 0)
        assert not isinstance(operator, RunBySpark), operator.reason
        operators[stage.name] = operator
    found = task_steps([stage for stage, _ in stages], operators, computed or {})
    return [[stage.name for stage in together] for together in found]


def joined(query: str, *inputs: StageInput, name: str = "j") -> Stage:
    """A join of two relations."""
    return recomputed(name, query, *(inputs or (A, B)), joins=True)


LONGS = [("k", pa.int64()), ("v", pa.int64())]
BY_KEY = (recomputed("g", SUM, StageInput(name="j", key=("k",)), key=("k",)), LONGS)


@pytest.mark.parametrize(
    ("query", "together"),
    [
        ("SELECT a.k AS k, b.v AS v FROM a JOIN b ON a.k = b.k", True),
        ("SELECT b.k AS k, b.v AS v FROM a JOIN b ON a.k = b.k", True),
        ("SELECT x.k AS k, y.v AS v FROM a AS x JOIN b AS y ON x.k = y.k", True),
        ("SELECT a.k AS k, b.v AS v FROM a LEFT JOIN b ON a.k = b.k", True),
        ("SELECT b.k AS k, b.v AS v FROM a RIGHT JOIN b ON a.k = b.k", True),
        # the key of a row without a match is NULL there, which is another bucket
        ("SELECT b.k AS k, b.v AS v FROM a LEFT JOIN b ON a.k = b.k", False),
        ("SELECT a.k AS k, b.v AS v FROM a RIGHT JOIN b ON a.k = b.k", False),
        ("SELECT a.k AS k, b.v AS v FROM a FULL JOIN b ON a.k = b.k", False),
        # of the same name, and not the key
        ("SELECT a.v AS k, b.v AS v FROM a JOIN b ON a.k = b.k", False),
        ("SELECT a.k + 1 AS k, b.v AS v FROM a JOIN b ON a.k = b.k", False),
        ("SELECT a.k AS v, b.v AS k FROM a JOIN b ON a.k = b.k", False),
    ],
)
def test_a_join_s_key_is_that_of_the_aggregation_behind_it(query: str, together: bool) -> None:
    """Whatever the columns are called."""
    found = steps((joined(query), LONGS), BY_KEY)

    assert found == ([["j", "g"]] if together else [["j"], ["g"]])


def test_joins_by_one_key_run_in_one_task() -> None:
    """Of three relations, as of more."""
    first = joined("SELECT a.k AS k, b.v AS v FROM a JOIN b ON a.k = b.k")
    inputs = (StageInput(name="j", key=("k",)), StageInput(name="c", key=("k",)))
    second = joined("SELECT j.k AS k, c.v AS v FROM j JOIN c ON j.k = c.k", *inputs, name="i")

    assert steps((first, LONGS), (second, LONGS)) == [["j", "i"]]


def test_the_order_of_a_key_s_columns_counts() -> None:
    """Buckets are hashes of the key's columns in their order."""
    keys = ("k", "v")
    first = recomputed(
        "g", "SELECT k, v FROM a GROUP BY k, v", StageInput(name="a", key=keys), key=keys
    )
    same, turned, part = (
        recomputed("h", "SELECT k, v FROM g GROUP BY k, v", StageInput(name="g", key=key), key=keys)
        for key in (keys, ("v", "k"), ("k",))
    )

    assert steps((first, LONGS), (same, LONGS)) == [["g", "h"]]
    assert steps((first, LONGS), (turned, LONGS)) == [["g"], ["h"]]
    assert steps((first, LONGS), (part, LONGS)) == [["g"], ["h"]]


def test_a_relation_that_two_stages_read_is_in_no_task_alone() -> None:
    """The result of a stage with two readers, an input of both stages: rows of a task come once."""
    first = joined("SELECT a.k AS k, b.v AS v FROM a JOIN b ON a.k = b.k")
    inputs = (StageInput(name="j", key=("k",)), B)
    again = joined("SELECT j.k AS k, b.v AS v FROM j JOIN b ON j.k = b.k", *inputs, name="i")
    both = (StageInput(name="g", key=("k",)), StageInput(name="j", key=("k",)))
    twice = joined("SELECT g.k AS k, j.v AS v FROM g JOIN j ON g.k = j.k", *both, name="i")

    assert steps((first, LONGS), (again, LONGS)) == [["j"], ["i"]]
    # i reads j, too
    assert steps((first, LONGS), BY_KEY, (twice, LONGS)) == [["j"], ["g"], ["i"]]


def test_numbers_of_floating_point_are_shuffled_again() -> None:
    """An operator may return another zero or NaN than it got, and another hash."""
    first = recomputed(
        "j", "SELECT f, MAX(v) AS v FROM a GROUP BY f", StageInput(name="a", key=("f",)), key=("f",)
    )
    second = recomputed(
        "g", "SELECT f, SUM(v) AS v FROM j GROUP BY f", StageInput(name="j", key=("f",)), key=("f",)
    )
    columns = [("f", pa.float64()), ("v", pa.int64())]

    assert steps((first, columns), (second, columns)) == [["j"], ["g"]]


def test_whole_numbers_of_any_length_are_one_key() -> None:
    """Keys are hashed as BIGINT."""
    first = recomputed(
        "j", "SELECT n, MAX(v) AS v FROM a GROUP BY n", StageInput(name="a", key=("n",)), key=("n",)
    )
    second = recomputed(
        "g", "SELECT n, SUM(v) AS v FROM j GROUP BY n", StageInput(name="j", key=("n",)), key=("n",)
    )
    columns = [("n", pa.int32()), ("v", pa.int64())]

    assert steps((first, columns), (second, columns)) == [["j", "g"]]


def test_what_spark_computes_between_two_stages_parts_them() -> None:
    """It adds columns to the rows of the result, outside of tasks."""
    join = joined("SELECT a.k AS k, b.v AS v FROM a JOIN b ON a.k = b.k")

    assert steps((join, LONGS), BY_KEY, computed={"g": {"j": ()}}) == [["j"], ["g"]]


def test_everything_depends_on_everything() -> None:
    """Without a key there is one bucket, which is not that of a key."""
    total = recomputed("t", "SELECT SUM(v) AS v FROM g", StageInput(name="g", key=()), key=())
    join = joined("SELECT a.k AS k, b.v AS v FROM a JOIN b ON a.k = b.k")

    assert steps((join, LONGS), BY_KEY, (total, [("v", pa.int64())])) == [["j", "g"], ["t"]]
