"""Check the columns of a query, and find the types of its nodes: sqlglot's qualifier at work over named relations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.optimizer.annotate_types import TypeAnnotator
from sqlglot.optimizer.qualify_columns import qualify_columns
from sqlglot.optimizer.qualify_tables import qualify_tables
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from penstock.catalog.errors import DefinitionError, InputError, UnknownObjectError, did_you_mean
from penstock.sql.binding.checked_query import ORIGIN, CheckedQuery, Columns, Output
from penstock.sql.binding.plain_columns import NO_TABLES, check_plain_columns, set_type
from penstock.sql.dialect.flink.trees import FLINK, named_tables
from penstock.sql.dialect.spark.writer import VALUE, unnested_columns
from penstock.sql.dialect.windows.group_windows import has_group_windows
from penstock.sql.syntax.misspelling import LATE, nearest_word
from penstock.sql.syntax.parse_errors import OPTIMIZER_ERRORS, is_refusal, refusals_ignored
from penstock.sql.syntax.traversal import all_nodes, copies, copy_tree, find_nodes


def name_relations(query: exp.Expr) -> list[exp.Table]:
    """Alias each table of a query by its name, if it has no alias; columns are qualified by it.
    Returns the tables, in order.
    """
    tables = named_tables(query)
    _drop_qualifiers(query, tables)
    for table in tables:
        if not isinstance(table.parent, exp.Anonymous | exp.Kwarg):  # TABLE name takes no alias
            give_alias(table)
    return tables


def give_alias(table: exp.Table) -> None:
    """Alias a table by its name, if it has no alias."""
    if not table.alias:
        alias = exp.Identifier(this=table.name, quoted=True)
        table.set("alias", exp.TableAlias(this=alias))


def as_written(query: exp.Expr) -> exp.Expr:
    """Return the tree of which the text is kept, before the query is checked: itself, or a copy if that will rewrite
    it.

    Its tables have aliases, so that they can be given their full names.
    """
    if not has_group_windows(query):
        return query
    written = copy_tree(query)
    name_relations(written)
    return written


def _drop_qualifiers(query: exp.Expr, tables: Sequence[exp.Table]) -> None:
    """Write database.table.column as table.column: each table has its name as alias."""
    names = {(table.catalog, table.db, table.name) for table in tables if table.db}
    for column in find_nodes(query, exp.Column) if names else ():
        if column.db and (column.catalog, column.db, column.table) in names:
            column.set("db", None)
            column.set("catalog", None)


ORDINALITY = "penstock.ordinality"


def hide_ordinality(tree: exp.Expr) -> None:
    """Remove WITH ORDINALITY from a tree: the qualifier takes it for one more column behind those that AS names."""
    for node in tree.find_all(exp.Unnest):
        node.meta[ORDINALITY] = node.args.get("offset")
        node.set("offset", None)


def unnamed_elements(tree: exp.Expr) -> list[exp.Unnest]:
    """Find UNNEST(value) AS t, which names no columns; those WITH ORDINALITY are left as they are."""
    return [
        node
        for node in tree.find_all(exp.Unnest)
        if node.alias and not node.alias_column_names and not node.args.get("offset")
    ]


def unfolds_plain_values(node: exp.Unnest) -> bool:
    """Return whether the elements are known to be plain values: fields of rows and map entries have names."""
    columns = unnested_columns(node, ordinality=False)
    return columns is not None and [name for name, _ in columns] == [VALUE]


def name_after_alias(node: exp.Unnest) -> None:
    """Make AS t to AS t (t), as Calcite's AliasNamespace does for the only column of an UNNEST."""
    alias = node.args["alias"]
    alias.set("columns", [alias.this.copy()])


