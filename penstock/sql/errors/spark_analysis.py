"""Spark's analysis errors in Penstock's words: what is wrong and where, without Spark's plans and class names."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException

from penstock.catalog.errors import InputError, UnsupportedError

_PLAN = re.compile(r";?\n'?[+A-Z:].*", re.DOTALL)
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: \w+")
_VIEW = re.compile(r"`?penstock_[0-9a-f]{8}_w?\d+(_late)?`?\.?")
# UnsupportedOperationChecker, where StreamingJoinHelper found no bound of the state
_OUTER_JOIN = re.compile(r"Stream-stream (Left|Right|Full)Outer join .* is not supported without")

# SparkStrategies.StreamingJoinStrategy
_UNEQUAL_JOIN = re.compile(r"Stream-stream join without equality predicate")


def as_input_error(error: AnalysisException) -> InputError:
    """Translate an analysis error of a generated query."""
    text = _STATE.sub("", _CLASS.sub("", _PLAN.sub("", error.getMessage() or str(error)))).strip()
    message = _VIEW.sub("", text)
    if _OUTER_JOIN.search(message):
        return UnsupportedError(
            "Spark cannot tell from its condition how long this outer join has to keep rows",
            hint="bound both times by an interval in days or less, ON a.id = b.id AND b.ts BETWEEN a.ts AND a.ts + "
            "INTERVAL '1' HOUR, with a WATERMARK on both; an INNER JOIN takes any condition",
        )
    if _UNEQUAL_JOIN.search(message):
        return UnsupportedError(
            "a join of streams without an equality between their columns is not supported",
            hint="join ON a.x = b.x, with the other conditions behind AND",
        )
    condition = error.getCondition() or ""
    if "STREAMING" in condition or "UNSUPPORTED" in condition:
        return UnsupportedError(f"Spark cannot run this query as a stream: {message}")
    return InputError(message)
