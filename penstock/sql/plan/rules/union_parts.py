"""Whether the parts of a UNION ALL of upserts can have rows of one key: literals or conditions tell them apart.

Called for the flow of a UNION ALL in Spark, which replaces rows by the key of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

from sqlglot import exp

from penstock.sql.syntax.traversal import conjuncts


def union_parts(node: exp.SetOperation) -> list[exp.Expr]:
    """Return the queries of a chain of UNION ALL, without their brackets."""
    parts: list[exp.Expr] = [node]
    while isinstance(parts[0].unnest(), exp.SetOperation):
        chain = parts.pop(0).unnest()
        parts[:0] = [chain.this, chain.expression]
    return [part.unnest() for part in parts]


def telling_column(parts: Sequence[exp.Expr], names: Sequence[str]) -> str | None:
    """Return the first column that is another literal in each part; None where there is none."""
    lists = [part.expressions for part in parts]
    if any(len(items) != len(names) or any(i.is_star for i in items) for items in lists):
        return None
    for index, name in enumerate(names):
        literals = [items[index].unalias() for items in lists]
        if all(value.is_string for value in literals):
            # CHAR columns fill up with blanks
            values = {value.name.rstrip(" ") for value in literals}
        elif all(value.is_int for value in literals):
            values = {value.to_py() for value in literals}
        else:
            continue
        if len(values) == len(lists):
            return name
    return None


def have_other_keys(parts: Sequence[exp.Expr], names: Sequence[str], key: Sequence[str]) -> bool:
    """Return whether no row of a part has the key of a row of another, by what each WHERE says of columns of the key.

    A part whose WHERE names other columns deletes the keys of rows that do not pass it, which may be another's.
    """
    passed = [_passed(part, names, key) for part in parts]
    known = [one for one in passed if one is not None]
    if len(known) < len(parts):
        return False
    return all(
        any(_are_apart(a, b) for a, b in zip(one, two, strict=True))
        for one, two in combinations(known, 2)
    )


Bound = tuple[int, bool]
"""An end of a range, and whether it passes itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passed:
    """The values of a column that pass a WHERE: those `listed` (None: any), between `low` and `high`."""

    listed: frozenset[int | str] | None = None
    low: Bound | None = None
    high: Bound | None = None

    def both(self, other: _Passed) -> _Passed:
        """Return what passes two conditions, or more."""
        return _Passed(
            listed=self.listed if other.listed is None else other.listed,
            low=other.low or self.low,
            high=other.high or self.high,
        )


def _are_apart(one: _Passed, two: _Passed) -> bool:
    if one.listed is not None and two.listed is not None and not one.listed & two.listed:
        return True
    return _is_below(one, two) or _is_below(two, one)


def _is_below(one: _Passed, two: _Passed) -> bool:
    if one.high is None or two.low is None:
        return False
    (high, has_high), (low, has_low) = one.high, two.low
    return high < low or (high == low and not (has_high and has_low))


def _passed(part: exp.Expr, names: Sequence[str], key: Sequence[str]) -> list[_Passed] | None:
    """Return what passes a part, for each column of the key; None where it is more than a SELECT with such a WHERE."""
    if not isinstance(part, exp.Select) or any(part.args.get(clause) for clause in _MORE):
        return None
    items, where = part.expressions, part.args.get("where")
    if len(items) != len(names) or where is None or any(item.is_star for item in items):
        return None
    own = [items[names.index(name)].unalias() for name in key]
    known = {value.name for value in own if isinstance(value, exp.Column)}
    if len(known) < len(own) or any(c.name not in known for c in where.find_all(exp.Column)):
        return None
    tests = conjuncts(where, nested=False)
    return [
        reduce(_Passed.both, (_of_test(test.unnest(), value) for test in tests), _Passed())
        for value in own
    ]


_MORE = ("joins", "laterals", "group", "having", "distinct", "qualify")


def _of_test(test: exp.Expr, column: exp.Expr) -> _Passed:
    """Return the values of a column that pass a condition, as far as it compares it with literals."""
    if not isinstance(test.this, exp.Column) or test.this.name != column.name:
        return _Passed()
    match test:
        case exp.In(expressions=[_, *_] as values):
            listed = {_literal(value, column) for value in values}
            known = frozenset(value for value in listed if value is not None)
            if len(known) < len(listed):
                return _Passed()
            numbers = [value for value in known if isinstance(value, int)]
            whole = len(numbers) == len(known)
            return _Passed(
                listed=known,
                low=(min(numbers), True) if whole else None,
                high=(max(numbers), True) if whole else None,
            )
        case exp.EQ():
            value = _literal(test.expression, column)
            end = _bound(test.expression, closed=True)
            return _Passed(listed=None if value is None else frozenset({value}), low=end, high=end)
        case exp.Between() if not test.args.get("symmetric"):
            low, high = test.args["low"], test.args["high"]
            return _Passed(low=_bound(low, closed=True), high=_bound(high, closed=True))
        case exp.GTE() | exp.GT():
            return _Passed(low=_bound(test.expression, closed=isinstance(test, exp.GTE)))
        case exp.LTE() | exp.LT():
            return _Passed(high=_bound(test.expression, closed=isinstance(test, exp.LTE)))
        case _:
            return _Passed()


def _bound(value: exp.Expr, *, closed: bool) -> Bound | None:
    return (int(value.name), closed) if isinstance(value, exp.Literal) and value.is_int else None


def _literal(value: exp.Expr, column: exp.Expr) -> int | str | None:
    """Return the value of a literal; None for others, and for a text that is compared as another type."""
    if not isinstance(value, exp.Literal):
        return None
    if value.is_string:
        is_text = column.is_type(exp.DType.VARCHAR, exp.DType.TEXT)
        return value.name.rstrip(" ") if is_text else None
    return int(value.name) if value.is_int else None
