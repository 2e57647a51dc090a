"""Lookup joins by key: the conditions by which a table is looked up, and the join as a function of these keys.

`s JOIN t ON s.a = t.id AND t.n > s.b` becomes `s CROSS JOIN LATERAL inline(filter(rows(s.a), r -> r.n > s.b)) AS t`:
Spark evaluates the function in the tasks that read the stream. A join without a key reads the table whole, as do
tables without key look-ups. Done on syntax trees, before any JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.connector.lookup.contract import LookupKey, LookupSource, MissRetry
from penstock.sql.dialect import to_text
from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.expressions.expression import known_type
from penstock.sql.plan.rules.lookup_join import is_lookup, retry_of
from penstock.sql.syntax.traversal import conjuncts

if TYPE_CHECKING:
    from penstock.connector.contract import Source
    from penstock.sql.plan.analysed import TableScan

ROW = "penstock_row"
"""The variable for a row of the table in the conditions that are no keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLookup:
    """The table is looked up by key: `values` are what `keys` are compared with, `rest` the other conditions."""

    source: LookupSource
    keys: tuple[LookupKey, ...]
    values: tuple[exp.Expr, ...]
    rest: tuple[exp.Expr, ...] = ()
    retry: MissRetry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FullScanLookup:
    """Each batch reads the whole table. `reason` is empty for a table without key look-ups."""

    reason: str = ""


LookupStrategy = KeyLookup | FullScanLookup


def lookups_in(query: exp.Expr) -> list[tuple[int, exp.Join]]:
    """Find the lookup joins of an analysed query, each with the index of the leaf that it looks into."""
    return [(join.this.scan, join) for join in query.find_all(exp.Join) if is_lookup(join)]


def check_lookups(query: exp.Expr, leaves: Sequence[TableScan], sources: Sequence[Source]) -> None:
    """Refuse hints that cannot take effect. Raises UnsupportedError."""
    for index, join in lookups_in(query):
        lookup_strategy(join, leaves[index], sources[index])


def lookup_strategy(join: exp.Join, leaf: TableScan, source: Source) -> LookupStrategy:
    """Decide how a lookup join reads the table of `leaf`.

    Raises UnsupportedError where it has to retry some keys, and the table is read whole.
    """
    way, again = _way_of(join, leaf, source), retry_of(join)
    match way:
        case KeyLookup() if again is not None:
            return replace(way, retry=again.retry)
        case FullScanLookup(reason=reason) if again is not None:
            why = f", as {reason}" if reason else ""
            raise UnsupportedError(
                f"'retry-predicate' of the hint LOOKUP asks again for keys without rows, and {leaf.table.identifier} "
                f"is not asked for keys: each batch reads it whole{why}",
                hint="leave out the options of retrying",
                span=again.span,
            )
    return way


def _way_of(join: exp.Join, leaf: TableScan, source: Source) -> LookupStrategy:
    lookups = source.lookup_source
    if lookups is None:
        return FullScanLookup()
    on, alias = join.args.get("on"), join.this.alias_or_name
    if on is None:
        return FullScanLookup(reason="the columns are compared with USING, and not with ON")
    if leaf.computed:
        return FullScanLookup(reason=f"{next(iter(leaf.computed))} is a computed column")
    if join.this.args["alias"].columns:
        return FullScanLookup(reason=f"{alias} has names of its own for the columns")
    for column in on.find_all(exp.Column):
        if not _relation(column) and column.name in leaf.table.schema.names:
            return FullScanLookup(reason=f"{column.name} stands without its table in ON")
    return _by_keys(conjuncts(on), alias, leaf.columns, lookups)


def write_lookup(join: exp.Join, way: KeyLookup, function: str) -> None:
    """Write a lookup join as calls of `function`, which returns the rows of keys; in place."""
    alias = join.this.alias_or_name
    rows: exp.Expr = exp.Anonymous(
        this=function, expressions=[value.copy() for value in way.values]
    )
    if way.rest:
        test = exp.and_(*(condition.copy() for condition in way.rest), copy=False)
        for column in test.find_all(exp.Column):
            if _relation(column) == alias:
                column.set("table", exp.to_identifier(ROW, quoted=True))
        variable = exp.to_identifier(ROW, quoted=True)
        rows = exp.ArrayFilter(this=rows, expression=exp.Lambda(this=test, expressions=[variable]))
    name = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    _drop_hint(join, alias)
    join.set("this", exp.Lateral(this=rows, outer=join.side.upper() == "LEFT", alias=name))
    join.set("on", None)
    join.set("side", None)
    join.set("kind", "CROSS")


def _by_keys(
    tests: Sequence[exp.Expr], alias: str, columns: Sequence[str], source: LookupSource
) -> LookupStrategy:
    found: dict[str, tuple[LookupKey, exp.Expr]] = {}
    rest: list[exp.Expr] = []
    reasons: list[str] = []
    for test in tests:
        match _compared(test, alias, columns):
            case (str(column), value) if column not in found:
                value_type = known_type(value)
                kind = None if value_type is None else source.key_type(column, value_type)
                if kind is not None:
                    found[column] = (LookupKey(column=column, type=kind), value)
                    continue
                what = "a value of unknown type" if value_type is None else f"a {value_type}"
                reasons.append(f"the database is not asked for {column} by {what}")
        rest.append(test)
    if not found:
        return FullScanLookup(reason=reasons[0] if reasons else "no column is compared by itself")
    if (inner := _not_in_a_filter(rest)) is not None:
        return FullScanLookup(reason=f"ON has {inner}")
    return KeyLookup(
        source=source,
        keys=tuple(key for key, _ in found.values()),
        values=tuple(value for _, value in found.values()),
        rest=tuple(rest),
    )


def _compared(test: exp.Expr, alias: str, columns: Sequence[str]) -> tuple[str, exp.Expr] | None:
    """Return the column of the table that a test compares for equality, and the other side's value."""
    equal = test.unnest()
    if not isinstance(equal, exp.EQ):
        return None
    for side, other in ((equal.this, equal.expression), (equal.expression, equal.this)):
        own = isinstance(side, exp.Column) and _relation(side) == alias and side.name in columns
        if own and other.find(exp.Query) is None:
            theirs = other.find_all(exp.Column)
            if all(_relation(column) != alias for column in theirs):
                return side.name, other
    return None


def _relation(column: exp.Column) -> str:
    """Return what stands in front of the first dot."""
    return column.parts[0].name if len(column.parts) > 1 else ""


def _not_in_a_filter(tests: Sequence[exp.Expr]) -> str | None:
    """Name what Spark does not evaluate in the filter of an array: queries, and functions of the user's in Python."""
    for test in tests:
        if test.find(exp.Query) is not None:
            return "a query"
        for call in test.find_all(exp.Anonymous):
            if call.name.upper() not in FUNCTIONS:
                return f"the function {to_text(call)}"
    return None


def _drop_hint(join: exp.Join, alias: str) -> None:
    """Remove BROADCAST(t) of a table that no longer exists."""
    hint = join.parent.args.get("hint") if join.parent is not None else None
    if hint is None:
        return
    calls = [
        call
        for call in hint.expressions
        if [argument.name for argument in call.expressions] != [alias]
    ]
    hint.set("expressions", calls)
    if not calls:
        hint.pop()
