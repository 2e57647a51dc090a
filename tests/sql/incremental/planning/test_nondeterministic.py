"""Functions that give another value each time, over rows that are kept: refused, as no replay would give the same rows.

What is computed behind keyed operators follows from what they give: a batch that is run again gives what the sink has.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import UnsupportedError
from tests.sql.maintain.driven import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    Batch,
    Driven,
    operators_of,
    planned,
)
from tests.sql.plan.explained import operator_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIST = "SELECT region, ABS(MAX(amount) - 5){} FROM cdc GROUP BY region"
"""A list that no keyed operator computes, of which Spark makes a Calc behind one."""

OF_CHANCE = (
    "RAND()", "RAND(1)", "RAND_INTEGER(5)", "UUID()", "RANDN()", "RANDOM()", "RANDSTR(3)", "UNIFORM(1, 9)",
    "SHUFFLE(ARRAY[1, 2])", "MONOTONICALLY_INCREASING_ID()", "SPARK_PARTITION_ID()", "INPUT_FILE_NAME()",
    "AES_ENCRYPT(region, '0123456789abcdef')", "REFLECT('java.util.UUID', 'randomUUID')",
)  # fmt: skip
OF_THE_CLOCK = (
    "NOW()", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME", "LOCALTIMESTAMP", "CURDATE()",
    "UNIX_TIMESTAMP()", "PROCTIME()", "CURRENT_ROW_TIMESTAMP()",
)  # fmt: skip
REFUSED = "a function that gives another value each time is not supported over rows that are kept"


def test_lists_are_computed_behind_keyed_operators() -> None:
    """That is the form of what is refused below."""
    query = planned(LIST.format(""))

    assert query.lists_apart
    assert operators_of(query) == ["RecomputeKeys"]
    assert any("run by a keyed operator" in line for line in operator_lines(query))


@pytest.mark.parametrize("call", [*OF_CHANCE, *OF_THE_CLOCK])
def test_such_a_function_is_refused_in_a_list_behind_a_keyed_operator(call: str) -> None:
    """At its place, with what to write; EXPLAIN says the same, as there is no plan."""
    sql = LIST.format(f", {call} AS c")
    with pytest.raises(UnsupportedError, match=REFUSED) as refused:
        planned(sql)

    assert refused.value.span is not None
    # what has no brackets has the place of its query
    assert refused.value.span.column == (sql.index(call) + 1 if "(" in call else 8)
    assert "in the query that reads the table" in (refused.value.hint or "")


GROUPED = "(SELECT region, ABS(MAX(amount) - 5) AS n FROM cdc GROUP BY region)"
NUMBERED = "SELECT region{} FROM (SELECT *{}, ROW_NUMBER() OVER (PARTITION BY n ORDER BY {}) AS r FROM {}) WHERE r = 1"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT region, n + RAND_INTEGER(3) FROM {GROUPED}",
        f"SELECT region FROM {GROUPED} WHERE n > RANDOM()",
        LIST.format("") + " HAVING MAX(amount) > RAND()",
        f"SELECT a.region FROM {GROUPED} AS a JOIN cdc AS b ON a.n = b.id AND b.amount > RANDN()",
        f"SELECT DISTINCT n, UUID() FROM {GROUPED}",
        NUMBERED.format(", u", ", UUID() AS u", "region", GROUPED),
        NUMBERED.format("", "", "RAND()", GROUPED),
    ],
)
def test_such_a_function_is_refused_behind_every_operator(sql: str) -> None:
    """In each clause; as an order, too, by which other rows would be kept."""
    with pytest.raises(UnsupportedError, match=REFUSED):
        planned(sql)


@pytest.mark.parametrize("call", ["RAND_INTEGER(3)", "CAST(RANDOM() * 3 AS BIGINT)"])
def test_such_a_function_may_stand_where_the_table_is_read(call: str) -> None:
    """Spark computes it once for each row, in front of the operators."""
    query = planned(f"SELECT DISTINCT v FROM (SELECT k, x + {call} AS v FROM events) AS e")

    assert query.maintained is not None
    assert operators_of(query) == ["RecomputeKeys"]


# --- replays ---

BATCHES: tuple[Batch, ...] = (
    {"cdc": [(1, "r0", 5, 1, INSERT), (2, "r1", 3, 1, INSERT)]},
    {"cdc": [(1, "r0", 5, 1, BEFORE), (1, "r0", 9, 1, AFTER), (3, "r1", 1, 1, INSERT)]},
    {"cdc": [(2, "r1", 3, 1, DELETE), (4, "r2", 7, 1, INSERT)]},
)


def test_a_batch_that_is_run_again_gives_the_rows_that_the_sink_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In the same process as in another one; what is taken back is what came."""
    query = planned(LIST.format(", CONCAT(UPPER(region), '-')"))
    assert query.lists_apart
    driven = Driven(spark, tmp_path, query)
    for number, batch in enumerate(BATCHES):
        again = driven.changes(batch)
        other = Driven(spark, tmp_path, query, batches=number).changes(batch)
        # each row that goes is one that came: `give` asserts it
        given = driven.give(**batch)

        assert sorted(again) == sorted(other) == sorted(given) != []
    assert sorted(driven.rows) == [("r0", 4, "R0-"), ("r1", 4, "R1-"), ("r2", 2, "R2-")]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT region, spun(MAX(amount)) FROM cdc GROUP BY region",
        "SELECT s, COUNT(*) FROM (SELECT spun(MAX(amount)) AS s FROM cdc GROUP BY region) GROUP BY s",
        "SELECT region FROM cdc GROUP BY region HAVING spun(MAX(amount)) > 3",
    ],
)
@pytest.mark.parametrize("keyed", [True, False])
def test_a_users_function_that_is_declared_not_deterministic_is_refused(
    spark: SparkSession, tmp_path: Path, sql: str, *, keyed: bool
) -> None:
    """Only Spark knows that: at the start, whatever runs the stages; one that is not declared so runs."""
    from pyspark.sql import functions as F  # noqa: N812

    batch = BATCHES[0]
    spark.udf.register("spun", F.udf(lambda value: value, "bigint").asNondeterministic())
    with pytest.raises(UnsupportedError, match=r"spun\(.* is declared not deterministic"):
        Driven(spark, tmp_path / "one", planned(sql), keyed=keyed).changes(batch)
    spark.udf.register("spun", F.udf(lambda value: value, "bigint"))
    query = planned(sql)
    if keyed and not query.lists_apart:
        return  # Spark runs its stage
    assert Driven(spark, tmp_path / "other", query, keyed=keyed).changes(batch)
