"""Carries Penstock's errors through Spark, which turns exceptions of Python processes into text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from penstock.catalog.errors import PenstockError, encode_failure
from penstock.catalog.secret_mask import mask_error

__all__ = ["SparkReadableError", "readable_by_spark", "spark_readable"]

P = ParamSpec("P")
R = TypeVar("R")


class SparkReadableError(RuntimeError):
    """A Penstock error as text that `decode_failure` finds again inside Spark's message."""

    def __init__(self, error: PenstockError) -> None:
        super().__init__(f"{error.message} {encode_failure(error)}")


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
