"""The bound of a Top-N: the condition in the WHERE of its reader that says how many rows pass.

`rules/top_n.py` asks for it, where it finds a query that numbers rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.syntax.positions import attach, source_of
from penstock.sql.syntax.traversal import conjuncts


def read_bound(
    where: exp.Where | None, number_column: tuple[str, str], *, stays: bool
) -> tuple[int, exp.Where | None] | None:
    """Find `name = 1`, `name <= n`, `name BETWEEN 1 AND n` and the like in a WHERE.

    Returns the highest number, and the WHERE without the condition.
    `number_column` are the relation of the number, and its name. The WHERE keeps a bound that `stays`.
    """
    if where is None:
        return None
    parts = _parts(where)
    bounds = [found for found in _bounds(parts, number_column) if found[1].highest >= 1]
    if not bounds:
        return None
    part, numbers = min(bounds, key=lambda found: found[1].highest)
    limit, stays = numbers.highest, stays or not numbers.from_one
    rest = [p.copy() for p in parts if p is not part or stays]
    if not rest:
        return limit, None
    return limit, attach(exp.Where(this=exp.and_(*rest)), source_of(where))


def bound_of_no_row(where: exp.Where | None, number_column: tuple[str, str]) -> exp.Expr | None:
    """Find a condition that passes no row, as numbers begin at 1: `name <= 0`, `name < 1` and the like."""
    bounds = [] if where is None else _bounds(_parts(where), number_column)
    return next((part for part, numbers in bounds if numbers.highest < 1), None)


def _parts(where: exp.Where) -> list[exp.Expr]:
    """The conditions of a WHERE that all have to hold."""
    # one alone keeps its parentheses in the text that checkpoints compare
    parts = conjuncts(where, nested=False)
    return parts if len(parts) > 1 else [where.this]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    """The numbers that a condition passes: up to the `highest`; `from_one`: all of these."""

    highest: int
    from_one: bool


def _bounds(
    parts: list[exp.Expr], number_column: tuple[str, str]
) -> list[tuple[exp.Expr, _Numbers]]:
    return [
        (part, numbers)
        for part in parts
        if (numbers := _numbers(part.unnest(), number_column)) is not None
    ]


_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GTE: exp.LTE,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.LT: exp.GT,
}


def _numbers(test: exp.Expr, number_column: tuple[str, str]) -> _Numbers | None:
    """Return the numbers that a condition on the column `number_column` passes; None where it has no upper bound."""
    match test:
        case exp.EQ() | exp.LTE() | exp.LT() | exp.GTE() | exp.GT():
            return _compared(test, number_column)
        case exp.Between() if _is_number(test.this, number_column) and not test.args.get(
            "symmetric"
        ):
            low, high = _whole(test.args["low"]), _whole(test.args["high"])
            if low is None or high is None:
                return None
            return _Numbers(highest=high, from_one=low <= 1)
        case exp.In() if _is_number(test.this, number_column) and test.expressions:
            listed = {_whole(value) for value in test.expressions}
            known = {value for value in listed if value is not None}
            if len(known) < len(listed):
                return None
            return _Numbers(highest=max(known), from_one=set(range(1, max(known) + 1)) <= known)
        case _:
            return None


def _compared(test: exp.Expr, number_column: tuple[str, str]) -> _Numbers | None:
    left, right = test.this, test.expression
    kind: type[exp.Expr] = type(test)
    if _whole(left) is not None:
        left, right, kind = right, left, _TURNED.get(kind, kind)
    number = _whole(right) if _is_number(left, number_column) else None
    if number is None or kind not in (exp.EQ, exp.LTE, exp.LT):
        return None
    highest = number - 1 if kind is exp.LT else number
    return _Numbers(highest=highest, from_one=kind is not exp.EQ or highest == 1)


def _is_number(value: exp.Expr, number_column: tuple[str, str]) -> bool:
    alias, name = number_column
    return isinstance(value, exp.Column) and value.name == name and value.table in ("", alias)


def _whole(value: exp.Expr) -> int | None:
    number = value.this if isinstance(value, exp.Neg) else value
    if not isinstance(number, exp.Literal) or not number.is_int:
        return None
    return int(number.name) if number is value else -int(number.name)