class UnnestAnnotator(TypeAnnotator):
    """sqlglot's annotator, which asks `unnested_columns` for the types of what AS names behind an UNNEST."""

    def _get_source_scope_selects(self, source: Scope) -> dict[str, exp.DataType | exp.DType]:
        node = source.expression
        if not isinstance(node, exp.Unnest):
            return super()._get_source_scope_selects(source)
        columns = unnested_columns(node, ordinality=bool(node.meta_get(ORDINALITY)))
        names = node.alias_column_names
        if columns is None or len(columns) != len(names):
            return dict.fromkeys(names, exp.DType.UNKNOWN)
        return {
            name: kind or exp.DType.UNKNOWN for name, (_, kind) in zip(names, columns, strict=True)
        }


UNKNOWN = exp.DType.UNKNOWN


def check_columns(stand_in: exp.Expr, checking: CheckedQuery) -> Output | None:
    """Add errors for unknown columns; type the nodes; return the query's columns."""
    if (plain := check_plain_columns(stand_in, checking)) is not None:
        return plain
    qualified: exp.Expr | None = None
    with refusals_ignored():  # Spark will follow the query
        qualified = _qualified(copy_tree(stand_in), checking)
    if qualified is None:
        return None
    if fields := list(_unknown_fields(qualified, checking)):
        checking.errors += fields
        return None
    _bring_types_back(qualified, stand_in, checking)
    return _output(qualified, checking)


def _qualified(tree: exp.Expr, checking: CheckedQuery) -> exp.Expr | None:
    """Qualify and type a tree, which is used up; None where a column is unknown, which is added to the errors.

    Raises what sqlglot does on a query that it does not follow.
    """
    schema = _schema(checking.relations)
    checking.errors += _unknown_stars(tree, checking)
    hide_ordinality(tree)
    # as sqlglot's `qualify` does, without what is nothing in a dialect whose names keep their case
    tree = qualify_tables(tree, dialect=FLINK)
    tree = qualify_columns(tree, schema, allow_partial_qualification=True)
    scopes = traverse_scope(tree)
    found = _unknown_columns(scopes, checking)
    checking.errors += found
    if found:
        return None
    annotator = UnnestAnnotator(schema)
    for scope in scopes:
        annotator.annotate_scope(scope)
    return annotator.annotate(tree, annotate_scope=False)


def type_plain(expression: exp.Expr, columns: Columns) -> bool:
    """Type the nodes of an expression in place; False if it is more than plain names and functions of them.

    That is most of what stands in a table: no query inside, no column of a column.
    """
    if any(
        isinstance(node, exp.Query) or (isinstance(node, exp.Column) and len(node.parts) > 1)
        for node in all_nodes(expression)
    ):
        return False
    pairs = copies(expression)
    annotator = TypeAnnotator(NO_TABLES)
    for _, node in pairs:
        if isinstance(node, exp.Column):
            set_type(annotator, node, columns.get(node.name))
    try:
        annotator.annotate(pairs[0][1], annotate_scope=False)
    except OPTIMIZER_ERRORS as error:
        if not is_refusal(error):
            raise
        return True
    for node, typed in pairs:
        if typed.type and not typed.is_type(UNKNOWN) and not isinstance(node, exp.DataType):
            node.type = typed.type
    return True


def _schema(relations: Mapping[str, Columns]) -> MappingSchema:
    tree = {
        name: {column: kind or exp.DataType(this=UNKNOWN) for column, kind in columns.items()}
        for name, columns in relations.items()
    }
    return MappingSchema(tree, dialect=FLINK, normalize=False)  # type: ignore[arg-type]


def _unknown_columns(scopes: Iterable[Scope], checking: CheckedQuery) -> list[InputError]:
    if checking.unsure:
        return []
    errors: dict[tuple[int, int], InputError] = {}
    for scope in scopes:
        if not isinstance(scope.expression, exp.Select):
            continue
        known = _sources(scope, checking)
        if known is None:
            continue
        for column in scope.columns:
            error = _unknown_column(column, scope, known, checking)
            if error is not None and error.span is not None:
                errors.setdefault((error.span.line, error.span.column), error)
    return [errors[position] for position in sorted(errors)]


