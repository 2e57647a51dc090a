# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""Queries of stages for DuckDB: SELECT with joins, groups and ranks, set operations; columns go by position.

The set is closed, as that of `values.py`. Relations are tables with the columns c0, c1, ...; so is a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import types as at
from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.incremental.keyed.aggregates import (
    AGGREGATES,
    AggregateCall,
    frame_text,
    is_of_distinct,
    separator_text,
    sum_of_distinct,
    unknown,
    window_order,
)
from penstock.sql.incremental.keyed.tables import (
    UntranslatableError,
    cast_text,
    normalized,
    type_name,
)
from penstock.sql.incremental.keyed.values import SqlValue, translate, unified


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """A relation in DuckDB: the text that stands in FROM, and its columns c0, c1, ... by their names.

    `order`: columns by which sums of DOUBLE go through its rows; a row that agrees in all of them is the same.
    `arrival`: the column that numbers its rows, in whose order the peers of a window are; None: it has none.
    """

    sql: str
    columns: tuple[pa.Field, ...]
    order: str = ""
    arrival: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A query in DuckDB's SQL, whose columns are c0, c1, ... by their names; a type is None of NULLs alone."""

    sql: str
    columns: tuple[tuple[str, pa.DataType | None], ...]


def translate_query(query: exp.Query, tables: Mapping[str, TableColumns]) -> Statement:
    """Return a query of Flink's dialect over `tables` for DuckDB. Raises UntranslatableError."""
    match query:
        case exp.Subquery() if isinstance(query.this, exp.Query):
            return translate_query(query.this, tables)
        case exp.SetOperation():
            return _set_operation(query, tables)
        case exp.Select():
            return _Block(query, tables).statement()
        case _:
            raise UntranslatableError(f"the query {to_text(query)}")


def translate_over(value: exp.Expr, rows: TableColumns) -> SqlValue:
    """Return an expression over the columns of one relation. Raises UntranslatableError."""
    return translate(value, _FromClause({"": ("", rows)}).find)


# --- set operations ---

_SETS: dict[type[exp.Expr], str] = {
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
}
_AROUND_SETS = ("order", "limit", "offset", "with_", "with")


def _set_operation(node: exp.SetOperation, tables: Mapping[str, TableColumns]) -> Statement:
    if any(node.args.get(name) for name in _AROUND_SETS):
        raise UntranslatableError(f"the query {to_text(node)}")
    left, right = (translate_query(side, tables) for side in (node.left, node.right))
    pairs = list(zip(left.columns, right.columns, strict=True))
    if any(one[1] != two[1] or one[1] is None for one, two in pairs):
        raise UntranslatableError(
            f"{node.key.upper()} of columns of different types", "CAST both sides to one type"
        )
    word = _SETS[type(node)] + ("" if node.args.get("distinct") else " ALL")
    return Statement(sql=f"({left.sql}) {word} ({right.sql})", columns=left.columns)


# --- names ---


@dataclass(slots=True)
class _FromClause:
    """The relations of a FROM: by alias, the prefix of their columns, and they."""

    relations: dict[str, tuple[str, TableColumns]] = field(default_factory=dict)

    def all_of(self, star: exp.Expr) -> list[tuple[str, SqlValue]]:
        """Return the columns of `*`, or of `t.*`."""
        table = star.table if isinstance(star, exp.Column) else ""
        relations = [of for alias, of in self.relations.items() if table in ("", alias)]
        if not relations or any(
            value for name, value in star.args.items() if name in ("except_", "replace", "rename")
        ):
            raise UntranslatableError(to_text(star))
        return [
            (column.name, SqlValue(f"{prefix}c{index}", column.type))
            for prefix, rows in relations
            for index, column in enumerate(rows.columns)
        ]

    def find(self, node: exp.Column) -> SqlValue:
        if node.args.get("db") is not None or isinstance(node.this, exp.Star):
            raise UntranslatableError(f"the field {to_text(node)} of a row")
        found = [
            SqlValue(f"{prefix}c{index}", column.type)
            for alias, (prefix, rows) in self.relations.items()
            if node.table in ("", alias)
            for index, column in enumerate(rows.columns)
            if column.name == node.name
        ]
        if len(found) != 1:
            raise UntranslatableError(f"the column {to_text(node)}")
        return found[0]


