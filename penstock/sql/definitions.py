"""From the syntax tree of CREATE TABLE and CREATE VIEW to Table and View values, all rules checked.

Expressions are kept as Flink SQL in one spelling (comments and layout gone), so that equal
definitions are equal values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    InputErrors,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.identifier import Identifier
from penstock.catalog.names import Namespace
from penstock.catalog.schema import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    Schema,
    Watermark,
)
from penstock.catalog.table import Table, View
from penstock.catalog.types import LogicalType, parse_type
from penstock.sql.bind import bind_query
from penstock.sql.dialect.access import named_tables, to_text
from penstock.sql.expressions import columns_of, infer_type, substitute_tree, to_duckdb, to_spark
from penstock.sql.positions import attach, source_of, span_of

__all__ = ["define_table", "define_view", "has_property", "option_keys"]


@dataclass(slots=True)
class _Draft:
    """A table while it is read: what was found, where it stands, and what is wrong."""

    errors: list[InputError] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    places: dict[str, exp.Expr] = field(default_factory=dict)
    computed: dict[str, exp.Expr] = field(default_factory=dict)
    watermark: exp.WatermarkColumnConstraint | None = None
    keys: list[tuple[exp.Expr, PrimaryKey]] = field(default_factory=list)

    def add(self, error: InputError, node: exp.Expr) -> None:
        error.span = error.span or span_of(node)
        self.errors.append(error)

    def unknown(self, node: exp.Expr, role: str) -> None:
        names = list(self.places)
        hint = did_you_mean(node.name, names) or f"columns are: {', '.join(names)}"
        self.add(UnknownObjectError(f"{role}: there is no column '{node.name}'", hint=hint), node)

    @property
    def known(self) -> Schema:
        """The columns that an expression of a computed column may use."""
        plain = [c for c in self.columns if not isinstance(c, ComputedColumn)]
        return Schema(columns=tuple(plain))


def define_table(tree: exp.Create, identifier: Identifier) -> Table:
    """The table that a CREATE TABLE defines. Raises InputErrors with all that is wrong in it."""
    draft = _Draft()
    elements: list[exp.Expr] = tree.this.expressions
    for element in elements:
        _read_element(element, draft)
    if not elements:
        draft.add(DefinitionError("a table has columns"), tree.this.this)
    if not draft.errors:
        _complete_computed(draft)
    partitions = _partition_keys(tree, draft)
    options = _options(tree, draft)
    _check_keys(draft)
    watermark = _check_watermark(draft)
    if not draft.errors:
        try:
            return Table(
                identifier=identifier,
                schema=Schema(
                    columns=tuple(draft.columns),
                    watermark=watermark,
                    primary_key=draft.keys[0][1] if draft.keys else None,
                ),
                options=options,
                partition_keys=partitions,
                comment=_comment(tree),
                temporary=has_property(tree, exp.TemporaryProperty),
            )
        except InputError as error:
            draft.add(error, draft.watermark.this if draft.watermark else tree.this.this)
    raise InputErrors(sorted(draft.errors, key=_place))


def _place(error: InputError) -> tuple[int, int]:
    return (error.span.line, error.span.column) if error.span else (0, 0)


def define_view(tree: exp.Create, identifier: Identifier, namespace: Namespace) -> View:
    """The view that a CREATE VIEW defines, its tables by their full names. Raises InputErrors."""
    query = tree.expression
    bound = bind_query(query, namespace)
    errors = list(bound.errors)
    named: list[exp.Expr] = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    columns = tuple(name.name for name in named)
    if bound.output is not None:
        errors += _view_column_errors(tree, named, [name for name, _ in bound.output])
    if errors:
        raise InputErrors(errors)
    for table in named_tables(query):
        full = namespace.resolve(tuple(part.name for part in table.parts))
        for part, text in zip(
            ("catalog", "db", "this"), (full.catalog, full.database, full.name), strict=True
        ):
            table.set(part, exp.Identifier(this=text, quoted=True))
    return View(
        identifier=identifier,
        query=to_text(query),
        columns=columns,
        comment=_comment(tree),
        temporary=has_property(tree, exp.TemporaryProperty),
    )


def has_property(tree: exp.Create, kind: type[exp.Property]) -> bool:
    """Whether a CREATE has a property such as TEMPORARY."""
    return any(isinstance(item, kind) for item in _properties(tree))


def _properties(tree: exp.Create) -> list[exp.Expr]:
    found = tree.args.get("properties")
    return found.expressions if found else []


def _comment(tree: exp.Create) -> str | None:
    comments = [p for p in _properties(tree) if isinstance(p, exp.SchemaCommentProperty)]
    return comments[0].this.name if comments else None


def _view_column_errors(
    tree: exp.Create, named: list[exp.Expr], output: list[str]
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
                hint="give them other names: SELECT ... AS name",
                span=span_of(tree.this),
            )
        ]
    return []


# --- elements of a table ---


def _read_element(element: exp.Expr, draft: _Draft) -> None:
    match element:
        case exp.ColumnDef():
            _read_column(element, draft)
        case exp.WatermarkColumnConstraint() if draft.watermark is not None:
            draft.add(DefinitionError("a table has one WATERMARK"), element)
        case exp.WatermarkColumnConstraint():
            draft.watermark = element
        case exp.Constraint():
            columns = tuple(name.name for name in element.expressions[0].expressions)
            draft.keys.append((element, PrimaryKey(columns=columns, name=element.this.name)))
        case exp.PrimaryKey():
            columns = tuple(name.name for name in element.expressions)
            draft.keys.append((element, PrimaryKey(columns=columns)))


def _read_column(node: exp.ColumnDef, draft: _Draft) -> None:
    name = node.this.name
    if name in draft.places:
        draft.add(DefinitionError(f"the column '{name}' is declared twice"), node.this)
        return
    draft.places[name] = node.this
    kinds = [constraint.args["kind"] for constraint in node.args.get("constraints") or []]
    comment = next((k.this.name for k in kinds if isinstance(k, exp.CommentColumnConstraint)), None)
    computed = next((k.this for k in kinds if isinstance(k, exp.ComputedColumnConstraint)), None)
    if computed is not None:
        draft.computed[name] = computed
        draft.columns.append(
            ComputedColumn(name=name, expression=to_text(computed), comment=comment)
        )
        return
    kind = _read_type(node.args["kind"], draft)
    if kind is None:
        return
    metadata = next((k for k in kinds if isinstance(k, exp.Anonymous)), None)
    if metadata is None:
        draft.columns.append(PhysicalColumn(name=name, type=kind, comment=comment))
    else:
        key = metadata.expressions[0].name if metadata.expressions else None
        draft.columns.append(
            MetadataColumn(
                name=name,
                type=kind,
                key=key,
                virtual=any(isinstance(k, exp.Var) for k in kinds),
                comment=comment,
            )
        )
    for kind_ in kinds:
        if isinstance(kind_, exp.PrimaryKeyColumnConstraint):
            draft.keys.append((kind_, PrimaryKey(columns=(name,))))
        elif isinstance(kind_, exp.Constraint):
            draft.keys.append((kind_, PrimaryKey(columns=(name,), name=kind_.this.name)))


def _read_type(tree: exp.DataType, draft: _Draft) -> LogicalType | None:
    try:
        return parse_type(to_text(tree))
    except InputError as error:
        draft.add(error, tree)
        return None


def _complete_computed(draft: _Draft) -> None:
    """Check the expressions of computed columns, and find their types where they tell them."""
    known = draft.known
    for index, column in enumerate(draft.columns):
        if not isinstance(column, ComputedColumn):
            continue
        tree = draft.computed[column.name]
        if not _check_expression(tree, draft, f"computed column '{column.name}'", known.names):
            continue
        try:
            to_spark(tree, known)
        except InputError as error:
            draft.add(error, tree)
            continue
        draft.columns[index] = ComputedColumn(
            name=column.name,
            expression=column.expression,
            type=infer_type(tree, known),
            comment=column.comment,
        )


def _check_expression(tree: exp.Expr, draft: _Draft, role: str, names: tuple[str, ...]) -> bool:
    before = len(draft.errors)
    for node in tree.find_all(exp.Query, exp.AggFunc, exp.Window, exp.Star):
        draft.add(DefinitionError(f"{role}: only values of the row itself can be used here"), node)
        return False
    for column in tree.find_all(exp.Column):
        root = column.parts[0]
        if root.name in names:
            continue
        if root.name in draft.places:
            draft.add(
                DefinitionError(
                    f"{role} uses '{root.name}', which is computed itself",
                    hint="write its expression out, as in Flink",
                ),
                root,
            )
        else:
            draft.unknown(root, role)
    return len(draft.errors) == before


def _check_keys(draft: _Draft) -> None:
    for node, _ in draft.keys[1:]:
        draft.add(DefinitionError("a table has one PRIMARY KEY"), node)
    for node, key in draft.keys[:1]:
        places = {part.name: part for part in node.find_all(exp.Identifier)}
        for name in key.columns:
            if name not in draft.places:
                draft.unknown(places.get(name, node), "PRIMARY KEY")


def _check_watermark(draft: _Draft) -> Watermark | None:
    node = draft.watermark
    if node is None:
        return None
    tree = node.expression
    watermark = Watermark(column=node.this.name, expression=to_text(tree))
    if node.this.name not in draft.places:
        draft.unknown(node.this, "WATERMARK")
    if draft.errors:
        return watermark
    if not _check_expression(tree, draft, "WATERMARK", tuple(draft.places)):
        return watermark
    used = {name: draft.computed[name] for name in columns_of(tree) if name in draft.computed}
    inlined = attach(substitute_tree(tree, used), source_of(tree))
    try:
        to_duckdb(inlined, draft.known)
    except UnsupportedError as error:
        draft.add(error, tree)
    return watermark


def _partition_keys(tree: exp.Create, draft: _Draft) -> tuple[str, ...]:
    keys: list[exp.Expr] = []
    for item in _properties(tree):
        if isinstance(item, exp.PartitionedByProperty):
            keys = item.this.expressions
    for key in keys:
        if key.name not in draft.places:
            draft.unknown(key, "PARTITIONED BY")
    return tuple(key.name for key in keys)


def option_keys(tree: exp.Create) -> list[exp.Literal]:
    """The keys of WITH as nodes, in order; a key may stand twice."""
    keys = [item.this for item in _properties(tree) if type(item) is exp.Property]
    return [key for key in keys if isinstance(key, exp.Literal)]


def _options(tree: exp.Create, draft: _Draft) -> tuple[tuple[str, str], ...]:
    options: dict[str, str] = {}
    for key in option_keys(tree):
        if key.name in options:
            draft.add(DefinitionError(f"the option '{key.name}' is given twice"), key)
        assert key.parent is not None, "a key stands in its Property"
        options[key.name] = key.parent.args["value"].name
    return tuple(options.items())
