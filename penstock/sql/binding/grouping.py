"""Check where aggregates and OVER stand in a query, and that what stands beside aggregates has one value in a group.

The rules are those of Calcite's AggChecker and AggFinder, by which Flink refuses such queries when it validates them;
Spark does when it analyses them, after its start. What is not certain is left to Spark: columns below functions that
may be aggregates, those of a query around, expressions that may be another spelling of a grouping expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, InputError
from penstock.sql.binding.checked_query import CheckedQuery
from penstock.sql.dialect.flink.trees import to_text
from penstock.sql.dialect.functions.row import Family
from penstock.sql.dialect.functions.table import FUNCTIONS
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import all_nodes, find_nodes, from_items, star_qualifier

_OF_WINDOWS = (
    exp.CumeDist, exp.DenseRank, exp.Grouping, exp.GroupingId, exp.Lag, exp.Lead, exp.NthValue, exp.Ntile,
    exp.PercentRank, exp.Rank,
)  # fmt: skip
"""What sqlglot calls aggregates, too: functions of OVER, and of grouping sets."""

_AROUND = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
"""What may stand around the call of an aggregate."""

_SETS = (exp.Cube, exp.GroupingSets, exp.Paren, exp.Rollup, exp.Tuple)
"""What stands around the expressions of GROUP BY."""

_CLOSED = (exp.DataType, exp.Grouping, exp.GroupingId, exp.Lambda, exp.Query, exp.SubqueryPredicate)
"""What has columns of its own, or none; what GROUPING takes, `unfold_grouping_sets` says."""


def grouping_errors(query: exp.Expr, checking: CheckedQuery) -> Iterator[InputError]:
    """An error for each misplaced aggregate or OVER of a query, and for each column that a group has no value of."""
    kinds = (exp.AggFunc, exp.Group, exp.Having, exp.Window)
    if not find_nodes(query, *kinds):
        return
    for select in find_nodes(query, exp.Select):
        found = _Selected(select=select, checking=checking, alone=_stands_alone(select, query))
        misplaced = list(_misplaced(found))
        yield from misplaced
        if not misplaced:
            yield from _ungrouped(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selected:
    """A SELECT of a query; `alone`: it sees no column of a query around it."""

    select: exp.Select
    checking: CheckedQuery
    alone: bool

    def part(self, key: str) -> list[exp.Expr]:
        """Return the expressions of a clause."""
        clause = self.select.args.get(key)
        if clause is None:
            return []
        return list(clause.expressions) or ([clause.this] if clause.this else [])

    def is_own(self, column: exp.Column) -> bool:
        """Return whether a column is certainly one of FROM."""
        if self.alone:
            return True
        sources = from_items(self.select)
        if column.table:
            return column.parts[0].name in {source.alias_or_name for source in sources}
        known = (self.checking.by_table.get(id(source), {}) for source in sources)
        return any(column.name in columns for columns in known)


def _stands_alone(select: exp.Expr, root: exp.Expr) -> bool:
    """Return whether no query around a SELECT lends it columns: it is the query, or stands in FROM, WITH or UNION."""
    node = select
    while node is not root and node.parent is not None:
        above = node.parent
        lends = not isinstance(above, exp.CTE | exp.From | exp.Join | exp.Query | exp.With)
        if lends or (isinstance(above, exp.Join) and node is not above.this):
            return False
        if isinstance(above, exp.Select) and node.arg_key not in ("from_", "joins", "with_"):
            return False
        node = above
    return True


# --- aggregates and OVER, where they cannot stand ---


def _misplaced(found: _Selected) -> Iterator[InputError]:
    select = found.select
    for condition in found.part("where"):
        hint = "a condition on groups stands in HAVING, behind GROUP BY"
        yield from _refused_in(condition, "WHERE", hint, found)
    for join in select.args.get("joins") or ():
        if (on := join.args.get("on")) is not None:
            yield from _refused_in(
                on, "ON", "aggregate in a query in FROM, and join what that returns", found
            )
    hint = "aggregate in a query in FROM, and group what that returns"
    for key in _keys(select):
        yield from _refused_in(key, "GROUP BY", hint, found)
    for condition in found.part("having"):
        yield from (_misplaced_over(node, "HAVING") for node in _own(condition, exp.Window))
    for value in _values(found):
        for aggregate in _aggregates(value):
            yield from _nested(aggregate)


def _refused_in(tree: exp.Expr, clause: str, hint: str, found: _Selected) -> Iterator[InputError]:
    """An error for the aggregates and OVERs in a clause that sees single rows."""
    for window in _own(tree, exp.Window):
        yield _misplaced_over(window, clause)
    for aggregate in _aggregates(tree):
        columns = find_nodes(aggregate, exp.Column)
        if not found.alone and not any(found.is_own(column) for column in columns):
            continue  # it may be one of the query around, in whose HAVING this stands
        yield DefinitionError(
            f"{clause} cannot have the aggregate {to_text(aggregate)}: it is evaluated before rows are grouped",
            hint=hint,
            span=span_of(aggregate),
        )


def _misplaced_over(window: exp.Expr, clause: str) -> InputError:
    function = to_text(window.this)
    return DefinitionError(
        f"{clause} cannot have {function} OVER: it is evaluated before OVER",
        hint=f"name it in a query in FROM: {function} OVER (...) AS n, and compare n in the query around that",
        span=span_of(window),
    )


def _nested(aggregate: exp.Expr) -> Iterator[InputError]:
    """An error for the first aggregate or OVER inside an aggregate."""
    for child in _arguments(aggregate):
        window = next(iter(_own(child, exp.Window)), None)
        inner = window if window is not None else next(_aggregates(child), None)
        if inner is None:
            continue
        name, over = (to_text(inner.this), " OVER") if inner is window else (to_text(inner), "")
        yield DefinitionError(
            f"an aggregate cannot have {name}{over} inside it",
            hint=f"name it in a query in FROM: {name}{over and ' OVER (...)'} AS x, and aggregate x "
            "in the query around that",
            span=span_of(inner),
        )
        return


# --- columns that are not grouped ---


def _ungrouped(found: _Selected) -> Iterator[InputError]:
    select = found.select
    group, values = select.args.get("group"), _values(found)
    if group is not None and (group.args.get("all") or group.args.get("totals")):
        return
    aggregates = [call for value in values for call in _aggregates(value)]
    if group is None and not aggregates and select.args.get("having") is None:
        return
    keys = _Keys.of(select)
    seen: set[str] = set()
    for star in (item for item in select.expressions if star_qualifier(item) is not None):
        missing = _missing_of_star(found, keys)
        if missing:
            yield _star_error(star, missing)
            return
    for value in values:
        for column in _columns_outside(value, keys, found):
            text = to_text(column)
            if text not in seen:
                seen.add(text)
                yield _column_error(column, text, group)


def _column_error(column: exp.Column, text: str, group: exp.Expr | None) -> InputError:
    add = f"GROUP BY {text}" if group is None else f"add {text} to GROUP BY"
    name = ".".join(part.name for part in column.parts)
    return DefinitionError(
        f"the column '{name}' is neither grouped nor aggregated: a group has many values of it",
        hint=f"{add}, or take one value of each group: MAX({text})",
        span=span_of(column),
    )


def _star_error(star: exp.Expr, missing: list[str]) -> InputError:
    names = ", ".join(f"'{name}'" for name in missing)
    verb = "is" if len(missing) == 1 else "are"
    return DefinitionError(
        f"* has columns of which a group has many values: {names} {verb} neither grouped nor aggregated",
        hint="name the columns of GROUP BY, and aggregates of the others: MAX(x)",
        span=span_of(star),
    )


def _missing_of_star(found: _Selected, keys: _Keys) -> list[str]:
    """Return the columns of the only table in FROM that are not grouped; none where that is not certain."""
    sources = from_items(found.select)
    if len(sources) != 1 or not isinstance(sources[0], exp.Table):
        return []
    names = found.checking.by_table.get(id(sources[0]), {})
    return [name for name in names if not keys.has_column(exp.column(name))]


def _columns_outside(node: exp.Expr, keys: _Keys, found: _Selected) -> Iterator[exp.Column]:
    """The columns in an expression that stand outside of aggregates and of what is grouped."""
    if isinstance(node, _CLOSED) or _is_aggregate(node) or keys.has(node):
        return
    if isinstance(node, exp.Column):
        if not isinstance(node.this, exp.Star) and found.is_own(node):
            yield node
    elif not isinstance(node, exp.Anonymous) or _is_scalar(node):
        for child in _below(node):
            yield from _columns_outside(child, keys, found)


def _is_scalar(call: exp.Anonymous) -> bool:
    """Return whether a call is certainly of no aggregate."""
    row = FUNCTIONS.get(call.name.upper())
    return row is not None and not row.aggregate and row.family is not Family.GROUPING


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """What a SELECT is grouped by: columns and other expressions; `names` are its aliases, `windowed`: by a window."""

    columns: tuple[exp.Column, ...]
    computed: tuple[exp.Expr, ...]
    names: frozenset[str]
    windowed: bool

    @classmethod
    def of(cls, select: exp.Select) -> _Keys:
        """Return the expressions of GROUP BY, and those that an alias or a number there stands for."""
        named = {
            item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)
        }
        keys: list[exp.Expr] = []
        for key in _keys(select):
            keys.append(key)
            if isinstance(key, exp.Column) and key.name in named:
                keys.append(named[key.name].unnest())
            if isinstance(key, exp.Literal) and key.is_int:
                keys += [
                    item.unalias().unnest() for item in select.expressions[int(key.name) - 1 :][:1]
                ]
        columns = [key for key in keys if isinstance(key, exp.Column)]
        return cls(
            columns=tuple(columns),
            computed=tuple(
                key for key in keys if find_nodes(key, exp.Column) and key not in columns
            ),
            names=frozenset(named),
            windowed=any(column.name in WINDOW_COLUMNS for column in columns),
        )

    def has(self, node: exp.Expr) -> bool:
        """Return whether an expression has one value in a group, as far as it can be told by itself."""
        if isinstance(node, exp.Column):
            return self.has_column(node)
        return any(_may_equal(node, key) for key in self.computed)

    def has_column(self, column: exp.Column) -> bool:
        """Return whether a column is grouped, or a field of one that is; or an alias."""
        if not column.table and column.name in self.names:
            return True
        if self.windowed and column.name in WINDOW_COLUMNS:
            return True
        return any(_covers(key, column) for key in self.columns)


def _covers(key: exp.Column, column: exp.Column) -> bool:
    """Return whether a grouping column is another column, or the row that it is a field of; either may be qualified."""
    grouped, read = ([part.name for part in node.parts] for node in (key, column))
    if grouped[-1] == read[-1]:
        shared = min(len(grouped), len(read))
        return grouped[-shared:] == read[-shared:]
    return grouped[-1] in read[:-1]


def _may_equal(node: exp.Expr, key: exp.Expr) -> bool:
    """Return whether an expression may be one of GROUP BY, in other words too: YEAR(t) is EXTRACT(YEAR FROM t)."""
    value, key = node.unnest(), key.unnest()
    columns = {column.name for column in find_nodes(value, exp.Column)}
    if columns != {column.name for column in find_nodes(key, exp.Column)}:
        return False
    if isinstance(value, exp.Column):
        return False
    return type(value) is not type(key) or _parts(value) == _parts(key)


def _parts(tree: exp.Expr) -> Counter[tuple[type[exp.Expr], str]]:
    """Count the nodes of an expression, without parentheses and qualifiers: Spark takes a + b for b + a."""
    nodes = [node for node in all_nodes(tree) if not isinstance(node, exp.Paren | exp.Identifier)]
    named = (exp.Anonymous, exp.Column, exp.Literal, exp.Var)
    return Counter((type(node), node.name if isinstance(node, named) else "") for node in nodes)


# --- the expressions of a SELECT ---


def _keys(select: exp.Select) -> list[exp.Expr]:
    """The expressions of GROUP BY, those of its sets too."""
    group = select.args.get("group")
    pending = [] if group is None else _children(group)
    found: list[exp.Expr] = []
    for node in pending:  # grows while it is read
        if isinstance(node, _SETS):
            pending += _children(node)
        else:
            found.append(node)
    return found


def _values(found: _Selected) -> list[exp.Expr]:
    """The expressions that are evaluated over groups, where there are groups."""
    items = [item.unalias() for item in found.select.expressions]
    return [*items, *found.part("having"), *found.part("qualify"), *found.part("order")]


def _children(node: exp.Expr) -> list[exp.Expr]:
    return list(node.iter_expressions())


def _below(node: exp.Expr) -> Iterable[exp.Expr]:
    """What is evaluated below a node: of an OVER the arguments of its function, and not that."""
    if not isinstance(node, exp.Window):
        return _children(node)
    function = node.this
    return [*_arguments(function), *(child for child in _children(node) if child is not function)]


def _arguments(function: exp.Expr) -> list[exp.Expr]:
    """What stands in a call, and in FILTER and the like around it."""
    call = _call(function)
    found = _children(call)
    while function is not call:
        found += [child for child in _children(function) if child is not function.this]
        function = function.this
    return found


def _call(node: exp.Expr) -> exp.Expr:
    """Return the call of a function, without FILTER and the like around it."""
    while isinstance(node, _AROUND):
        node = node.this
    return node


def _is_aggregate(node: exp.Expr) -> bool:
    call = _call(node)
    return isinstance(call, exp.AggFunc) and not isinstance(call, _OF_WINDOWS)


def _aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregates of an expression, without those of queries inside it, and of OVER."""
    if isinstance(node, _CLOSED):
        return
    if _is_aggregate(node):
        yield node
        return
    for child in _below(node):
        yield from _aggregates(child)


def _own(tree: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The outermost nodes of a kind in an expression, without those of queries inside it."""
    if isinstance(tree, kind):
        yield tree
    elif not isinstance(tree, _CLOSED):
        for child in _children(tree):
            yield from _own(child, kind)
