# ruff: noqa: S608  this module writes SQL; names are quoted by `quoted`
"""Tables and views of the catalog as SQL for Spark's own catalog: what stands behind a name that `spark.sql` finds.

Pure text: nothing here asks Spark. `publisher.py` makes catalog entries of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import Identifier, quoted
from penstock.catalog.model.table import Schema, Table, View
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.spark.source.columns import LOST, SKIPPED
from penstock.sql.binding.binder import annotate
from penstock.sql.dialect import parse_query, table_options, to_spark_query
from penstock.sql.dialect.rewrites.session_windows import rewrite_session_windows
from penstock.sql.dialect.rewrites.unfold_grouping_sets import unfold_group_ids
from penstock.sql.dialect.rewrites.window_queries import to_spark_text
from penstock.sql.expressions.expression import to_spark
from penstock.sql.plan.rules.inline import find_relations

_AT, _NTH = "__at", "__nth"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PublishedName:
    """A name in Spark's session catalog."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{quoted(self.database)}.{quoted(self.name)}"


def selected_text(table: Table, relation: str) -> str:
    """Select a table's columns, computed ones too, of a relation that has its physical and metadata columns."""
    return f"SELECT {', '.join(_items(table.schema))} FROM {relation}"


def scanned_text(
    table: Table,
    relation: str,
    *,
    changes: ChangelogMode,
    counts_skipped: bool,
    counts_lost: bool = False,
) -> str:
    """Select the rows that a scanned table holds now; of changes, their final rows.

    Raises UnsupportedError for changes without a key: a delete does not identify its row.
    """
    if counts_skipped or counts_lost:
        marker = quoted(SKIPPED if counts_skipped else LOST)
        relation = f"(SELECT * FROM {relation} WHERE {marker} IS NULL)"
    if changes is ChangelogMode.INSERT_ONLY:
        return selected_text(table, relation)
    key = table.schema.primary_key
    if key is None:
        raise UnsupportedError(
            f"{table.identifier} holds changes, and without a PRIMARY KEY Spark SQL cannot tell which row each is of",
            hint="declare PRIMARY KEY (...) NOT ENFORCED, or read it with session.table",
        )
    # a key is in one partition, whose ranges and records Spark numbers in their order
    keys = ", ".join(quoted(name) for name in key.columns)
    kind = quoted(ROW_KIND)
    numbered = f"(SELECT *, monotonically_increasing_id() AS {_AT} FROM {relation})"
    newest = (
        f"(SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {_AT} DESC) AS {_NTH} FROM {numbered} "
        f"WHERE {kind} <> {int(RowKind.UPDATE_BEFORE)})"
    )
    rows = f"(SELECT * FROM {newest} WHERE {_NTH} = 1 AND {kind} <> {int(RowKind.DELETE)})"
    return selected_text(table, rows)


def empty_text(columns: Sequence[tuple[str, str]]) -> str:
    """Select nothing, of the columns (name, Spark type): a table without any write yet."""
    items = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns)
    return f"SELECT {items} WHERE false"


def view_text(
    view: View, namespace: Namespace, published_names: Mapping[Identifier, PublishedName]
) -> str:
    """Write a view's query over the names that its tables are published under.

    Raises UnsupportedError where a table is not published, or Spark has no words for the query; InputError for a
    query that is wrong.
    """
    relations = find_relations(parse_query(view.query), namespace)
    annotate(relations.query, namespace)
    for leaf in relations.leaves:
        published_name = published_names.get(leaf.table.identifier)
        if published_name is None:
            raise UnsupportedError(f"it reads {leaf.table.identifier}, which is not published")
        for node in leaf.nodes:
            _refuse_hints(node)
            _rename(node, published_name)
    unfold_group_ids(relations.query)
    query = rewrite_session_windows(relations.query)
    text = to_spark_text(query, to_spark_query)
    if not view.columns:
        return text
    names = ", ".join(quoted(name) for name in view.columns)
    return f"SELECT * FROM ({text}) AS {quoted(view.identifier.name)} ({names})"


def _items(schema: Schema) -> list[str]:
    computed = {column.name: column.expression for column in schema.computed}
    items = []
    for name in schema.names:
        if name not in computed:
            items.append(quoted(name))
            continue
        items.append(f"{to_spark(computed[name], schema)} AS {quoted(name)}")
    return items


def _refuse_hints(node: exp.Table) -> None:
    if table_options(node):
        raise UnsupportedError(
            f"it reads {node.name} with OPTIONS, which Spark SQL cannot hand on to a table",
            hint="declare a table of its own with these options: CREATE TABLE ... LIKE",
        )


def _rename(node: exp.Table, published_name: PublishedName) -> None:
    alias = node.alias or node.name
    names = node.args["alias"].args.get("columns") if node.args.get("alias") else None
    node.set(
        "alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=names or [])
    )
    node.set("this", exp.to_identifier(published_name.name, quoted=True))
    node.set("db", exp.to_identifier(published_name.database, quoted=True))
    node.set("catalog", None)
