"""Carries Penstock's errors through Spark, which turns exceptions of Python processes into text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from penstock.catalog.errors import PenstockError, encode_failure

__all__ = ["SparkReadableError", "spark_readable"]

P = ParamSpec("P")
R = TypeVar("R")


class SparkReadableError(RuntimeError):
    """A Penstock error as text that `decode_failure` finds again inside Spark's message."""

    def __init__(self, error: PenstockError) -> None:
        super().__init__(f"{error.message} {encode_failure(error)}")


def spark_readable(method: Callable[P, R]) -> Callable[P, R]:
    """Make the Penstock errors of a method readable on the other side of Spark."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except PenstockError as error:
            raise SparkReadableError(error) from error

    return wrapped
