"""Convert the trees of CREATE TABLE and CREATE VIEW to Table and View values, all rules checked.

Options and columns are located for errors about them. Expressions are kept as Flink SQL in one spelling,
without comments and layout: equal definitions are equal values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, InputError, InputErrors, UnsupportedError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.like import LikeOptions
from penstock.catalog.model.table import DistributionKind, Table, TableDistribution, View
from penstock.connector.options.legacy import translate_legacy_options
from penstock.sql.binding.binder import bind_query
from penstock.sql.binding.checked_query import Output, keep_view
from penstock.sql.binding.columns import as_written
from penstock.sql.convert.table_builder import TableBuilder
from penstock.sql.dialect.flink.trees import named_tables, to_text
from penstock.sql.syntax.nodes import Distribution as DistributionNode
from penstock.sql.syntax.positions import attach, span_of
from penstock.sql.syntax.traversal import copy_tree

if TYPE_CHECKING:
    from penstock.catalog.errors import Span
    from penstock.sql.script.splitter import StatementText


log = logging.getLogger(__name__)


def define_table(tree: exp.Create, identifier: Identifier, namespace: Namespace) -> Table:
    """The table that a CREATE TABLE defines. Raises InputErrors with all that is wrong in it."""
    like = next((p for p in properties_of(tree) if isinstance(p, exp.LikeProperty)), None)
    builder = TableBuilder(where=tree.this.this)
    if like is not None:
        return _define_like(tree, like, identifier, namespace, builder)
    for element in tree.this.expressions:
        builder.read_element(element)
    return build_table(tree, identifier, builder)


def build_table(tree: exp.Create, identifier: Identifier, builder: TableBuilder) -> Table:
    """The table of a builder that has all its columns, with the other clauses of the CREATE. Raises InputErrors."""
    partition_keys = read_partition_keys(tree, builder)
    options = read_options(option_keys(tree), builder)
    distribution = read_distribution(_distribution(tree), builder)
    return builder.build(
        identifier,
        options=options,
        partition_keys=partition_keys,
        comment=table_comment(tree),
        temporary=has_property(tree, exp.TemporaryProperty),
        distribution=distribution,
    )


# --- LIKE ---


def _define_like(
    tree: exp.Create,
    like: exp.LikeProperty,
    identifier: Identifier,
    namespace: Namespace,
    builder: TableBuilder,
) -> Table:
    """The table that CREATE TABLE ... LIKE defines: the other's columns first, then its own."""
    source = _source_of_like(like, namespace)
    taken = LikeOptions.of((o.name, o.args["value"].name) for o in like.expressions)
    builder.load(taken.columns(source.schema))
    declared: set[str] = set()
    for element in tree.this.expressions:
        if isinstance(element, exp.ColumnDef):
            _declare_over(element, source, taken, builder, declared)
        else:
            builder.read_rule(element)
    _take_rules(source, taken, builder)
    own_keys = read_partition_keys(tree, builder)
    own_options = read_options(option_keys(tree), builder)
    own_distribution = read_distribution(_distribution(tree), builder)
    for key in option_keys(tree):
        _gather(builder, key, lambda key=key: taken.check_option(key.name, source))  # type: ignore[misc]
    try:
        partition_keys = taken.partition_keys(source, own_keys)
        distribution = taken.distribution(source, own_distribution)
    except InputError as error:
        builder.add(error, like)
        partition_keys, distribution = (), None
    return builder.build(
        identifier,
        options=taken.options(source, own_options),
        partition_keys=partition_keys,
        comment=table_comment(tree),
        temporary=has_property(tree, exp.TemporaryProperty),
        distribution=distribution,
    )


def _source_of_like(like: exp.LikeProperty, namespace: Namespace) -> Table:
    try:
        name = namespace.resolve(tuple(part.name for part in like.this.parts))
        source = namespace.lookup(name)
    except InputError as error:
        error.span = span_of(like.this)
        raise
    if isinstance(source, View):
        raise UnsupportedError(
            f"{source.identifier} is a view; LIKE takes over from tables only",
            hint="CREATE TABLE ... AS SELECT * FROM it makes a table of a view",
            span=span_of(like.this),
        )
    return source


