"""Find what reading tasks compute of a query: the conditions that they check on a table's rows before Spark gets them,
and the values of a query that has nothing else.

Spark checks conditions again, so nothing else of the plan depends on it. A condition is taken where it stands over one
table that is read once, without anything in between but columns by whatever name; of several parts of it, those in
front, as Spark does not look at the others for a row that fails one of these. One behind an UNNEST is checked in front
of it where it is of no element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import assert_never

from sqlglot import exp

from penstock.catalog.model.table import ComputedColumn, Schema
from penstock.catalog.model.types import (
    ArrayType,
    BooleanType,
    IntType,
    LogicalType,
    MapType,
    RowType,
)
from penstock.connector.expression import (
    Expression,
    FieldValue,
    FunctionCall,
    UnnestedField,
    Unnesting,
    fields_of,
)
from penstock.sql.dialect.spark.writer import unnested_columns
from penstock.sql.expressions.expression import find_nondeterministic, parse_expression
from penstock.sql.expressions.fragments import compile_expression, field_of
from penstock.sql.expressions.value_types import hangs_on_zone, may_fail
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.plan import Plan, walk
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.traversal import conjuncts, find_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """What tasks compute of a query, over the columns that the source delivers.

    `condition` is what they check: `parts` of the query's conditions, as they are written there; `open`: Spark checks
    others. `columns` are those of the query, where it has no other operators than projections, conditions and UNNEST;
    the value of one is None where tasks do not compute it. They are of rows behind the `unnesting`, by the `calls` of
    the query, which tasks make where they write or group the rows.
    """

    condition: Expression | None
    parts: tuple[exp.Expr, ...]
    open: bool
    columns: tuple[tuple[str, Expression | None], ...] | None
    unnesting: Unnesting | None = None
    calls: tuple[exp.Expr, ...] = ()

    @property
    def filters_alone(self) -> bool:
        """Whether Spark neither checks other conditions nor has operators that give more or fewer rows."""
        return self.columns is not None and not self.open


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRows:
    """The rows of an operator that are rows of one table.

    `columns` are theirs in order, with what they are; None is known to Spark alone. `table` are those of the table.
    `pushed` are the parts of conditions that tasks check, `open`: Spark checks others before these rows come. They are
    rows of arrays where some are `unnested`, by the calls of UNNEST; the conditions `behind` hold for them, and
    `owners` are the relations of their columns in a FROM.
    """

    scan: int
    columns: tuple[tuple[str, Expression | None], ...]
    table: tuple[tuple[str, Expression | None], ...]
    pushed: tuple[tuple[exp.Expr, Expression], ...] = ()
    open: bool = False
    unnested: tuple[tuple[exp.Expr, UnnestedField], ...] = ()
    behind: tuple[Expression, ...] = ()
    owners: tuple[str, ...] = ()

    @property
    def unnesting(self) -> Unnesting | None:
        """How the rows come from those of the table; None where they are these."""
        if not self.unnested:
            return None
        fields = tuple(field for _, field in self.unnested)
        return Unnesting(fields=fields, condition=all_of(self.behind))

    def unnested_behind(self, rows: KnownRows) -> Unnesting | None:
        """Return how they come from other rows that they are made of; None where they are these."""
        fields = tuple(field for _, field in self.unnested[len(rows.unnested) :])
        return Unnesting(fields=fields) if fields else None


def find_fragments(plan: Plan, schemas: Sequence[Schema]) -> Mapping[int, Fragment]:
    """Return what tasks compute of tables that are read once, by the number of the table in `schemas`."""
    every = rows_of_operators(plan, schemas)
    once = read_once(plan)
    # what stands above has checked more
    found = {rows.scan: rows for rows in every.values()}
    top = every.get(id(plan.root))
    return {
        scan: Fragment(
            condition=all_of([condition for _, condition in rows.pushed]),
            parts=tuple(part for part, _ in rows.pushed),
            open=rows.open,
            columns=None if top is None else top.columns,
            unnesting=rows.unnesting,
            calls=tuple(call for call, _ in rows.unnested),
        )
        for scan, rows in found.items()
        if scan in once
    }


def condition_of_any(
    scan: int, schema: Schema, queries: Sequence[Sequence[exp.Expr]]
) -> Fragment | None:
    """Return what tasks check where several queries read the rows of one scan, each under conditions of its own.

    The conditions are over the columns of the table. A row that fails those of all queries is left out; None where a
    query may read any row.
    """
    names = RowNames(rows_of_table(scan, schema), ())
    found: dict[Expression, exp.Expr] = {}
    is_open = len(queries) > 1
    for conditions in queries:
        parts, rest = _first_parts(conditions, names)
        is_open |= rest
        checked = all_of([value for _, value in parts])
        if checked is None:
            return None
        found[checked] = exp.and_(*(part.copy() for part, _ in parts))
    condition = reduce(_or, found)
    return Fragment(
        condition=condition, parts=(exp.or_(*found.values()),), open=is_open, columns=None
    )


def rows_of_table(scan: int, schema: Schema) -> KnownRows:
    """Return the rows of a table as it is read."""
    columns = tuple(_columns(schema))
    return KnownRows(scan=scan, columns=columns, table=columns)


def _first_parts(
    conditions: Sequence[exp.Expr], names: RowNames
) -> tuple[Sequence[tuple[exp.Expr, Expression]], bool]:
    """Return the parts of conditions that tasks check, up to the first that Spark alone does; and if there is one."""
    found: list[tuple[exp.Expr, Expression]] = []
    for condition in conditions:
        parts, is_open = checked_parts(condition, names)
        found += parts
        if is_open:
            return found, True
    return found, False


def rows_of_operators(plan: Plan, schemas: Sequence[Schema]) -> Mapping[int, KnownRows]:
    """Return the rows of operators that are those of one table, by the identity of the operator, inputs first."""
    every: dict[int, KnownRows] = {}
    for node in walk(plan.root):
        rows = _rows(node, every, schemas)
        if rows is not None:
            every[id(node)] = rows
    return every


def read_once(plan: Plan) -> frozenset[int]:
    """Return the numbers of the tables that a query names once."""
    named = Counter(node.scan for node in find_nodes(plan.inlined, ScanTable))
    return frozenset(scan for scan, times in named.items() if times == 1)


def _and(left: Expression, right: Expression) -> Expression:
    return FunctionCall(function="and", arguments=(left, right), type=BooleanType())


def _or(left: Expression, right: Expression) -> Expression:
    return FunctionCall(function="or", arguments=(left, right), type=BooleanType())


def _rows(
    node: nodes.Node, every: Mapping[int, KnownRows], schemas: Sequence[Schema]
) -> KnownRows | None:
    match node:
        case nodes.Scan(index=index):
            return rows_of_table(index, schemas[index])
        case nodes.SubqueryAlias(input=below, names=names):
            rows = every.get(id(below))
            if rows is None or not names:
                return rows
            if len(names) != len(rows.columns):
                return None
            values = (value for _, value in rows.columns)
            return replace(rows, columns=tuple(zip(names, values, strict=True)))
        case nodes.Project(input=below, items=items, block=block):
            rows = every.get(id(below))
            if rows is None or any(_is_open(value) for _, value in items):
                return None
            known = RowNames(rows, block.relations)
            columns = tuple((name, known.value(value.unalias())) for name, value in items)
            return replace(rows, columns=columns, owners=())
        case nodes.Filter(input=below, condition=condition, clause=clause, block=block):
            rows = every.get(id(below))
            if rows is None or clause is not nodes.Clause.WHERE:
                return None
            return _filtered(rows, condition, RowNames(rows, block.relations))
        case nodes.Unnest(input=below):
            rows = every.get(id(below))
            return None if rows is None else with_unnested(rows, node)
        case (
            nodes.Values() | nodes.TableFunction() | nodes.Opaque() | nodes.Refused()
            | nodes.WindowAssign() | nodes.Aggregate() | nodes.Distinct() | nodes.TopN()
            | nodes.Over() | nodes.Limit() | nodes.Join() | nodes.LookupJoin() | nodes.TemporalJoin() | nodes.SetOp()
        ):  # fmt: skip
            return None
        case _:
            assert_never(node)


_UNNESTED = "__unnested_"


def with_unnested(rows: KnownRows, node: nodes.Unnest) -> KnownRows | None:
    """Return the rows of an UNNEST of an array or a map that is a column, or a field of one; None for any other."""
    below, call = node.input, node.call
    if isinstance(below, nodes.SubqueryAlias):
        rows = replace(rows, owners=(below.alias,) * len(rows.columns))
    if not isinstance(call, exp.Unnest) or not rows.owners or node.block is None:
        return None
    if len(call.expressions) != 1 or any(name.startswith(_UNNESTED) for name, _ in rows.table):
        return None
    value = RowNames(rows, node.block.relations).value(call.expressions[0])
    numbered = bool(call.args.get("offset"))
    written = unnested_columns(call, ordinality=numbered)
    if not isinstance(value, FieldValue) or written is None or len(written) != len(node.names):
        return None
    field = UnnestedField(
        field=value,
        name=f"{_UNNESTED}{len(rows.unnested)}",
        outer=node.outer,
        numbered=numbered,
    )
    values = _of_elements(field)
    if values is None or len(values) != len(node.names):
        return None
    return replace(
        rows,
        columns=(*rows.columns, *zip(node.names, values, strict=True)),
        unnested=(*rows.unnested, (call, field)),
        owners=(*rows.owners, *(node.alias for _ in values)),
    )


def _of_elements(unnested: UnnestedField) -> Sequence[Expression] | None:
    """Return the columns that an element becomes; None for a multiset, whose elements come as often as they count."""
    paths: list[tuple[tuple[str, ...], LogicalType]]
    match unnested.field.type:
        case ArrayType(element=RowType(fields=fields)):
            paths = [((unnested.name, field.name), field.type) for field in fields]
        case ArrayType(element=element):
            paths = [((unnested.name,), element)]
        case MapType(key=key, value=value):
            paths = [((unnested.key_column,), key), ((unnested.value_column,), value)]
        case _:
            return None
    if unnested.numbered:
        paths.append(((unnested.number_column,), IntType()))
    return [FieldValue(path=path, type=replace(kind, nullable=True)) for path, kind in paths]


def _columns(schema: Schema) -> Iterator[tuple[str, Expression | None]]:
    delivered = {
        column.name: FieldValue(path=(column.name,), type=column.type)
        for column in schema.columns
        if not isinstance(column, ComputedColumn)
    }
    for column in schema.columns:
        if isinstance(column, ComputedColumn):
            tree = parse_expression(column.expression)
            yield column.name, compile_expression(tree, lambda e: _path(delivered, e.parts))
        else:
            yield column.name, delivered[column.name]


def _is_open(value: exp.Expr) -> bool:
    """Return whether a value is not one of its row alone, or several columns."""
    many = isinstance(value, exp.Star) or value.find(exp.Star, exp.Query) is not None
    return many or any(True for _ in find_nondeterministic(value))


class RowNames:
    """What names in a SELECT are, whose FROM has these rows and these relations."""

    def __init__(self, rows: KnownRows, relations: Sequence[str]) -> None:
        """A name that several columns have is known to Spark alone."""
        self._counts = Counter(name for name, _ in rows.columns)
        self._known = {name: value for name, value in rows.columns if self._counts[name] == 1}
        self._relations = relations
        # by relation, where FROM has several
        self._owned: dict[str, dict[str, Expression | None]] = {}
        for (name, value), owner in zip(rows.columns, rows.owners, strict=bool(rows.owners)):
            self._owned.setdefault(owner, {})[name] = value

    def value(self, tree: exp.Expr) -> Expression | None:
        """Return an expression as tasks compute it; None where Spark alone does."""
        return compile_expression(tree, self._column)

    def _column(self, column: exp.Column) -> Expression | None:
        first, *rest = column.parts
        if rest and first.name in self._relations:
            # a name that may be both is for Spark to decide
            known = self._owned.get(first.name, {}) if self._owned else self._known
            return None if first.name in self._counts else _path(known, rest)
        return _path(self._known, column.parts)


def _path(known: Mapping[str, Expression | None], parts: Sequence[exp.Expr]) -> Expression | None:
    first, *rest = parts
    value = known.get(first.name)
    return None if value is None else field_of(value, [part.name for part in rest])


def _filtered(rows: KnownRows, condition: exp.Expr, names: RowNames) -> KnownRows:
    if rows.open:
        return rows
    parts, is_open = checked_parts(condition, names)
    behind = [value for _, value in parts if rows.unnested and _is_of_elements(value)]
    before = [(part, value) for part, value in parts if value not in behind]
    return replace(
        rows, pushed=(*rows.pushed, *before), behind=(*rows.behind, *behind), open=is_open
    )


def _is_of_elements(value: Expression) -> bool:
    """Return whether a value is one of the elements of an array."""
    return any(field.path[0].startswith(_UNNESTED) for field in fields_of(value))


def checked_parts(
    condition: exp.Expr, names: RowNames
) -> tuple[Sequence[tuple[exp.Expr, Expression]], bool]:
    """Return the parts of a condition that tasks check, and whether Spark checks others behind them."""
    checked: list[tuple[exp.Expr, Expression]] = []
    for part in conjuncts(condition):
        value = names.value(part)
        if value is None or not isinstance(value.type, BooleanType) or not is_sure(value):
            return checked, True
        checked.append((part, value))
    return checked, False


def is_sure(value: Expression) -> bool:
    """Return whether a value is no error for any row, and the same in each time zone."""
    return not may_fail(value) and not hangs_on_zone(value)


def all_of(conditions: Sequence[Expression]) -> Expression | None:
    """Return the condition that all of these hold; None for none."""
    return reduce(_and, conditions) if conditions else None
