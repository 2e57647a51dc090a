"""Functions that are not deterministic, such as the clock."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

__all__ = ["find_nondeterministic", "find_random_functions"]

_NODES = (
    exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Localtime, exp.Localtimestamp,
    exp.Rand, exp.Uuid,
)  # fmt: skip
_NAMES = frozenset({
    "CURRENT_ROW_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "NOW", "PROCTIME", "RAND", "RAND_INTEGER",
    "UNIX_TIMESTAMP", "UUID",
})  # fmt: skip
_CHANCE_NAMES = frozenset({"RAND", "RAND_INTEGER", "UUID"})


def find_random_functions(query: exp.Expr) -> Iterator[exp.Expr]:
    """Find functions whose value differs by row and by evaluation; the time of a batch is kept with it."""
    yield from query.find_all(exp.Rand, exp.Randn, exp.Uuid)
    yield from (
        call for call in query.find_all(exp.Anonymous) if call.name.upper() in _CHANCE_NAMES
    )


def find_nondeterministic(query: exp.Expr) -> Iterator[exp.Expr]:
    """Find such functions in a query, and in those inside it."""
    yield from query.find_all(*_NODES)
    for call in query.find_all(exp.Anonymous):
        name = call.name.upper()
        # with an argument UNIX_TIMESTAMP reads that
        if name in _NAMES and not (name == "UNIX_TIMESTAMP" and call.expressions):
            yield call
