"""Errors on their way through Spark, which writes them into its own log."""

from __future__ import annotations

import traceback

import pytest

from penstock.catalog import secret_mask
from penstock.catalog.errors import SinkError, decode_failure
from penstock.catalog.secret_mask import keep_secret
from penstock.connector.spark.failure import (
    SparkReadableError,
    readable_by_spark,
    spark_readable,
)

VALUE = "hunter2-" + "spark"  # a traceback has the lines of the source in it


@pytest.fixture(autouse=True)
def one_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has seen one."""
    monkeypatch.setattr(secret_mask, "_values", set())
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