def _declare_over(
    node: exp.ColumnDef,
    source: Table,
    taken: LikeOptions,
    builder: TableBuilder,
    declared: set[str],
) -> None:
    """Add a column, which may replace the other table's if the options say so."""
    name = node.this.name
    column = builder.read_column(node) if name not in declared else None
    if name in declared:
        builder.add(DefinitionError(f"the column '{name}' is declared twice"), node.this)
    declared.add(name)
    if column is None:
        return
    if builder.index(name) is not None:
        other = source.schema.column(name)
        _gather(builder, node.this, lambda: taken.check_column(column, other))
    builder.put(column, node.this)


def _take_rules(source: Table, taken: LikeOptions, builder: TableBuilder) -> None:
    """Copy watermark and key where the options say so."""
    schema = source.schema
    try:
        if taken.watermark_taken(schema, own=builder.watermark is not None) and schema.watermark:
            builder.load_watermark(schema.watermark)
    except InputError as error:
        builder.add(error, builder.watermark or builder.where)
    try:
        if taken.key_taken(schema, own=bool(builder.keys)) and schema.primary_key:
            builder.load_key(schema.primary_key)
    except InputError as error:
        builder.add(error, builder.keys[0][0])


def _gather(builder: TableBuilder, node: exp.Expr, check: Callable[[], None]) -> None:
    try:
        check()
    except InputError as error:
        builder.add(error, node)


# --- views ---


def define_view(tree: exp.Create, identifier: Identifier, namespace: Namespace) -> View:
    """The view that a CREATE VIEW defines, its tables by their full names. Raises InputErrors."""
    named: list[exp.Expr] = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    text, output = _named_in_full(tree.expression, named, tree.this, namespace)
    view = View(
        identifier=identifier,
        query=text,
        columns=tuple(name.name for name in named),
        column_comments=_view_comments(named),
        comment=table_comment(tree),
        temporary=has_property(tree, exp.TemporaryProperty),
    )
    if output is not None:
        body = attach(copy_tree(tree.expression), None)
        keep_view(view, body, output, namespace)  # type: ignore[arg-type]  # the parser puts a query there
    return view


def _view_comments(named: list[exp.Expr]) -> tuple[str | None, ...]:
    """The comments of a view's columns; none where no column has one."""
    found = [name.find(exp.CommentColumnConstraint) for name in named]
    comments = tuple(None if node is None else node.this.name for node in found)
    return comments if any(found) else ()


def view_query(query: exp.Expr, named: list[exp.Expr], node: exp.Expr, namespace: Namespace) -> str:
    """The text of a view's query, tables by their full names; `named` are its columns. Raises InputErrors."""
    return _named_in_full(query, named, node, namespace)[0]


def _named_in_full(
    query: exp.Expr, named: list[exp.Expr], node: exp.Expr, namespace: Namespace
) -> tuple[str, Output | None]:
    """As `view_query`, with the query's columns; its tables have their full names."""
    written = as_written(query)
    bound = bind_query(query, namespace)
    errors = list(bound.errors)
    if bound.output is not None:
        errors += _view_column_errors(node, named, [name for name, _ in bound.output])
    if errors:
        raise InputErrors(errors)
    trees = (query,) if written is query else (query, written)
    for table in (table for tree in trees for table in named_tables(tree)):
        full = namespace.resolve(tuple(part.name for part in table.parts))
        for part, text in zip(
            ("catalog", "db", "this"), (full.catalog, full.database, full.name), strict=True
        ):
            table.set(part, exp.Identifier(this=text, quoted=True))
    return to_text(written), bound.output


def _view_column_errors(
    node: exp.Expr, named: list[exp.Expr], output: list[str]
) -> list[InputError]:
    names = [name.name for name in named]
    if named and len(named) != len(output):
        message = f"the view names {len(named)} columns, its query has {len(output)}"
        return [DefinitionError(message, span=span_of(named[0]))]
    twice = sorted({name for name in names or output if (names or output).count(name) > 1})
    if twice:
        return [
            DefinitionError(
                f"the view would have two columns named '{twice[0]}'",
                hint="rename them: SELECT ... AS name",
                span=span_of(node),
            )
        ]
    return []


