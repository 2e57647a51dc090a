"""Grouping sets of GROUP BY as values: GROUPING SETS, ROLLUP and CUBE, multiplied out, and what GROUPING says of each.

Flink has the same of Calcite (SqlValidatorUtil.analyzeGroupItem); the values are those of its
DecomposeGroupingSetsRule. `rewrites/unfold_grouping_sets.py` writes them out for streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, Span, UnsupportedError
from penstock.sql.dialect.windows.grouped_input import is_same_column, relations_of
from penstock.sql.dialect.windows.window_tables import WindowKind, WindowTable
from penstock.sql.syntax.positions import span_of

SEVERAL_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)
"""The nodes in GROUP BY that stand for several sets of columns."""

GROUP_ID = "GROUP_ID"
CALLS = ("GROUPING_ID", GROUP_ID)

MOST_COLUMNS = 63
"""As many as GROUPING_ID has bits for (Flink: "group count must be less than 64")."""

MOST_SETS = 4096
"""Each row is counted once in every set: CUBE of 12 columns is as many, as in PostgreSQL."""

_Set = tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingSets:
    """What a GROUP BY groups by: `keys` are its expressions, each once; a set has the places of those that it keeps.

    The sets stand in the order in which the text says them; the same one may stand there twice. `relations` are the
    names in FROM, which a key may leave out.
    """

    keys: tuple[exp.Expr, ...]
    sets: tuple[frozenset[int], ...]
    relations: frozenset[str]

    def position(self, node: exp.Expr) -> int | None:
        """Return the index of the key that an expression is; None for any other."""
        positions = (n for n, key in enumerate(self.keys) if _is_same(key, node, self.relations))
        return next(positions, None)

    def is_everywhere(self, position: int) -> bool:
        """Return whether every set keeps a key."""
        return all(position in one_set for one_set in self.sets)

    def values(self, call: exp.Expr) -> tuple[int, ...]:
        """Return what GROUPING, GROUPING_ID or GROUP_ID says in each set.

        A bit for each argument, the first one the highest: 1 where the set leaves it out. GROUP_ID counts the sets
        before that keep the same. Raises DefinitionError for an argument that is no key.
        """
        if not isinstance(call, exp.Grouping) and call.name.upper() == GROUP_ID:
            return tuple(self.sets[:n].count(one_set) for n, one_set in enumerate(self.sets))
        positions = [self._argument(node, call) for node in call.expressions]
        return tuple(
            sum(
                2**bit
                for bit, position in enumerate(reversed(positions))
                if position not in one_set
            )
            for one_set in self.sets
        )

    def _argument(self, node: exp.Expr, call: exp.Expr) -> int:
        position = self.position(node)
        if position is None:
            # Calcite: "Argument to operator 'GROUPING' must be a grouped expression"
            name = "GROUPING" if isinstance(call, exp.Grouping) else call.name.upper()
            raise DefinitionError(
                f"{name} takes what is in GROUP BY",
                hint="name a column of GROUP BY, as it is written there",
                span=span_of(node) or span_of(call),
            )
        return position


def is_grouping_call(node: exp.Expr) -> bool:
    """Return whether a call is GROUPING, GROUPING_ID or GROUP_ID."""
    if isinstance(node, exp.Grouping):
        return True
    return isinstance(node, exp.Anonymous) and node.name.upper() in CALLS


def grouping_sets_of(select: exp.Select) -> GroupingSets:
    """Return the sets of a SELECT's GROUP BY; a plain one is one set. Raises UnsupportedError for too many."""
    group, relations = select.args["group"], relations_of(select)
    keys: list[exp.Expr] = []
    sets = []
    for one_set in _multiplied(group):
        positions = set()
        for node in one_set:
            found = (n for n, key in enumerate(keys) if _is_same(key, node, relations))
            position = next(found, len(keys))
            if position == len(keys):
                keys.append(node)
            positions.add(position)
        sets.append(frozenset(positions))
    if len(keys) > MOST_COLUMNS:
        raise _too_many(f"{len(keys)} columns", MOST_COLUMNS, span_of(group))
    return GroupingSets(keys=tuple(keys), sets=tuple(sets), relations=relations)


def session_error(window: WindowTable) -> UnsupportedError | None:
    """Return the error for a SESSION function whose rows are grouped by several sets; None for any other."""
    select = window.node.find_ancestor(exp.Select)
    group = None if select is None else select.args.get("group")
    wide = None if group is None else group.find(*SEVERAL_SETS)
    if window.kind is not WindowKind.SESSION or wide is None:
        return None
    return beside_sessions(span_of(wide) or window.span)


def beside_sessions(span: Span | None) -> UnsupportedError:
    """Return the error for sessions over several sets."""
    return UnsupportedError(
        "SESSION beside grouping sets is not supported: sessions are those of one set of columns",
        hint="write a query for each set of columns",
        span=span,
    )


def _multiplied(group: exp.Group) -> Sequence[_Set]:
    """Every set of an item with every set of the others (SQL:1999)."""
    items, count = [], 1
    for item in group.expressions:
        items.append(_sets_of(item))
        count *= len(items[-1])
        if count > MOST_SETS:
            raise _too_many(f"{count} sets", MOST_SETS, span_of(item) or span_of(group))
    return [tuple(node for one_set in chosen for node in one_set) for chosen in product(*items)]


def _sets_of(item: exp.Expr) -> list[_Set]:
    match item:
        case exp.Rollup(expressions=items):
            parts = [_columns(part) for part in items]
            return [_together(parts[:n]) for n in range(len(parts), -1, -1)]
        case exp.Cube(expressions=items):
            if 2 ** len(items) > MOST_SETS:
                raise _too_many(f"{2 ** len(items)} sets", MOST_SETS, span_of(item))
            return [_together(parts) for parts in _subsets([_columns(part) for part in items])]
        case exp.GroupingSets(expressions=items):
            return [one_set for inner in items for one_set in _sets_of(inner)]
        case _:
            return [_columns(item)]


def _subsets(parts: Sequence[_Set]) -> Iterator[list[_Set]]:
    """From all of them to none; the first one stays longest."""
    for chosen in product((True, False), repeat=len(parts)):
        yield [part for part, is_in in zip(parts, chosen, strict=True) if is_in]


def _columns(item: exp.Expr) -> _Set:
    """What stands together in parentheses; () is nothing."""
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    return (item.unnest(),)


def _together(parts: Sequence[_Set]) -> _Set:
    return tuple(node for part in parts for node in part)


def _is_same(key: exp.Expr, node: exp.Expr, relations: frozenset[str]) -> bool:
    if isinstance(key, exp.Column) and isinstance(node, exp.Column):
        return is_same_column(key, node, relations)
    return key == node


def _too_many(what: str, most: int, span: Span | None) -> UnsupportedError:
    return UnsupportedError(
        f"this GROUP BY has {what}, and {most} are supported",
        hint="name those that are needed: GROUPING SETS ((a, b), (a), ())",
        span=span,
    )
