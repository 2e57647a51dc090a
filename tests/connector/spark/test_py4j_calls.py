"""How many calls of Java frames take: the driver makes thousands for a start, a third of a millisecond each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from py4j.java_gateway import GatewayClient
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as t

from penstock.connector.spark.internals import (
    empty_frame,
    knows_data_source,
    remember_members,
    select_sql,
    without_call_sites,
)
from penstock.connector.spark.source.data_source import ScanDataSource, register_data_source

FORGETS = "m\n"
"""How a command begins that frees an object of Java; Python sends it whenever it likes."""


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note the commands that are sent to Java."""
    sent, send = list[str](), GatewayClient.send_command

    def noted(client: GatewayClient, command: str, *rest: object, **named: object) -> object:
        if not command.startswith(FORGETS):
            sent.append(command)
        return send(client, command, *rest, **named)

    with monkeypatch.context() as patched:
        patched.setattr(GatewayClient, "send_command", noted)
        yield sent


def test_a_column_is_one_call_for_each_of_its_operators(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark asks for names and call sites besides: thirty calls."""
    remember_members(spark)
    with counted(monkeypatch) as sent, without_call_sites():
        F.col("a").cast("int").alias("b")

    assert len(sent) == 3


def test_users_columns_have_their_call_site_again(spark: SparkSession) -> None:
    """The error of a frame that a user makes names the line; also where blocks of several threads overlap."""
    rows = spark.range(1)
    with without_call_sites(), without_call_sites():
        pass
    with pytest.raises(AnalysisException) as found:
        rows.select(F.col("id") + F.array("id")).collect()

    assert "test_py4j_calls.py" in found.value.getQueryContext()[0].callSite()


def test_a_select_list_takes_as_many_calls_however_long_it_is(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes to Java as one text."""
    rows, long = spark.range(1), [f"id + {n} AS `c.{n}`" for n in range(50)]
    with counted(monkeypatch) as sent:
        select_sql(rows, long[:1])
        one = len(sent)
        frame = select_sql(rows, long)

    assert len(sent) == 2 * one
    assert frame.columns == [f"c.{n}" for n in range(50)]
    assert list(frame.collect()[0]) == list(range(50))


def test_items_may_hold_any_character(spark: SparkSession) -> None:
    """Also the one that is put between them."""
    (row,) = select_sql(spark.range(1), ["'a\x1fb' AS `x\x1fy`", "'c'"]).collect()

    assert list(row) == ["a\x1fb", "c"]
    assert row.asDict()["x\x1fy"] == "a\x1fb"


def test_an_empty_frame_has_its_columns(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PySpark's own, NOT NULL and nested ones too, in fewer calls."""
    schema = t.StructType(
        [
            t.StructField("a", t.LongType(), False),
            t.StructField("b.c", t.ArrayType(t.StringType(), False)),
            t.StructField("d", t.StructType([t.StructField("e", t.TimestampNTZType())])),
        ]
    )
    with counted(monkeypatch) as sent:
        frame = empty_frame(spark, schema)

    assert len(sent) <= 3
    assert frame.schema == spark.createDataFrame([], schema).schema == schema
    assert frame.collect() == []


def test_a_session_knows_the_data_sources_that_were_registered(spark: SparkSession) -> None:
    """Those of another session are not its."""
    other = spark.newSession()
    register_data_source(other, ScanDataSource)

    assert knows_data_source(other, ScanDataSource.name())
    assert not knows_data_source(spark.newSession(), ScanDataSource.name())
