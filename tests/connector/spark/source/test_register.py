"""Data sources of one name in several sessions of a process: each session has its own."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from penstock.connector.spark.source.data_source import register_data_source

NAME = "penstock_of_test_register"


def source_of(column: str) -> type[DataSource]:
    """A data source whose only column tells it from others of its name."""

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return f"{column} INT"

    return Numbers


def columns(session: SparkSession) -> list[str]:
    """The columns that the session reads."""
    return session.read.format(NAME).load().columns


def test_each_session_reads_by_the_source_that_it_registered(spark: SparkSession) -> None:
    """Whichever was active on the thread: files that share a process plan one after the other, on one thread."""
    one, two = spark.newSession(), spark.newSession()
    register_data_source(one, source_of("a"))
    assert columns(one) == ["a"]

    register_data_source(two, source_of("b"))
    assert columns(two) == ["b"]

    register_data_source(one, source_of("c"))
    assert columns(one) == ["c"]
