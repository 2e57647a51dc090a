"""Tell what sqlglot's optimizer refuses from bugs of our own that come up while it runs.

sqlglot qualifies and types queries; on one that it does not follow it raises errors of its own, and whatever its code
runs into. It calls code of ours on its way (annotators of the dialect), whose bugs have the same types.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot.errors import SqlglotError

__all__ = ["OPTIMIZER_ERRORS", "is_refusal", "refusals_ignored"]

OPTIMIZER_ERRORS = (SqlglotError, KeyError, AttributeError, IndexError, TypeError, ValueError)
"""What sqlglot's optimizer raises on a query that it does not follow."""


def is_refusal(error: Exception) -> bool:
    """Return whether sqlglot raised an error: the innermost frame of either package is one of sqlglot's."""
    owner, trace = "", error.__traceback__
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        owner = package if package in {"sqlglot", "penstock"} else owner
        trace = trace.tb_next
    return owner == "sqlglot"


@contextmanager
def refusals_ignored() -> Iterator[None]:
    """Leave a block where sqlglot does not follow a query; errors of our own code go on."""
    try:
        yield
    except OPTIMIZER_ERRORS as error:
        if not is_refusal(error):
            raise