# --- SELECT ---

_CLAUSES = {"expressions", "from", "from_", "joins", "where", "group", "having", "distinct", "kind"}
_JOINS = {
    ("", ""): "JOIN",
    ("", "INNER"): "JOIN",
    ("", "CROSS"): "CROSS JOIN",
    ("LEFT", ""): "LEFT JOIN",
    ("LEFT", "OUTER"): "LEFT JOIN",
    ("RIGHT", ""): "RIGHT JOIN",
    ("RIGHT", "OUTER"): "RIGHT JOIN",
    ("FULL", ""): "FULL JOIN",
    ("FULL", "OUTER"): "FULL JOIN",
    ("LEFT", "SEMI"): "SEMI JOIN",
    ("LEFT", "ANTI"): "ANTI JOIN",
}


class _Block:
    """One SELECT."""

    def __init__(self, select: exp.Select, tables: Mapping[str, TableColumns]) -> None:
        others = [n for n, v in select.args.items() if v and n not in _CLAUSES]
        distinct = select.args.get("distinct")
        if others or (distinct is not None and distinct.args.get("on")):
            raise UntranslatableError(f"the query {to_text(select)}")
        self._select = select
        self._tables = tables
        self._scope = _FromClause()
        self._order: list[str] = []
        self._arrivals: list[str | None] = []

    def statement(self) -> Statement:
        from_ = self._from()
        where, having = self._select.args.get("where"), self._select.args.get("having")
        group = self._select.args.get("group")
        keys = self._keys(group)
        columns = self._columns()
        shown = ", ".join(f"{value.sql} AS c{n}" for n, (_, value) in enumerate(columns)) or "1"
        word = "DISTINCT " if self._select.args.get("distinct") else ""
        parts = [f"SELECT {word}{shown} FROM {from_}"]
        if where is not None:
            parts.append(f"WHERE {self._condition(where.this)}")
        if keys:
            parts.append(f"GROUP BY {', '.join(keys)}")
        if having is not None:
            parts.append(f"HAVING {self._condition(having.this)}")
        return Statement(
            sql=" ".join(parts), columns=tuple((name, value.type) for name, value in columns)
        )

    def _columns(self) -> list[tuple[str, SqlValue]]:
        """Return the columns of the result, those of a star one by one."""
        found: list[tuple[str, SqlValue]] = []
        for item in self._select.expressions:
            starred = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
            if isinstance(item, exp.Star) or starred:
                found += self._scope.all_of(item)
            else:
                found.append((item.alias_or_name, self._value(item.unalias())))
        return found

    def _keys(self, group: exp.Group | None) -> list[str]:
        if group is None:
            return []
        if any(v for n, v in group.args.items() if n != "expressions"):
            raise UntranslatableError(to_text(group))
        return [self._plain(key).sql for key in group.expressions]

    # --- FROM ---

    def _from(self) -> str:
        from_ = self._select.args.get("from_") or self._select.args.get("from")
        if from_ is None:
            raise UntranslatableError(f"the query {to_text(self._select)}")
        text = self._relation(from_.this)
        for join in self._select.args.get("joins") or ():
            text += self._join(join)
        return text

    def _relation(self, node: exp.Expr) -> str:
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise UntranslatableError(f"names of columns in {to_text(node)}")
        name = f"t{len(self._scope.relations)}"
        if isinstance(node, exp.Table) and node.name in self._tables and not node.db:
            rows = self._tables[node.name]
        elif isinstance(node, exp.Subquery):
            rows = _computed_rows(translate_query(node.this, self._tables))
        else:
            raise UntranslatableError(f"the relation {to_text(node)}")
        known = node.alias_or_name
        if known in self._scope.relations:
            raise UntranslatableError(f"the relation {to_text(node)}")
        self._scope.relations[known] = (f"{name}.", rows)
        self._order.append(rows.order.format(name) if rows.order else "")
        self._arrivals.append(None if rows.arrival is None else f"{name}.{rows.arrival}")
        return f"{rows.sql} AS {name}"

    def _join(self, join: exp.Join) -> str:
        side, kind = (join.text("side").upper(), join.text("kind").upper())
        word = _JOINS.get((side, kind))
        if word is None or join.args.get("using") or join.args.get("method"):
            raise UntranslatableError(f"the join {to_text(join)}")
        text = f" {word} {self._relation(join.this)}"
        on = join.args.get("on")
        if on is None and word == "JOIN":
            return text.replace(" JOIN ", " CROSS JOIN ", 1)
        return text if on is None else f"{text} ON {self._condition(on)}"

    # --- expressions ---

    def _plain(self, node: exp.Expr) -> SqlValue:
        return translate(node, self._scope.find)

    def _condition(self, node: exp.Expr) -> str:
        value = self._value(node)
        if value.type is not None and not at.is_boolean(value.type):
            raise UntranslatableError(f"the condition {to_text(node)}")
        return value.sql

    def _value(self, node: exp.Expr) -> SqlValue:
        """An expression that may have aggregates and ranks: these are written first, as columns of their own."""
        calls: dict[str, SqlValue] = {}

        def named(inner: exp.Expr) -> exp.Expr:
            calls_one = isinstance(inner, exp.Window | exp.Filter | exp.WithinGroup | exp.AggFunc)
            if calls_one or is_of_distinct(inner):
                name = f"__call{len(calls)}"
                calls[name] = self._call(inner)
                column = exp.column(name, quoted=True)
                column.type = inner.type
                return column
            return inner

        tree = node.transform(named)

        def find(column: exp.Column) -> SqlValue:
            return calls[column.name] if column.name in calls else self._scope.find(column)

        return translate(tree, find)

    def _call(self, node: exp.Expr) -> SqlValue:
        if isinstance(node, exp.Anonymous):
            return self._distinct_over(node)
        if isinstance(node, exp.Window):
            return self._rank(node) if type(node.this) in _RANKS else self._over(node)
        condition = ""
        if isinstance(node, exp.Filter):
            condition = f" FILTER (WHERE {self._truth(node.expression.this)})"
            node = node.this
        if isinstance(node, exp.WithinGroup):
            return self._listed(node, condition)
        distinct = isinstance(node.this, exp.Distinct)
        arguments = node.this.expressions if distinct else [node.this] if node.this else []
        if node.expressions and not isinstance(node, exp.Count):
            raise unknown(node)
        if isinstance(node, exp.Count):
            return self._count(node, arguments, condition, distinct=distinct)
        write = AGGREGATES.get(type(node))
        if write is None or len(arguments) != 1:
            raise unknown(node)
        value = self._plain(arguments[0])
        if value.type is None:
            raise unknown(node)
        call = AggregateCall(
            node=node,
            argument=arguments[0],
            value=value,
            word="DISTINCT " if distinct else "",
            condition=condition,
            order=self._sum_order(),
        )
        return write(call)

    def _truth(self, node: exp.Expr) -> str:
        value = self._plain(node)
        if value.type is not None and not at.is_boolean(value.type):
            raise unknown(node)
        return value.sql

    def _sum_order(self) -> str:
        return ", ".join(filter(None, self._order)) if all(self._order) else ""

    def _count(
        self, node: exp.Count, arguments: Sequence[exp.Expr], condition: str, *, distinct: bool
    ) -> SqlValue:
        arguments = [*arguments, *node.expressions]
        star = len(arguments) == 1 and isinstance(arguments[0], exp.Star | exp.Literal)
        if not arguments or (star and not distinct):
            return SqlValue(f"COUNT(*){condition}", pa.int64())
        values = [self._plain(argument) for argument in arguments]
        for value in values:
            _check_counted(value, node)
        if len(values) == 1:
            word = "DISTINCT " if distinct else ""
            return SqlValue(f"COUNT({word}{values[0].sql}){condition}", pa.int64())
        if not distinct:
            raise unknown(node)
        # rows with a NULL do not count
        nulls = " OR ".join(f"{value.sql} IS NULL" for value in values)
        packed = ", ".join(value.sql for value in values)
        whole = f"CASE WHEN {nulls} THEN NULL ELSE row({packed}) END"
        return SqlValue(f"COUNT(DISTINCT {whole}){condition}", pa.int64())

    def _listed(self, node: exp.WithinGroup, condition: str) -> SqlValue:
        """LISTAGG in the order of its values, as stages have it."""
        call, order = node.this, node.expression
        if not isinstance(call, exp.GroupConcat) or not isinstance(order, exp.Order):
            raise unknown(node)
        distinct = isinstance(call.this, exp.Distinct)
        argument = call.this.expressions[0] if distinct else call.this
        (ordered, *more) = order.expressions
        if more or ordered.this != argument or ordered.args.get("desc"):
            raise unknown(node)
        value = self._plain(argument)
        if value.type != pa.string():
            raise unknown(node)
        between = separator_text(call)
        word = "DISTINCT " if distinct else ""
        text = f"string_agg({word}{value.sql}, {between} ORDER BY {value.sql} NULLS FIRST)"
        return SqlValue(f"{text}{condition}", pa.string())

    def _rank(self, node: exp.Window) -> SqlValue:
        name = _RANKS.get(type(node.this))
        order = node.args.get("order")
        others = ("spec", "first", "alias")
        bare = name is not None and not node.this.args.get("expressions") and not node.this.this
        if not bare or order is None or any(node.args.get(part) for part in others):
            raise unknown(node)
        text = f"{name}(){window_order(node, self._plain).over()}"
        return SqlValue(cast_text(text, pa.int32()), pa.int32())

    # --- windows ---

    def _over(self, node: exp.Window) -> SqlValue:
        """A function of the rows of a window, each of which has a number; sums of DOUBLE are columns there."""
        spec, arrival = node.args.get("spec"), self._arrivals[0]
        if node.args.get("order") is None or len(self._arrivals) != 1 or arrival is None:
            raise unknown(node)
        if any(node.args.get(part) for part in ("first", "alias")):
            raise unknown(node)
        rows = window_order(node, self._plain)
        function, all_nulls = node.this, False
        if isinstance(function, exp.RespectNulls | exp.IgnoreNulls):
            all_nulls, function = isinstance(function, exp.RespectNulls), function.this
        if isinstance(function, exp.Lag):
            return self._lag(function, rows.over(), node)
        if spec is None:
            raise unknown(node)
        window = rows.over(frame_text(spec, node))
        # the order of the window leaves that of its peers open
        order = f"ORDER BY {', '.join([*rows.by, arrival])}"
        if isinstance(function, exp.FirstValue | exp.LastValue):
            value = self._plain(function.this)
            if value.type is None:
                raise unknown(node)
            name = "first_value" if isinstance(function, exp.FirstValue) else "last_value"
            nulls = "RESPECT" if all_nulls else "IGNORE"
            return SqlValue(f"{name}({value.sql} {order} {nulls} NULLS){window}", value.type)
        if isinstance(function, exp.Count):
            if isinstance(function.this, exp.Distinct):
                raise unknown(node)
            arguments = [function.this] if function.this else []
            return self._count(function, arguments, window, distinct=False)
        if isinstance(function, exp.GroupConcat):
            value, between = self._plain(function.this), separator_text(function)
            if value.type != pa.string():
                raise unknown(node)
            return SqlValue(f"string_agg({value.sql}, {between} {order}){window}", pa.string())
        write = AGGREGATES.get(type(function))
        if write is None or isinstance(function.this, exp.Distinct):
            raise unknown(node)
        value = self._plain(function.this)
        if value.type is None:
            raise unknown(node)
        # without an order: sums of DOUBLE are refused
        call = AggregateCall(
            node=function, argument=function.this, value=value, word="", condition=window, order=""
        )
        return write(call)

    def _distinct_over(self, node: exp.Anonymous) -> SqlValue:
        """COUNT or SUM of the distinct values of a window, which the stage's query gathers in a set."""
        gathered = node.expressions[0]
        spec, (argument,) = gathered.args.get("spec"), gathered.this.expressions
        value = self._plain(argument)
        if spec is None or None in self._arrivals:
            raise unknown(node)
        _check_counted(value, node)
        window = window_order(gathered, self._plain).over(frame_text(spec, gathered))
        if node.name == "size":
            text = f"COUNT(DISTINCT {value.sql}){window}"
            return SqlValue(cast_text(text, pa.int32()), pa.int32())
        kind = self._plain(node.expressions[1]).type
        if kind is None or value.type is None:
            raise unknown(node)
        return sum_of_distinct(value.sql, value.type, window, kind)

    def _lag(self, function: exp.Lag, window: str, node: exp.Window) -> SqlValue:
        value = self._plain(function.this)
        offset, default = function.args.get("offset"), function.args.get("default")
        if value.type is None or not (offset is None or offset.is_int):
            raise unknown(node)
        texts, kind = [value.sql], value.type
        if default is not None:
            texts, found = unified([value, self._plain(default)], node)
            assert found is not None, "one of them has a type"
            kind = found
        back = "1" if offset is None else offset.name
        arguments = ", ".join([texts[0], back, *texts[1:]])
        return SqlValue(f"lag({arguments}){window}", kind)