def _sources(scope: Scope, checking: CheckedQuery) -> dict[str, list[str]] | None:
    """Column names of each source of a scope and of those around it; None if any is not known."""
    known: dict[str, list[str]] = {}
    current: Scope | None = scope
    beside = False  # a query in FROM, or in WITH, does not see what stands beside it
    while current is not None:
        for name, source in () if beside else current.sources.items():
            columns = _source_columns(source, checking)
            if columns is None:
                return None
            known.setdefault(name, columns)
        beside = current.is_derived_table or current.is_cte
        current = current.parent
    return known


def _source_columns(source: exp.Expr | Scope, checking: CheckedQuery) -> list[str] | None:
    if isinstance(source, exp.Table):
        if isinstance(source.this, exp.Func):
            return list(source.alias_column_names) or None
        if source.name not in checking.relations:
            return None
        return list(source.alias_column_names or checking.relations[source.name])
    if not isinstance(source, Scope):
        return None
    expression = source.expression
    if isinstance(expression, exp.Unnest | exp.Lateral) and expression.alias_column_names:
        return list(expression.alias_column_names)
    if not isinstance(expression, exp.Query):
        return None  # VALUES, an UNNEST or LATERAL that names nothing: not followed
    names = expression.named_selects
    return None if "*" in names or not all(names) else list(names)


def _unknown_column(
    column: exp.Column, scope: Scope, known: dict[str, list[str]], checking: CheckedQuery
) -> InputError | None:
    name, table = column.name, column.table
    if isinstance(column.this, exp.Star) or not name:
        return None
    wrong: exp.Expr = column.this
    if not known and not table and _reads_nothing(column, scope.expression):
        span = checking.span(wrong)
        hint = f"there is no FROM to take it from; a text is written '{name}'"
        return (
            None
            if span is None
            else UnknownObjectError(f"there is no column '{name}'", hint=hint, span=span)
        )
    if table and table not in known:
        wrong, names = column.args["table"], list(known)
        message = f"there is no table or column '{table}' here"
    elif column.args.get("db"):
        return None  # row.field.field, where the first field has the name of a table
    elif table:
        names, message = known[table], f"'{table}' has no column '{name}'"
        if names.count(name) > 1:
            return _ambiguous_output(column, table, checking)
    elif name in _aliases(scope.expression):
        return None  # ORDER BY, GROUP BY, HAVING of an alias
    else:
        holders = [source for source in scope.sources if name in known.get(source, ())]
        if len(holders) > 1 and not _merges(scope.expression):
            return _ambiguous(column, holders, checking)
        if holders and known[holders[0]].count(name) > 1:
            return _ambiguous_output(column, holders[0], checking)
        names = list(dict.fromkeys(c for columns in known.values() for c in columns))
        message = f"there is no column '{name}'"
    if name in names or not names:
        return None
    span = checking.span(wrong)
    if span is None:
        return None  # made by the qualifier: there is nothing to point at
    keyword = nearest_word(wrong.name, LATE) if not table else None
    near = did_you_mean(wrong.name, names) or (f"did you mean {keyword}?" if keyword else None)
    hint = near or f"there are: {', '.join(names)}"
    return UnknownObjectError(message, hint=hint, span=span)


def _reads_nothing(column: exp.Column, select: exp.Expr) -> bool:
    """Return whether a column stands in the list of a SELECT without FROM."""
    if any(select.args.get(key) for key in ("from_", "joins", "laterals")):
        return False
    if column.find_ancestor(exp.Anonymous, exp.Select) is not select:
        return False  # what the call is, is told first
    return any(node is column for item in select.expressions for node in item.find_all(exp.Column))


