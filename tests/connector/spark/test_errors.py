"""Errors on their way through Spark, which writes them into its own log."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from penstock.catalog import masking
from penstock.catalog.errors import MARK_VARIABLE, SinkError, decode_failure
from penstock.catalog.masking import keep_secret
from penstock.connector.spark.errors import (
    SparkReadableError,
    readable_by_spark,
    share_failure_mark,
    spark_readable,
)

VALUE = "hunter2-" + "spark"  # a traceback has the lines of the source in it


@pytest.fixture(autouse=True)
def one_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has seen one."""
    monkeypatch.setattr(masking, "_values", set())
    keep_secret(VALUE)


def report(error: BaseException) -> str:
    """What Spark takes of an error: the whole traceback."""
    return "".join(traceback.format_exception(error))


def test_our_errors_are_found_again_and_say_no_secret() -> None:
    """Nor does what led to them."""

    @spark_readable
    def write() -> None:
        try:
            raise ValueError(f"driver: {VALUE}")
        except ValueError as error:
            raise SinkError(f"refused {VALUE}", hint="change it") from error

    with pytest.raises(SparkReadableError) as caught:
        write()
    found = decode_failure(str(caught.value))
    assert isinstance(found, SinkError)
    assert (found.message, found.hint) == ("refused ******", "change it")
    assert VALUE not in report(caught.value)


def test_other_errors_keep_their_kind_and_lose_the_secret() -> None:
    """Their kind tells whether it helps to start again."""
    with pytest.raises(KeyError) as caught, readable_by_spark():
        raise KeyError(VALUE)

    assert VALUE not in report(caught.value)


def test_python_workers_of_a_given_session_mark_errors_as_this_process_does(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Java process was started by somebody else, whose environment has another mark."""
    monkeypatch.setenv(MARK_VARIABLE, "c" * 32)
    monkeypatch.setattr(spark.sparkContext, "environment", dict(spark.sparkContext.environment))

    def refuse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with readable_by_spark():
            for _ in batches:
                raise SinkError("refused [[penstock:{}]]", hint="change it")
            yield from ()

    share_failure_mark(spark)
    with pytest.raises(PythonException) as caught:
        spark.range(1).mapInArrow(refuse, "id BIGINT").collect()
    found = decode_failure(str(caught.value))

    assert isinstance(found, SinkError)
    assert (found.message, found.hint) == ("refused [[penstock:{}]]", "change it")
