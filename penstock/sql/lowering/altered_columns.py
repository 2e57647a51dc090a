"""ADD, MODIFY, DROP and RENAME of columns, watermark, key and distribution: the table that comes of them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.catalog.distribution import Distribution
from penstock.catalog.errors import DefinitionError, UnknownObjectError, did_you_mean
from penstock.catalog.schema import Column, ComputedColumn, MetadataColumn, PrimaryKey
from penstock.catalog.table import Table
from penstock.sql.definitions import read_distribution
from penstock.sql.dialect.ddl_nodes import AlterElements
from penstock.sql.dialect.ddl_nodes import Distribution as DistributionNode
from penstock.sql.expressions import columns_of
from penstock.sql.table_draft import TableDraft

__all__ = ["add_elements", "drop_columns", "modify_elements", "rename_column"]


def add_elements(before: Table, action: AlterElements) -> Table:
    """The table with new parts; none of them may be there yet. Raises InputErrors."""
    draft = _draft_of(before, action)
    distribution = before.distribution
    for element in action.expressions:
        match element:
            case exp.ColumnDef():
                _add_column(element, draft)
            case DistributionNode() if distribution is not None:
                draft.add(_there_already("a distribution", "DISTRIBUTION"), element)
            case DistributionNode():
                distribution = read_distribution(element, draft)
            case exp.WatermarkColumnConstraint() if draft.watermark is not None:
                draft.add(_there_already("a watermark", "WATERMARK"), element)
            case exp.PrimaryKey() | exp.Constraint() if draft.keys:
                draft.add(_there_already("a primary key", "PRIMARY KEY"), element)
            case _:
                draft.read_rule(element)
    return _built(before, draft, distribution)


def modify_elements(before: Table, action: AlterElements) -> Table:
    """The table with other parts in place of those that it has. Raises InputErrors."""
    draft = _draft_of(before, action)
    distribution = before.distribution
    old_keys, seen = list(draft.keys), set[str]()
    for element in action.expressions:
        match element:
            case exp.ColumnDef():
                _modify_column(element, draft, seen)
            case DistributionNode() if distribution is None:
                draft.add(_not_there("distribution", "DISTRIBUTION"), element)
            case DistributionNode():
                distribution = read_distribution(element, draft)
            case exp.WatermarkColumnConstraint() if draft.watermark is None:
                draft.add(_not_there("watermark", "WATERMARK"), element)
            case exp.WatermarkColumnConstraint():
                draft.watermark = element
            case _:
                draft.read_rule(element)
    new_keys = draft.keys[len(old_keys) :]
    if new_keys and not old_keys:
        draft.add(_not_there("primary key", "PRIMARY KEY"), new_keys[0][0])
    draft.keys = new_keys or old_keys
    return _built(before, draft, distribution)


def drop_columns(before: Table, action: exp.Drop) -> Table:
    """The table without some columns, which nothing else may use. Raises InputErrors."""
    draft = TableDraft(where=action)
    names = [node.name for node in action.expressions]
    left = tuple(column for column in before.schema.columns if column.name not in names)
    for index, node in enumerate(action.expressions):
        if node.name in names[:index]:
            draft.add(DefinitionError(f"the column '{node.name}' is named twice"), node)
        elif _is_known(node, before, draft):
            _check_unused(node, before, left, draft)
    key = before.schema.primary_key
    for node in action.expressions:
        if key is not None and node.name in key.columns:
            draft.add(_in_use(node.name, "the primary key", "DROP PRIMARY KEY first"), node)
    if not left:
        draft.add(DefinitionError("a table has columns: one has to stay"), action)
    draft.raise_errors()
    return replace(before, schema=replace(before.schema, columns=left))


def rename_column(before: Table, action: exp.RenameColumn) -> Table:
    """The table with one column by another name, in its key too. Raises InputErrors."""
    draft = TableDraft(where=action)
    old, new = action.this.name, action.args["to"]
    if _is_known(action.this, before, draft):
        others = tuple(column for column in before.schema.columns if column.name != old)
        _check_unused(action.this, before, others, draft)
    if new.name in before.schema.names:
        draft.add(DefinitionError(f"there is a column '{new.name}' already"), new)
    draft.raise_errors()
    columns = tuple(_renamed(c, new.name) if c.name == old else c for c in before.schema.columns)
    key = before.schema.primary_key
    if key is not None:
        names = tuple(new.name if name == old else name for name in key.columns)
        key = PrimaryKey(columns=names, name=key.name)
    return replace(before, schema=replace(before.schema, columns=columns, primary_key=key))


# --- parts ---


def _draft_of(before: Table, action: AlterElements) -> TableDraft:
    draft = TableDraft(where=action)
    draft.load(before.schema.columns)
    if before.schema.watermark is not None:
        draft.load_watermark(before.schema.watermark)
    if before.schema.primary_key is not None:
        draft.load_key(before.schema.primary_key)
    return draft


def _built(before: Table, draft: TableDraft, distribution: Distribution | None) -> Table:
    return draft.build(
        before.identifier,
        options=before.options,
        partition_keys=before.partition_keys,
        comment=before.comment,
        temporary=before.temporary,
        distribution=distribution,
    )


def _add_column(node: exp.ColumnDef, draft: TableDraft) -> None:
    if node.this.name in draft.places:
        error = DefinitionError(
            f"there is a column '{node.this.name}' already",
            hint="MODIFY changes a column that is there",
        )
        draft.add(error, node.this)
        return
    index = _index(node, draft)
    if column := draft.read_column(node):
        draft.put(column, node.this, index)


def _modify_column(node: exp.ColumnDef, draft: TableDraft, seen: set[str]) -> None:
    name = node.this.name
    at = draft.index(name)
    if at is None:
        draft.unknown(node.this, "MODIFY")
        return
    if name in seen:
        draft.add(DefinitionError(f"the column '{name}' is named twice"), node.this)
    seen.add(name)
    old = draft.columns[at]
    column = draft.read_column(node)
    if column is None:
        return
    if column.comment is None:
        column = replace(column, comment=old.comment)  # as in Flink: what is not said stays
    index = _index(node, draft)
    # once it is taken out, what stands behind it moves up
    draft.put(column, node.this, index - 1 if index is not None and at < index else index)


def _index(node: exp.ColumnDef, draft: TableDraft) -> int | None:
    """Where FIRST or AFTER puts a column; None without either."""
    position = node.args.get("position")
    if position is None:
        return None
    if position.this is None:
        return 0
    after = draft.index(position.this.name)
    if after is None:
        draft.unknown(position.this, "AFTER")
        return None
    return after + 1


def _is_known(node: exp.Expr, table: Table, draft: TableDraft) -> bool:
    names = table.schema.names
    if node.name in names:
        return True
    hint = did_you_mean(node.name, names) or f"columns are: {', '.join(names)}"
    draft.add(UnknownObjectError(f"there is no column '{node.name}'", hint=hint), node)
    return False


def _check_unused(
    node: exp.Expr, table: Table, others: tuple[Column, ...], draft: TableDraft
) -> None:
    """Note who of those that stay uses a column (Flink: ReferencesManager)."""
    name, watermark = node.name, table.schema.watermark
    for column in others:
        if isinstance(column, ComputedColumn) and name in columns_of(column.expression):
            user = f"the computed column '{column.name}'"
            draft.add(_in_use(name, user, f"drop '{column.name}' too, or MODIFY it first"), node)
    if name in table.partition_keys:
        draft.add(_in_use(name, "PARTITIONED BY", "a table keeps its partition keys"), node)
    if table.distribution is not None and name in table.distribution.columns:
        draft.add(_in_use(name, "the distribution", "DROP DISTRIBUTION first"), node)
    if watermark is not None and name in {watermark.column} | columns_of(watermark.expression):
        draft.add(_in_use(name, "the watermark", "DROP WATERMARK first"), node)


def _renamed(column: Column, name: str) -> Column:
    if isinstance(column, MetadataColumn):
        # without a key of its own it is its name that says which metadata it is
        return replace(column, name=name, key=column.metadata_key)
    return replace(column, name=name)


def _in_use(name: str, user: str, hint: str) -> DefinitionError:
    return DefinitionError(f"the column '{name}' is used by {user}", hint=hint)


def _there_already(what: str, word: str) -> DefinitionError:
    return DefinitionError(
        f"the table has {what} already", hint=f"MODIFY {word} changes it, DROP {word} takes it away"
    )


def _not_there(what: str, word: str) -> DefinitionError:
    return DefinitionError(f"the table has no {what}", hint=f"ADD {word} gives it one")
