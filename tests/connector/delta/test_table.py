"""Columns that are declared and not there yet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.catalog.errors import QueryFailedError, SinkError, StateMismatchError
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.delta.table import (
    _refused_row,
    check_numbered,
    missing_columns,
    stored_schema,
    translate_errors,
)
from tests.connector.delta.tables import delta_table, rows
from tests.connector.delta.test_connector import prepared

FOUND = stored_schema(delta_table(columns={"ID": "BIGINT", "day": "DATE"}))


def missing(
    columns: dict[str, str], clustering: tuple[str, ...] = (), key: tuple[str, ...] = ()
) -> StructType:
    table = delta_table(columns={"id": "BIGINT", **columns}, key=key)
    return missing_columns(DeltaTarget(table=table, location="/t", clustering=clustering), FOUND)


def test_what_is_there_in_any_case_is_not_missing() -> None:
    """Delta does not look at case."""
    assert missing({"DAY": "DATE"}).names == []
    assert missing({"note": "STRING", "n": "ROW<a INT>"}).names == ["note", "n"]


def test_a_column_that_rows_need_cannot_come_later() -> None:
    """Neither NOT NULL, nor of the key, nor what the table is laid out by."""
    with pytest.raises(StateMismatchError, match="note, which is NOT NULL"):
        missing({"note": "STRING NOT NULL"})
    with pytest.raises(StateMismatchError, match="note, which is NOT NULL"):
        missing({"note": "STRING"}, key=("note",))
    with pytest.raises(StateMismatchError, match="r, which is NOT NULL"):
        missing({"r": "ROW<a ROW<b INT NOT NULL>>"})
    with pytest.raises(StateMismatchError, match="note, which the table is laid out by"):
        missing({"note": "STRING"}, clustering=("note",))


def test_columns_are_added_and_types_are_not_changed(spark: SparkSession, tmp_path: Path) -> None:
    """The rows that are there have NULL for them; the second time nothing is left to do."""
    prepared(spark, delta_table(columns={"id": "BIGINT"}), tmp_path).write(spark.range(1))
    wider = {"id": "BIGINT", "note": "STRING", "r": "ROW<a INT, b ARRAY<STRING NOT NULL>>"}
    adding = {"sink.schema-evolution": "add-columns"}
    for _ in range(2):
        sink = prepared(spark, delta_table(columns=wider, options=adding), tmp_path)
    sink.write(
        spark.sql("SELECT 1L AS id, 'x' AS note, named_struct('a', 1, 'b', array('y')) AS r")
    )
    with pytest.raises(StateMismatchError, match="column note has type string"):
        prepared(spark, delta_table(columns=wider | {"note": "INT"}, options=adding), tmp_path)

    assert rows(spark, tmp_path / "orders") == [(0, None, None), (1, "x", (1, ["y"]))]


class Thrown:
    """An exception of Java's as py4j shows it; `condition` and `state` are None of one that is not Spark's."""

    def __init__(
        self,
        text: str,
        *,
        cause: Thrown | None = None,
        condition: str | None = None,
        state: str | None = None,
    ) -> None:
        self._text, self._cause, self._condition, self._state = text, cause, condition, state

    def toString(self) -> str:  # noqa: N802  Java's name, as those below
        return self._text

    def getCause(self) -> Thrown | None:  # noqa: N802
        return self._cause

    def getCondition(self) -> str:  # noqa: N802
        return self._of_spark(self._condition)

    def getSqlState(self) -> str:  # noqa: N802
        return self._of_spark(self._state)

    def _of_spark(self, value: str | None) -> str:
        if value is None:
            raise Py4JError("the method does not exist")
        return value


def failed_job(cause: Thrown) -> Thrown:
    """A job of Spark's quotes the text of what it failed of."""
    text = f"org.apache.spark.SparkException: Job aborted: {cause.toString()}"
    return Thrown(text, cause=cause, condition="", state="")


@pytest.mark.parametrize(
    ("explicit", "columns", "refused"),
    [
        (False, {"id": "BIGINT", "NUMBER": "BIGINT"}, True),
        (False, {"id": "BIGINT"}, False),
        (True, {"id": "BIGINT", "number": "BIGINT"}, False),
        (None, {"id": "BIGINT", "number": "BIGINT"}, False),
    ],
)
def test_only_written_columns_that_delta_always_numbers_are_refused(
    explicit: bool | None, columns: dict[str, str], refused: bool
) -> None:
    """One that takes numbers, and one that is left to Delta, are as others."""
    numbered = {"delta.identity.start": 1, "delta.identity.allowExplicitInsert": explicit}
    fields = [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {
            "name": "number",
            "type": "long",
            "nullable": True,
            "metadata": {} if explicit is None else numbered,
        },
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    target = DeltaTarget(table=delta_table(columns=columns), location="/t", clustering=())
    written = stored_schema(target.table)
    if not refused:
        check_numbered(target, schema, written)
        return
    with pytest.raises(StateMismatchError, match="number is GENERATED ALWAYS AS IDENTITY") as told:
        check_numbered(target, schema, written)

    assert told.value.hint == "leave number out of CREATE TABLE, which Delta then fills"


def test_what_an_exception_is_is_asked_of_it() -> None:
    """NOT NULL is Delta's condition, a row that cannot be computed a class of SQLSTATE; a text is neither."""
    null = Thrown(
        "d.InvariantViolation: [DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL violated for column: id. SQLSTATE: 23502",
        condition="DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        state="23502",
    )
    divided = Thrown(
        "o.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==",
        condition="DIVIDE_BY_ZERO",
        state="22012",
    )
    told = Thrown(f"java.io.IOException: {LOOKALIKE}")
    refused, failed = (_refused_row(failed_job(one), "t") for one in (null, divided))

    assert isinstance(refused, SinkError)
    assert refused.message.endswith("at t does not take a row: NOT NULL violated for column: id.")
    assert isinstance(failed, QueryFailedError)
    assert (failed.message, failed.permanent) == ("Division by zero.", True)
    assert _refused_row(failed_job(told), "t") is None


def test_a_chain_of_causes_that_is_a_circle_ends() -> None:
    """Java allows it."""
    first = Thrown("java.io.IOException: first")
    first._cause = Thrown("java.io.IOException: second", cause=first)

    assert _refused_row(first, "t") is None


LOOKALIKE = "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] No FileSystem for scheme: s3a SQLSTATE: 23502 in my own words"
"""A text of the user's that quotes what errors of Delta, Hadoop and Spark look like."""


def test_a_text_of_the_user_is_not_taken_for_an_error_of_delta(
    spark: SparkSession, tmp_path: Path
) -> None:
    """RAISE_ERROR fails the query for good, with its whole text, whatever that quotes."""
    table = delta_table(columns={"id": "BIGINT"})
    sink = prepared(spark, table, tmp_path)
    with pytest.raises(QueryFailedError) as caught, translate_errors("t"):
        sink.write(spark.range(4).selectExpr(f"IF(id = 2, raise_error('{LOOKALIKE}'), id) AS id"))

    assert caught.value.message == LOOKALIKE
    assert caught.value.permanent


def test_a_row_that_breaks_not_null_is_refused_by_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its error is known by what it is, wherever in the causes of the failed job it is."""
    sink = prepared(spark, delta_table(columns={"id": "BIGINT NOT NULL"}), tmp_path)
    message = r"at t does not take a row: NOT NULL .*column: id\.$"
    with pytest.raises(SinkError, match=message), translate_errors("t"):
        sink.write(spark.range(4).selectExpr("IF(id = 2, NULL, id) AS id"))
