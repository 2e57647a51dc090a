"""Checks a query against the catalog: every table and column exists; and puts types on its nodes.

The work is done on a copy in which tables have plain names and windowing functions are subqueries
with their three columns, so that sqlglot's qualifier understands it. Where that cannot decide (a
source whose columns are not known, a construct it does not follow) nothing is said: Spark's own
analysis comes later. Nothing here is decided by guessing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    Span,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.identifier import Identifier
from penstock.catalog.names import Namespace
from penstock.catalog.schema import Schema
from penstock.catalog.table import Table, View
from penstock.catalog.types import LogicalType
from penstock.sql.dialect.access import named_tables, parse_query
from penstock.sql.dialect.flink import Flink
from penstock.sql.dialect.problems import NodeError
from penstock.sql.dialect.windows import WindowTable, window_tables
from penstock.sql.dialect.write import write_spark
from penstock.sql.positions import span_of

__all__ = [
    "Bound",
    "Columns",
    "annotate",
    "bind_query",
    "columns_of_object",
    "data_type",
    "schema_columns",
    "type_expression",
]

Columns = Mapping[str, exp.DataType | None]
"""Names of a relation's columns, in order, and their types where they are known."""

Output = tuple[tuple[str, exp.DataType | None], ...]

ORIGIN = "penstock.origin"  # on nodes of the copy: which node of the original they are of
UNKNOWN = exp.DType.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What is known of a query: all that is wrong with it, and its columns unless they are unsure."""

    errors: tuple[InputError, ...] = ()
    output: tuple[tuple[str, exp.DataType | None], ...] | None = None


@dataclass(slots=True)
class _Binding:
    """The state of one check. `nodes` are those of the original, by the number that copies carry."""

    namespace: Namespace
    viewing: tuple[Identifier, ...] = ()
    nodes: list[exp.Expr] = field(default_factory=list)
    errors: list[InputError] = field(default_factory=list)
    relations: dict[str, Columns] = field(default_factory=dict)
    by_table: dict[int, Columns] = field(default_factory=dict)
    unsure: bool = False

    def copy(self, query: exp.Expr) -> exp.Expr:
        """A copy of `query` whose nodes know what they were copied from."""
        self.nodes = list(query.walk())
        for number, node in enumerate(self.nodes):
            node.meta[ORIGIN] = number
        copied = query.copy()
        for node in self.nodes:
            node.meta.pop(ORIGIN)
        return copied

    def origin(self, node: exp.Expr) -> exp.Expr | None:
        """The node of the original that a node of the copy stands for; None for one made since."""
        number = node.meta_get(ORIGIN)
        return None if number is None else self.nodes[number]

    def span(self, node: exp.Expr) -> Span | None:
        """The place of a node of the copy."""
        original = self.origin(node)
        return span_of(original) if original is not None else None


def bind_query(query: exp.Expr, namespace: Namespace) -> Bound:
    """Check `query` and type its nodes in place; its tables get their name as alias if they have none."""
    return _bind(query, _Binding(namespace))


def annotate(query: exp.Expr, namespace: Namespace) -> None:
    """Type the nodes of a query that is known to be right, such as one with its views written out."""
    bind_query(query, namespace)


def columns_of_object(found: Table | View, namespace: Namespace) -> Columns | None:
    """The columns of a table or view; None where a view's cannot be told."""
    return _columns_of(found, _Binding(namespace))


def type_expression(expression: exp.Expr, columns: Columns) -> None:
    """Type the nodes of an expression over `columns` in place, as far as that can be told."""
    binding = _Binding(namespace=None, relations={"t0": columns})  # type: ignore[arg-type]
    table = exp.Table(this=exp.Identifier(this="t0", quoted=True))
    stand_in = exp.select(exp.alias_(binding.copy(expression), "value")).from_(table)
    _check_columns(stand_in, binding)


@cache
def data_type(text: str) -> exp.DataType:
    """The syntax tree of a type in Flink's spelling. It is shared: do not change it."""
    return exp.DataType.build(text, dialect=Flink)