def _computed_rows(inner: Statement) -> TableColumns:
    fields = []
    for name, kind in inner.columns:
        if kind is None:
            raise UntranslatableError(f"the column {name}, a NULL without a type")
        fields.append(pa.field(name, kind))
    return TableColumns(sql=f"({inner.sql})", columns=tuple(fields))


def _check_counted(value: SqlValue, node: exp.Expr) -> None:
    if value.type is None:
        raise unknown(node)
    type_name(value.type)


# --- ranks, and the columns of a result ---

_RANKS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
}


def result_columns(
    statement: Statement, schema: pa.Schema, more: Mapping[str, pa.DataType]
) -> list[tuple[str, str]]:
    """Return the columns of `schema` by position, then those of `more` by name: their SQL, in the type that is wanted.

    Raises UntranslatableError where a type is another than what Spark found.
    """
    found: list[tuple[str, str]] = []
    plain = [(n, c) for n, c in enumerate(statement.columns) if c[0] not in more]
    extra = [(n, c) for n, c in enumerate(statement.columns) if c[0] in more]
    wanted = [*schema, *(pa.field(name, more[name]) for _, (name, _) in extra)]
    for (index, (name, kind)), column in zip([*plain, *extra], wanted, strict=True):
        if kind is not None and kind != column.type and not _widens(kind, column.type):
            raise UntranslatableError(f"the column {name}, {kind} here and {column.type} in Spark")
        text = f"c{index}" if kind == column.type else cast_text(f"c{index}", column.type)
        found.append((column.name, normalized(text, column.type)))
    return found


def _widens(kind: pa.DataType, wanted: pa.DataType) -> bool:
    whole = at.is_integer(kind) and at.is_integer(wanted)
    return bool(whole and kind.bit_width < wanted.bit_width)
