"""Carry Penstock's errors through Spark, which turns exceptions of Python processes into text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from penstock.catalog.errors import MARK_VARIABLE, PenstockError, encode_failure, failure_mark
from penstock.catalog.masking import mask_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


P = ParamSpec("P")
R = TypeVar("R")


class SparkReadableError(RuntimeError):
    """A Penstock error as text that `decode_failure` finds again inside Spark's message."""

    def __init__(self, error: PenstockError) -> None:
        super().__init__(f"{error.message} {encode_failure(error)}")


def share_failure_mark(spark: SparkSession) -> None:
    """Share with a session's Python processes the mark by which this process tells their errors from texts in records.

    PySpark gives the environment that is set here to every Python process that it starts for this session's functions
    and sources, on other machines too. To be called before the first of them is made.
    """
    environment: dict[str, str] = spark.sparkContext.environment
    environment[MARK_VARIABLE] = failure_mark()


@contextmanager
def readable_by_spark() -> Iterator[None]:
    """Make Penstock errors readable on the other side of Spark, and mask secrets in all: Spark writes its own logs."""
    try:
        yield
    except PenstockError as error:
        mask_error(error)
        raise SparkReadableError(error) from error
    except Exception as error:
        mask_error(error)
        raise


def spark_readable(method: Callable[P, R]) -> Callable[P, R]:
    """Do for a method what `readable_by_spark` does."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with readable_by_spark():
            return method(*args, **kwargs)

    return wrapped