def _bind(query: exp.Expr, binding: _Binding) -> Bound:
    try:
        windows = window_tables(query)
    except InputError as error:
        return Bound(errors=(error,))
    _drop_qualifiers(query)
    stand_in = binding.copy(query)
    originals = named_tables(query)
    for table, copied in zip(originals, named_tables(stand_in), strict=True):
        _resolve(table, copied, binding)
    for window in reversed(window_tables(stand_in)):
        _replace_window(window)
    output = None
    if not binding.errors:
        binding.errors += [e for window in windows if (e := _time_error(window, binding))]
        output = _check_columns(stand_in, binding)
    if not binding.errors:
        _check_forms(stand_in, binding)
    return Bound(errors=tuple(binding.errors), output=None if binding.errors else output)


# --- tables ---


def _drop_qualifiers(query: exp.Expr) -> None:
    """database.table.column as table.column: each table has its name as alias (see _resolve)."""
    tables = {(table.catalog, table.db, table.name) for table in named_tables(query) if table.db}
    for column in query.find_all(exp.Column):
        if column.db and (column.catalog, column.db, column.table) in tables:
            column.set("db", None)
            column.set("catalog", None)


def _resolve(table: exp.Table, copied: exp.Table, binding: _Binding) -> None:
    parts = tuple(part.name for part in table.parts)
    for node in (table, copied):
        if not node.alias:
            alias = exp.Identifier(this=table.name, quoted=True)
            node.set("alias", exp.TableAlias(this=alias))
    columns: Columns | None = None
    try:
        identifier = binding.namespace.resolve(parts)
        found = binding.namespace.lookup(identifier)
        columns = _columns_of(found, binding)
    except InputError as error:
        error.span = error.span or span_of(table)
        binding.errors.append(error)
    name = f"t{len(binding.relations)}"
    binding.unsure |= columns is None
    binding.relations[name] = binding.by_table[id(table)] = columns or {}
    copied.set("this", exp.Identifier(this=name, quoted=True))
    for part in ("db", "catalog", "hints"):
        copied.set(part, None)


def _columns_of(found: Table | View, binding: _Binding) -> Columns | None:
    if isinstance(found, Table):
        return schema_columns(found.schema)
    if found.identifier in binding.viewing:
        raise UnsupportedError(f"the view {found.identifier} is defined by itself")
    inner = _Binding(binding.namespace, (*binding.viewing, found.identifier))
    bound = _bind(parse_query(found.query), inner)
    if bound.errors or bound.output is None:
        return None
    names = found.columns or tuple(name for name, _ in bound.output)
    return dict(zip(names, (kind for _, kind in bound.output), strict=False))


def schema_columns(schema: Schema) -> Columns:
    """The columns of a schema with their types."""
    return {column.name: _tree(column.type) for column in schema.columns}


def _tree(kind: LogicalType | None) -> exp.DataType | None:
    return data_type(str(kind)) if kind is not None else None


def _replace_window(window: WindowTable) -> None:
    """TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ...)) as (SELECT t.*, ... FROM t WHERE ts and keys are used)."""
    call = window.node.this
    used = [column for column in call.find_all(exp.Column) if _is_argument(column, window)]
    time = next(column for column in used if column.name == window.time_column)
    names = ("window_start", "window_end", "window_time")
    stamps = [
        exp.alias_(exp.cast(exp.null(), exp.DType.TIMESTAMPNTZ), name, quoted=True)
        for name in names[:2]
    ]
    inner = exp.select(exp.Star(), *stamps, exp.alias_(time.copy(), names[2], quoted=True))
    inner = inner.from_(window.input.copy(), copy=False)
    condition = exp.and_(*(exp.Is(this=column.copy(), expression=exp.null()) for column in used))
    alias = window.node.args.get("alias")
    subquery = exp.Subquery(this=inner.where(condition, copy=False), alias=alias)
    for key in ("joins", "laterals"):
        subquery.set(key, window.node.args.get(key))
    if not subquery.alias:
        subquery.set("alias", exp.TableAlias(this=exp.Identifier(this=f"w{id(call)}", quoted=True)))
    window.node.replace(subquery)


