"""The lineage of one query: the objects that it names, and for each of its columns those that it is made of.

sqlglot's lineage does the work, on a copy in which tables have plain names and windowing functions are subqueries
(their columns come of the time column). What it cannot follow is left open; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.lineage import Node as Step
from sqlglot.lineage import lineage
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope
from sqlglot.schema import MappingSchema

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.catalog.model.identifier import Identifier
from penstock.connector.inference.inferred_table import sql_name
from penstock.sql.binding.binder import columns_of_object
from penstock.sql.binding.checked_query import Columns
from penstock.sql.binding.functions import names_columns, table_calls
from penstock.sql.dialect import Flink
from penstock.sql.dialect.flink.trees import named_tables, to_text
from penstock.sql.dialect.windows.window_tables import WindowTable, window_tables
from penstock.sql.lineage.graph import ColumnFlow, ColumnSource
from penstock.sql.syntax.parse_errors import OPTIMIZER_ERRORS, is_refusal

_UNKNOWN = exp.DataType(this=exp.DType.UNKNOWN)
_PARTS = ("joins", "laterals")
"""What hangs on a table's node and stays when the table is replaced."""

Relations = Mapping[str, tuple[Identifier, tuple[str, ...]]]
"""The plain names of the copy's tables: what each is, and its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLineage:
    """The objects that a query names, each once, in order; and its columns, None where they are unknown.

    The columns have their names in the query, empty for unnamed ones.
    """

    tables: tuple[Identifier, ...]
    columns: tuple[ColumnFlow, ...] | None


def lineage_of_query(query: exp.Expr, namespace: Namespace) -> QueryLineage:
    """Trace a query whose names were checked. The tree is not changed."""
    tree = query.copy()
    _drop_qualifiers(tree)
    relations: dict[str, tuple[Identifier, tuple[str, ...]]] = {}
    kinds: dict[str, dict[str, exp.DataType]] = {}
    is_known = all(names_columns(relation) for relation, _ in table_calls(tree))
    for number, table in enumerate(named_tables(tree)):
        identifier = namespace.resolve(tuple(part.name for part in table.parts))
        columns = _columns(identifier, namespace)
        is_known &= columns is not None
        plain = f"t{number}"
        relations[plain] = (identifier, tuple(columns or ()))
        kinds[plain] = {name: kind or _UNKNOWN for name, kind in (columns or {}).items()}
        _rename(table, plain)
    tables = tuple(dict.fromkeys(identifier for identifier, _ in relations.values()))
    traced = _trace(tree, relations, kinds) if is_known and isinstance(tree, exp.Query) else None
    return QueryLineage(tables=tables, columns=traced)


def _columns(identifier: Identifier, namespace: Namespace) -> Columns | None:
    """Return the columns of an object; None where they are unknown, or where its external system must not be asked."""
    try:
        return columns_of_object(namespace.lookup(identifier), namespace)
    except InputError:
        return None


def _rename(table: exp.Table, plain: str) -> None:
    """Rename a table to a plain name; it keeps its own as alias, by which the query knows its columns."""
    argument = isinstance(table.parent, exp.Anonymous | exp.Kwarg)  # TABLE name: takes no alias
    if not table.alias and not argument:
        alias = exp.to_identifier(table.name, quoted=True)
        table.set("alias", exp.TableAlias(this=alias))
    table.set("this", exp.to_identifier(plain, quoted=True))
    for part in ("db", "catalog", "hints"):
        table.set(part, None)


def _trace(
    tree: exp.Query, relations: Relations, kinds: Mapping[str, Mapping[str, exp.DataType]]
) -> tuple[ColumnFlow, ...] | None:
    schema = MappingSchema(dict(kinds), dialect=Flink, normalize=False)
    try:
        for window in reversed(window_tables(tree)):
            _replace_window(window, relations)
        qualified = qualify(
            tree,
            dialect=Flink,
            schema=schema,
            allow_partial_qualification=True,
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
        names = _number_outputs(qualified)
        if names is None:
            return None
        found = lineage(
            None,
            qualified,
            schema,
            dialect=Flink,
            scope=build_scope(qualified),
            trim_selects=False,
            copy=False,
        )
    except InputError:
        return None
    except OPTIMIZER_ERRORS as error:
        if not is_refusal(error):
            raise
        return None  # sqlglot does not follow this query
    return tuple(
        ColumnFlow(column=name, expression=expression, sources=_sources(found[number], relations))
        for number, (name, expression) in names.items()
    )


def _number_outputs(qualified: exp.Expr) -> dict[str, tuple[str, str]] | None:
    """Name each column of the result uniquely, as two may share a name; returns their names and expressions."""
    first = qualified
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    if not isinstance(first, exp.Select):
        return None
    names: dict[str, tuple[str, str]] = {}
    for position, item in enumerate(list(first.selects)):
        if item.is_star:
            return None
        inner = item.unalias()
        name = item.alias_or_name
        number = f"c{position}"
        names[number] = (name, _text(inner))
        item.replace(exp.alias_(inner.copy(), number, quoted=True))
    return names


def _text(expression: exp.Expr) -> str:
    """Write an expression, names in backticks only where they need them: the tree's own have come from both ways."""
    shown = expression.copy()
    for identifier in shown.find_all(exp.Identifier):
        identifier.set("quoted", sql_name(identifier.name) != identifier.name)
    return to_text(shown)


def _sources(step: Step, relations: Relations) -> tuple[ColumnSource, ...]:
    found: dict[ColumnSource, None] = {}
    for table, name in _leaves(step):
        if table.name not in relations:
            continue
        identifier, columns = relations[table.name]
        wanted = name.replace('"', "")
        alias = table.alias_or_name
        for column in columns:
            if wanted == f"{alias}.{column}".replace('"', ""):
                found[ColumnSource(table=identifier, column=column)] = None
    return tuple(sorted(found))


def _leaves(step: Step) -> Iterator[tuple[exp.Table, str]]:
    """Return the tables that a column ends at, each with `alias.column`."""
    for each in step.walk():
        if isinstance(each.expression, exp.Table):
            yield each.expression, each.name


def _drop_qualifiers(tree: exp.Expr) -> None:
    """Write database.table.column as table.column: each table has its name as alias; row.field.field stays."""
    named = {(table.catalog, table.db, table.name) for table in named_tables(tree) if table.db}
    for column in tree.find_all(exp.Column):
        if column.db and (column.catalog, column.db, column.table) in named:
            column.set("db", None)
            column.set("catalog", None)


def _replace_window(window: WindowTable, relations: Relations) -> None:
    """Write TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ...)) as (SELECT *, f(ts) AS window_start, ... FROM t)."""
    time = exp.column(exp.to_identifier(window.time_column, quoted=True))
    bounds = [
        exp.alias_(exp.Anonymous(this=name.upper(), expressions=[time.copy()]), name, quoted=True)
        for name in ("window_start", "window_end", "window_time")
    ]
    inner = exp.select(exp.Star(), *bounds).from_(window.input.copy(), copy=False)
    subquery = exp.Subquery(this=inner, alias=window.node.args.get("alias"))
    for part in _PARTS:
        subquery.set(part, window.node.args.get(part))
    if not subquery.alias:
        name = relations[window.input.name][0].name if window.input.name in relations else "w"
        subquery.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    window.node.replace(subquery)
