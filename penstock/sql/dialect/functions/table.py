"""Flink's built-in functions as data: what each returns and how Spark says the same.

One row per function, in the module of its family; the parser takes names from here, the type inference results, the
writer forms. Where the engines differ (on no match, on bad input, on NULL) the form gives Flink's answer.
Functions with a syntax of their own (CAST, EXTRACT, TRIM, JSON_VALUE, ...) and those that are nodes of
sqlglot (COALESCE, AVG, ...) have no row: they are functions of the writer (`dialect/spark`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlglot import exp

from penstock.sql.dialect.functions import collections as functions_collection
from penstock.sql.dialect.functions import numbers, other, text, time
from penstock.sql.dialect.functions.row import FIRST, LAST, Family, FunctionRow
from penstock.sql.dialect.functions.time import MAX_MILLIS, MAX_SECONDS, MIN_MILLIS, MIN_SECONDS

__all__ = [
    "FIRST",
    "FUNCTIONS",
    "LAST",
    "MAX_MILLIS",
    "MAX_SECONDS",
    "MIN_MILLIS",
    "MIN_SECONDS",
    "Family",
    "FunctionRow",
    "result_argument",
]

FUNCTIONS: Mapping[str, FunctionRow] = MappingProxyType(
    {
        function.name: function
        for family in (
            numbers,
            text,
            time,
            functions_collection,
            other,
        )
        for function in family.ROWS
    }
)
"""Every function with a row, by its name in upper case."""


def result_argument(function: FunctionRow | None, arguments: Sequence[exp.Expr]) -> exp.Expr | None:
    """The argument whose type the result has; None where the result has a type of its own, or is not sure."""
    if function is None or not arguments or function.returns not in (FIRST, LAST):
        return None
    found = arguments[0] if function.returns == FIRST else arguments[-1]
    # a DATE and an hour are a TIMESTAMP
    hours = function.name == "TIMESTAMPADD" and arguments[0].name in ("HOUR", "MINUTE", "SECOND")
    return None if hours and found.is_type(exp.DType.DATE) else found