def _is_argument(column: exp.Column, window: WindowTable) -> bool:
    """Whether a column stands in DESCRIPTOR or PARTITION BY, and not in the query that is read."""
    above = column.parent
    while above is not None and above is not window.node:
        if above is window.input:
            return False
        above = above.parent
    return True


def _time_error(window: WindowTable, binding: _Binding) -> InputError | None:
    kind = binding.by_table.get(id(window.input), {}).get(window.time_column)
    if kind is None or kind.is_type(exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ):
        return None
    return DefinitionError(
        f"{window.kind} needs a time column, and '{window.time_column}' is {kind.sql(Flink)}",
        hint="name the column of the table's WATERMARK in DESCRIPTOR(...)",
        span=window.span,
    )


# --- columns and types ---


def _check_columns(stand_in: exp.Expr, binding: _Binding) -> Output | None:
    tree = {
        name: {column: kind or exp.DataType(this=UNKNOWN) for column, kind in columns.items()}
        for name, columns in binding.relations.items()
    }
    schema = MappingSchema(tree, dialect=Flink, normalize=False)  # type: ignore[arg-type]
    qualified = stand_in.copy()
    try:
        binding.errors += _unknown_stars(qualified, binding)
        qualified = qualify(
            qualified,
            dialect=Flink,
            schema=schema,
            allow_partial_qualification=True,
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
        found = _unknown_columns(qualified, binding)
        binding.errors += found
        if found:
            return None
        annotate_types(qualified, schema=schema, dialect=Flink)
    except (SqlglotError, KeyError, AttributeError, IndexError, TypeError, ValueError):
        return None  # sqlglot does not follow this query: Spark will
    _bring_types_back(qualified, stand_in, binding)
    return _output(qualified, binding)


def _unknown_columns(qualified: exp.Expr, binding: _Binding) -> list[InputError]:
    if binding.unsure:
        return []
    errors: dict[tuple[int, int], InputError] = {}
    for scope in traverse_scope(qualified):
        if not isinstance(scope.expression, exp.Select):
            continue
        known = _sources(scope, binding)
        if known is None:
            continue
        for column in scope.columns:
            error = _unknown_column(column, scope, known, binding)
            if error is not None and error.span is not None:
                errors.setdefault((error.span.line, error.span.column), error)
    return [errors[place] for place in sorted(errors)]


def _sources(scope: Scope, binding: _Binding) -> dict[str, list[str]] | None:
    """Column names of each source of a scope and of those around it; None if any is not known."""
    known: dict[str, list[str]] = {}
    current: Scope | None = scope
    while current is not None:
        for name, source in current.sources.items():
            columns = _source_columns(source, binding)
            if columns is None:
                return None
            known.setdefault(name, columns)
        current = current.parent
    return known


def _source_columns(source: exp.Expr | Scope, binding: _Binding) -> list[str] | None:
    if isinstance(source, exp.Table):
        if source.name not in binding.relations:
            return None
        return list(source.alias_column_names or binding.relations[source.name])
    if not isinstance(source, Scope):
        return None
    expression = source.expression
    if not isinstance(expression, exp.Query):
        return None  # UNNEST, LATERAL, VALUES: not followed
    names = expression.named_selects
    return None if "*" in names or not all(names) else list(names)


def _unknown_column(
    column: exp.Column, scope: Scope, known: dict[str, list[str]], binding: _Binding
) -> InputError | None:
    name, table = column.name, column.table
    if isinstance(column.this, exp.Star) or not name:
        return None
    wrong: exp.Expr = column.this
    if table and table not in known:
        wrong, names = column.args["table"], list(known)
        message = f"there is no table or column '{table}' here"
    elif table:
        names, message = known[table], f"'{table}' has no column '{name}'"
    elif name in _aliases(scope.expression):
        return None  # ORDER BY, GROUP BY, HAVING of an alias
    else:
        holders = [source for source in scope.sources if name in known.get(source, ())]
        if len(holders) > 1 and not _merges(scope.expression):
            return _ambiguous(column, holders, binding)
        names = list(dict.fromkeys(c for columns in known.values() for c in columns))
        message = f"there is no column '{name}'"
    if name in names or not names:
        return None
    span = binding.span(wrong)
    if span is None:
        return None  # made by the qualifier: there is nothing to point at
    hint = did_you_mean(wrong.name, names) or f"there are: {', '.join(names)}"
    return UnknownObjectError(message, hint=hint, span=span)


def _aliases(select: exp.Expr) -> set[str]:
    """The names that a SELECT itself gives; not those that the qualifier adds to plain columns."""
    return {
        item.alias
        for item in select.args.get("expressions", ())
        if isinstance(item, exp.Alias)
        and not (isinstance(item.this, exp.Column) and item.this.name == item.alias)
    }


def _merges(select: exp.Expr) -> bool:
    """Whether a join of this SELECT makes one column of two: USING, NATURAL."""
    joins: list[exp.Expr] = select.args.get("joins") or []
    return any(join.args.get("using") or join.args.get("method") for join in joins)


def _ambiguous(column: exp.Column, holders: list[str], binding: _Binding) -> InputError | None:
    span = binding.span(column.this)
    if span is None:
        return None
    sources = " and ".join(f"'{holder}'" for holder in holders)
    return DefinitionError(
        f"the column '{column.name}' is in {sources}",
        hint=f"write {holders[0]}.{column.name} or {holders[1]}.{column.name}",
        span=span,
    )


def _unknown_stars(stand_in: exp.Expr, binding: _Binding) -> list[InputError]:
    """name.* of a name that is not there (the qualifier gives up on it)."""
    errors: list[InputError] = []
    for scope in traverse_scope(stand_in):
        names = list(scope.sources)
        for item in scope.expression.args.get("expressions", ()):
            if not (isinstance(item, exp.Column) and item.is_star and item.table not in names):
                continue
            table = item.args.get("table")
            span = binding.span(table) if table else None
            known = _sources(scope, binding)
            if (
                span is None
                or known is None
                or item.table in {c for cs in known.values() for c in cs}
            ):
                continue
            hint = did_you_mean(item.table, names) or f"there are: {', '.join(names)}"
            errors.append(
                UnknownObjectError(f"there is no table '{item.table}' here", hint=hint, span=span)
            )
    return errors


def _bring_types_back(typed: exp.Expr, stand_in: exp.Expr, binding: _Binding) -> None:
    """Copy types from the qualified tree onto the original and the copy it was made from."""
    types: dict[int, exp.DataType] = {}
    for node in typed.walk():
        number = node.meta_get(ORIGIN)
        if number is not None and node.type and not node.is_type(UNKNOWN):
            types.setdefault(number, node.type)
    for node in stand_in.walk():
        number = node.meta_get(ORIGIN)
        if number in types and not isinstance(node, exp.DataType):
            node.type = binding.nodes[number].type = types[number]


def _output(qualified: exp.Expr, binding: _Binding) -> Output | None:
    if binding.unsure or not isinstance(qualified, exp.Query):
        return None
    select = qualified
    while isinstance(select, exp.SetOperation):
        select = select.this.unnest()
    output: list[tuple[str, exp.DataType | None]] = []
    for item in select.selects:
        if isinstance(item, exp.Star) or item.is_star or not item.alias_or_name:
            return None
        known = item.type if item.type and not item.is_type(UNKNOWN) else None
        output.append((item.alias_or_name, known))
    return tuple(output)


def _check_forms(stand_in: exp.Expr, binding: _Binding) -> None:
    """Whether Spark has a form for everything in the query."""
    try:
        write_spark(stand_in)
    except NodeError as error:
        span = binding.span(error.node) or span_of(binding.nodes[0])
        binding.errors.append(UnsupportedError(error.message, hint=error.hint, span=span))