def _unknown_fields(qualified: exp.Expr, checking: CheckedQuery) -> Iterator[InputError]:
    """row.field of a row whose type is known, and has no such field."""
    for access in all_nodes(qualified):
        kind = access.this.type if isinstance(access, exp.Dot) else None
        if kind is None or not kind.is_type(exp.DType.STRUCT) or not kind.expressions:
            continue
        field, names = access.expression, [part.name for part in kind.expressions]
        span = checking.span(field)
        if not isinstance(field, exp.Identifier) or field.name in names or span is None:
            continue
        hint = did_you_mean(field.name, names) or f"there are: {', '.join(names)}"
        row = f"'{access.this.name}'" if access.this.name else "this row"
        yield UnknownObjectError(f"{row} has no field '{field.name}'", hint=hint, span=span)


def _aliases(select: exp.Expr) -> set[str]:
    """The names that a SELECT itself sets; not those that the qualifier adds to plain columns."""
    return {
        item.alias
        for item in select.args.get("expressions", ())
        if isinstance(item, exp.Alias)
        and not (isinstance(item.this, exp.Column) and item.this.name == item.alias)
    }


def _merges(select: exp.Expr) -> bool:
    """Return whether a join of this SELECT makes one column of two: USING, NATURAL."""
    joins: list[exp.Expr] = select.args.get("joins") or []
    return any(join.args.get("using") or join.args.get("method") for join in joins)


def _ambiguous(column: exp.Column, holders: list[str], checking: CheckedQuery) -> InputError | None:
    span = checking.span(column.this)
    if span is None:
        return None
    sources = " and ".join(f"'{holder}'" for holder in holders)
    return DefinitionError(
        f"the column '{column.name}' is in {sources}",
        hint=f"write {holders[0]}.{column.name} or {holders[1]}.{column.name}",
        span=span,
    )


def _ambiguous_output(column: exp.Column, source: str, checking: CheckedQuery) -> InputError | None:
    span = checking.span(column.this)
    if span is None:
        return None
    return DefinitionError(
        f"the column '{column.name}' is ambiguous: the query '{source}' gives several of that name",
        hint=f"name them apart in that query: {column.name} AS {column.name}_2",
        span=span,
    )


def _unknown_stars(stand_in: exp.Expr, checking: CheckedQuery) -> list[InputError]:
    """name.* of an unknown name (the qualifier fails on it)."""
    errors: list[InputError] = []
    if not any(isinstance(node, exp.Column) and node.is_star for node in checking.nodes):
        return errors
    for scope in traverse_scope(stand_in):
        names = list(scope.sources)
        for item in scope.expression.args.get("expressions", ()):
            if not (isinstance(item, exp.Column) and item.is_star and item.table not in names):
                continue
            table = item.args.get("table")
            span = checking.span(table) if table else None
            known = _sources(scope, checking)
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


def _bring_types_back(typed: exp.Expr, stand_in: exp.Expr, checking: CheckedQuery) -> None:
    """Copy types from the qualified tree onto the original and the copy it was made from."""
    types: dict[int, exp.DataType] = {}
    for node in all_nodes(typed):
        number = node.meta_get(ORIGIN)
        if number is None and isinstance(node, exp.Dot):
            number = _origin_of_access(node, checking)
        kind = None if number is None else node.type
        if number is not None and kind is not None and kind.this is not UNKNOWN:
            types.setdefault(number, kind)
    for node in all_nodes(stand_in):
        number = node.meta_get(ORIGIN)
        if number in types and not isinstance(node, exp.DataType):
            node.type = checking.nodes[number].type = types[number]


def _origin_of_access(node: exp.Dot, checking: CheckedQuery) -> int | None:
    """The column row.field that the qualifier made a Dot of: known by its last name."""
    original = checking.origin(node.expression)
    if original is None or not isinstance(original.parent, exp.Column):
        return None
    if original.parent.this is not original:
        return None  # a.b of a.b.c: an access of its own only in the qualified tree
    return next(i for i, n in enumerate(checking.nodes) if n is original.parent)


def _output(qualified: exp.Expr, checking: CheckedQuery) -> Output | None:
    if checking.unsure or not isinstance(qualified, exp.Query):
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
