"""A table while it is put together from a statement: its parts with their places, and all that is wrong with it.

CREATE TABLE fills one from nothing, LIKE from another table, ALTER TABLE from the table as it is; the rules are
checked once, at the end. Expressions are kept as Flink SQL in one spelling (comments and layout gone), so that
equal definitions are equal values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    InputErrors,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    Schema,
    Table,
    TableDistribution,
    Watermark,
)
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import LogicalType
from penstock.sql.dialect.flink.trees import to_text
from penstock.sql.expressions.expression import (
    columns_of,
    infer_type,
    parse_expression,
    substitute_tree,
    to_duckdb,
    to_spark,
)
from penstock.sql.syntax.positions import attach, source_of, span_of


@dataclass(slots=True)
class TableBuilder:
    """Columns in order, watermark and keys, with the nodes that they were read from.

    `where` is the place of errors without a node in the statement.
    """

    where: exp.Expr
    errors: list[InputError] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    nodes: dict[str, exp.Expr] = field(default_factory=dict)
    computed: dict[str, exp.Expr] = field(default_factory=dict)
    watermark: exp.WatermarkColumnConstraint | None = None
    keys: list[tuple[exp.Expr, PrimaryKey]] = field(default_factory=list)
    unread: bool = False
    """Whether a column could not be read, so that errors about others would be meaningless."""

    # --- errors ---

    def add(self, error: InputError, node: exp.Expr) -> None:
        """Note an error, at a node."""
        error.span = error.span or span_of(node) or span_of(self.where)
        self.errors.append(error)

    def unknown(self, node: exp.Expr, role: str) -> None:
        """Note that a column is named that is not there."""
        names = list(self.nodes)
        hint = did_you_mean(node.name, names) or f"columns are: {', '.join(names)}"
        self.add(UnknownObjectError(f"{role}: there is no column '{node.name}'", hint=hint), node)

    def raise_errors(self) -> None:
        """Raise InputErrors if anything was wrong, in the order of the places."""
        if self.errors:
            raise InputErrors(sorted(self.errors, key=_position))

    # --- parts ---

    @property
    def known(self) -> Schema:
        """The columns that an expression of a computed column may use."""
        plain = [c for c in self.columns if not isinstance(c, ComputedColumn)]
        return Schema(columns=tuple(plain))

    def load(self, columns: tuple[Column, ...]) -> None:
        """Copy columns of an existing table; none of them has a position in the statement."""
        for column in columns:
            self.put(column, exp.to_identifier(column.name, quoted=True))

    def load_watermark(self, watermark: Watermark) -> None:
        """Copy the watermark of an existing table."""
        self.watermark = exp.WatermarkColumnConstraint(
            this=exp.to_identifier(watermark.column, quoted=True),
            expression=parse_expression(watermark.expression),
        )

    def load_key(self, key: PrimaryKey) -> None:
        """Copy the key of an existing table."""
        names = [exp.to_identifier(name, quoted=True) for name in key.columns]
        self.keys.append((exp.PrimaryKey(expressions=names), key))

    def put(self, column: Column, node: exp.Expr, index: int | None = None) -> None:
        """Add a column, or let it take the place of the one of its name; at `index` where that is given."""
        at = self.index(column.name)
        if at is not None:
            del self.columns[at]
        if index is None:
            index = len(self.columns) if at is None else at
        self.columns.insert(index, column)
        self.nodes[column.name] = node
        if isinstance(column, ComputedColumn):
            self.computed.setdefault(column.name, parse_expression(column.expression))

    def index(self, name: str) -> int | None:
        """Where a column stands; None if it is not there."""
        return next((i for i, column in enumerate(self.columns) if column.name == name), None)

    # --- reading ---

    def read_element(self, element: exp.Expr) -> None:
        """Add an element of CREATE TABLE: a column, the watermark, a key."""
        match element:
            case exp.ColumnDef():
                name = element.this.name
                if name in self.nodes:
                    error = DefinitionError(f"the column '{name}' is declared twice")
                    self.add(error, element.this)
                    self.unread = True
                elif column := self.read_column(element):
                    self.put(column, element.this)
                else:
                    self.nodes[name] = element.this
            case _:
                self.read_rule(element)

    def read_rule(self, element: exp.Expr) -> None:
        """Add a watermark or a key."""
        match element:
            case exp.WatermarkColumnConstraint() if self.watermark is not None:
                self.add(DefinitionError("a table has one WATERMARK"), element)
            case exp.WatermarkColumnConstraint():
                self.watermark = element
            case exp.Constraint():
                columns = tuple(name.name for name in element.expressions[0].expressions)
                self.keys.append((element, PrimaryKey(columns=columns, name=element.this.name)))
            case exp.PrimaryKey():
                columns = tuple(name.name for name in element.expressions)
                self.keys.append((element, PrimaryKey(columns=columns)))

    def read_column(self, node: exp.ColumnDef) -> Column | None:
        """The column of a declaration; its key, if it has one, is taken over. None where its type is wrong."""
        name, kinds = node.this.name, column_kinds(node)
        comments = [k for k in kinds if isinstance(k, exp.CommentColumnConstraint)]
        comment = comments[0].this.name if comments else None
        computed = next(
            (k.this for k in kinds if isinstance(k, exp.ComputedColumnConstraint)), None
        )
        if computed is not None:
            self.computed[name] = computed
            return ComputedColumn(name=name, expression=to_text(computed), comment=comment)
        kind = self._read_type(node.args["kind"])
        if kind is None:
            return None
        for constraint in kinds:
            if isinstance(constraint, exp.PrimaryKeyColumnConstraint):
                self.keys.append((constraint, PrimaryKey(columns=(name,))))
            elif isinstance(constraint, exp.Constraint):
                key = PrimaryKey(columns=(name,), name=constraint.this.name)
                self.keys.append((constraint, key))
        metadata = next((k for k in kinds if isinstance(k, exp.Anonymous)), None)
        if metadata is None:
            return PhysicalColumn(name=name, type=kind, comment=comment)
        return MetadataColumn(
            name=name,
            type=kind,
            key=metadata.expressions[0].name if metadata.expressions else None,
            virtual=any(isinstance(k, exp.Var) for k in kinds),
            comment=comment,
        )

    def _read_type(self, tree: exp.DataType) -> LogicalType | None:
        try:
            return parse_type(to_text(tree))
        except InputError as error:
            self.add(error, tree)
            self.unread = True
            return None

    # --- checks ---

    def build(
        self,
        identifier: Identifier,
        *,
        options: tuple[tuple[str, str], ...] = (),
        partition_keys: tuple[str, ...] = (),
        comment: str | None = None,
        temporary: bool = False,
        distribution: TableDistribution | None = None,
    ) -> Table:
        """The table, all rules checked. Raises InputErrors with all that is wrong."""
        self._drop_computed_of_others()
        if not self.columns and not self.errors:
            self.add(DefinitionError("a table has columns"), self.where)
        if not self.unread:
            self._complete_computed()
        self._check_keys()
        watermark = self._checked_watermark()
        self.raise_errors()
        try:
            return Table(
                identifier=identifier,
                schema=Schema(
                    columns=tuple(self.columns),
                    watermark=watermark,
                    primary_key=self.keys[0][1] if self.keys else None,
                ),
                options=options,
                partition_keys=partition_keys,
                comment=comment,
                temporary=temporary,
                distribution=distribution,
            )
        except InputError as error:
            self.add(error, self.watermark.this if self.watermark else self.where)
            raise InputErrors(self.errors) from None

    def _drop_computed_of_others(self) -> None:
        """Forget the expressions of columns that are computed no more."""
        names = {c.name for c in self.columns if isinstance(c, ComputedColumn)}
        self.computed = {name: tree for name, tree in self.computed.items() if name in names}

    def _complete_computed(self) -> None:
        """Check the expressions of computed columns, and find their types where they tell them."""
        known = self.known
        for index, column in enumerate(self.columns):
            if not isinstance(column, ComputedColumn):
                continue
            tree = self.computed[column.name]
            role = f"computed column '{column.name}'"
            if not self._check_expression(tree, role, known.names):
                continue
            try:
                to_spark(tree, known)
            except InputError as error:
                self.add(error, tree)
                continue
            self.columns[index] = replace(column, type=infer_type(tree, known))

    def _check_expression(self, tree: exp.Expr, role: str, names: tuple[str, ...]) -> bool:
        before = len(self.errors)
        for node in tree.find_all(exp.Query, exp.AggFunc, exp.Window, exp.Star):
            message = f"{role}: only values of the row itself can be used here"
            self.add(DefinitionError(message), node)
            return False
        for column in tree.find_all(exp.Column):
            root = column.parts[0]
            if root.name in names:
                continue
            if root.name in self.nodes:
                self.add(
                    DefinitionError(
                        f"{role} uses '{root.name}', which is computed itself",
                        hint="write its expression out, as in Flink",
                    ),
                    root,
                )
            else:
                self.unknown(root, role)
        return len(self.errors) == before

    def _check_keys(self) -> None:
        for node, _ in self.keys[1:]:
            self.add(DefinitionError("a table has one PRIMARY KEY"), node)
        for node, key in self.keys[:1]:
            nodes = {part.name: part for part in node.find_all(exp.Identifier)}
            for name in key.columns:
                if name not in self.nodes:
                    self.unknown(nodes.get(name, node), "PRIMARY KEY")

    def _checked_watermark(self) -> Watermark | None:
        node = self.watermark
        if node is None:
            return None
        tree = node.expression
        watermark = Watermark(column=node.this.name, expression=to_text(tree))
        if node.this.name not in self.nodes:
            self.unknown(node.this, "WATERMARK")
        if self.errors:
            return watermark
        if not self._check_expression(tree, "WATERMARK", tuple(self.nodes)):
            return watermark
        used = {name: self.computed[name] for name in columns_of(tree) if name in self.computed}
        inlined = attach(substitute_tree(tree, used), source_of(tree))
        try:
            to_duckdb(inlined, self.known)
        except UnsupportedError as error:
            self.add(error, tree)
        return watermark


def column_kinds(node: exp.ColumnDef) -> list[exp.Expr]:
    """What stands behind a column's type: METADATA, COMMENT, PRIMARY KEY, ..."""
    return [constraint.args["kind"] for constraint in node.args.get("constraints") or []]


def _position(error: InputError) -> tuple[int, int]:
    return (error.span.line, error.span.column) if error.span else (0, 0)