# --- clauses ---


def has_property(tree: exp.Create, kind: type[exp.Property]) -> bool:
    """Return whether a CREATE has a property such as TEMPORARY."""
    return any(isinstance(item, kind) for item in properties_of(tree))


def properties_of(tree: exp.Create) -> list[exp.Expr]:
    """The clauses of a CREATE beside names and columns: comment, options, TEMPORARY, ..."""
    found = tree.args.get("properties")
    return found.expressions if found else []


def table_comment(tree: exp.Create) -> str | None:
    """The text of COMMENT; None without one."""
    comments = [p for p in properties_of(tree) if isinstance(p, exp.SchemaCommentProperty)]
    return comments[0].this.name if comments else None


def option_keys(tree: exp.Create) -> list[exp.Literal]:
    """The keys of WITH as nodes, in order; a key may stand twice."""
    return option_keys_of(properties_of(tree))


def option_keys_of(items: list[exp.Expr]) -> list[exp.Literal]:
    """The keys of the options among some nodes."""
    keys = [item.this for item in items if type(item) is exp.Property]
    return [key for key in keys if isinstance(key, exp.Literal)]


def read_options(keys: list[exp.Literal], builder: TableBuilder) -> tuple[tuple[str, str], ...]:
    """The options whose keys are given as nodes; one that is given twice is an error."""
    options: dict[str, str] = {}
    for key in keys:
        if key.name in options:
            builder.add(DefinitionError(f"the option '{key.name}' is given twice"), key)
        assert key.parent is not None, "a key stands in its Property"
        options[key.name] = key.parent.args["value"].name
    older = translate_legacy_options(options)
    if (note := older.note) is not None:
        log.warning("table %s: %s", builder.where.name, note)
    return tuple(older.options.items())


def read_partition_keys(tree: exp.Create, builder: TableBuilder) -> tuple[str, ...]:
    """The columns of PARTITIONED BY; one that is not there is an error."""
    keys: list[exp.Expr] = []
    for item in properties_of(tree):
        if isinstance(item, exp.PartitionedByProperty):
            keys = item.this.expressions
    for key in keys:
        if key.name not in builder.nodes:
            builder.unknown(key, "PARTITIONED BY")
    return tuple(key.name for key in keys)


def read_distribution(
    node: DistributionNode | None, builder: TableBuilder
) -> TableDistribution | None:
    """The value of DISTRIBUTED; a column that is not there is an error."""
    if node is None:
        return None
    for column in node.expressions:
        if column.name not in builder.nodes:
            builder.unknown(column, "DISTRIBUTED BY")
    kind = next((kind for kind in get_args(DistributionKind) if kind == node.text("kind")), None)
    buckets = node.args.get("buckets")
    try:
        return TableDistribution(
            kind=kind,
            columns=tuple(column.name for column in node.expressions),
            buckets=int(buckets.name) if buckets else None,
        )
    except InputError as error:
        builder.add(error, node)
        return None


def _distribution(tree: exp.Create) -> DistributionNode | None:
    found = (item for item in properties_of(tree) if isinstance(item, DistributionNode))
    return next(found, None)


def option_spans(tree: exp.Create, text: StatementText) -> dict[str, Span]:
    """Return the places of options by their keys; one that is read as another is found by that, too."""
    return spans_of_keys(option_keys(tree), text)


def spans_of_keys(keys: list[exp.Literal], text: StatementText) -> dict[str, Span]:
    """Return the places of options whose keys are given as nodes, as `option_spans`."""
    spans = {key.name: text.locate(key) for key in keys}
    older = translate_legacy_options({key.name: key.parent.args["value"].name for key in keys})  # type: ignore[union-attr]
    return spans | {new: spans[old] for new, old in older.sources.items()}


def column_spans(tree: exp.Expr, text: StatementText) -> dict[str, Span]:
    """Return the places of the names of the columns that a CREATE or ALTER defines; fields of rows are none."""
    defined = [
        node for node in tree.find_all(exp.ColumnDef) if node.find_ancestor(exp.DataType) is None
    ]
    return {node.name: text.locate(node.this) for node in defined}
