"""What a published name resolves to: a table of Spark, a scan, a query, or `information_schema`; with its columns.

Asks Spark only whether a table that it reads by itself exists yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from penstock.catalog.definitions.encryption import encrypt_references
from penstock.catalog.definitions.information_schema import is_information
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import ComputedColumn, Table, View
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import LogicalType
from penstock.connector.capabilities import SparkRelation
from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.connector.contract import SourceKind, SplitSource
from penstock.connector.registry import connector_of
from penstock.connector.scan import Scan
from penstock.connector.spark.source.columns import LOST, SKIPPED, scan_schema
from penstock.connector.spark.source.data_source import SnapshotReader
from penstock.connector.spark.types import spark_schema, spark_type
from penstock.sql.binding.binder import columns_of_object
from penstock.sql.dialect import parse_query, to_text
from penstock.sql.expressions.expression import infer_type
from penstock.sql.plan.rules.inline import find_relations
from penstock.sql.publish.text import (
    PublishedName,
    empty_text,
    scanned_text,
    selected_text,
    view_text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InformationReader:
    """Reads one of the tables from the store at `catalog`; it does not see temporary objects of a session."""

    table: Table
    catalog: str
    project: Path

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the table as a frame; nothing is asked before it runs."""
        schema = spark_schema(self.table.schema.physical)
        return spark.range(0, 1, 1, 1).mapInArrow(self._read, schema)

    def _read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from penstock.catalog.store.sql_catalog import SqlCatalog
        from penstock.sql.execution.context import open_names
        from penstock.sql.information_schema.rows import information_rows

        for _ in batches:
            continue  # the range only makes the task
        names = open_names(SqlCatalog(self.catalog), self.project, offline=True)
        yield from information_rows(self.table, names, self.project).to_batches()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedColumn:
    """A column as Spark shows it. `type` is None where only Spark can tell it."""

    name: str
    type: DataType | None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A folder that Spark reads by itself, in the format that it calls `provider`."""

    provider: str
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedQuery:
    """The result of a text of Spark SQL. `pending`: nothing was written yet, so it has to be checked again."""

    text: str
    pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScan:
    """A table of the split runtime, read once to what it holds when a query starts. `schema` is that of the scan."""

    scan: Scan
    schema: StructType
    changes: ChangelogMode

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the relation that reads the scan."""
        return SnapshotReader(scan=self.scan, schema=self.schema).frame(spark)

    def text(self, relation: str) -> str:
        """Select the table's rows of the relation that reads the scan. Raises UnsupportedError."""
        return scanned_text(
            self.scan.table,
            relation,
            changes=self.changes,
            counts_skipped=SKIPPED in self.schema.fieldNames(),
            counts_lost=LOST in self.schema.fieldNames(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFrame:
    """A table that another engine is asked for when a query runs (JDBC, the catalog itself)."""

    table: Table
    frame: Callable[[SparkSession], DataFrame]

    def text(self, relation: str) -> str:
        """Select the table's rows of the relation that is the frame."""
        return selected_text(self.table, relation)


PublishedSource = PublishedTable | PublishedQuery | PublishedScan | PublishedFrame


def resolve_published(
    found: Table | View,
    namespace: Namespace,
    project: Path,
    spark: SparkSession,
    published_names: Mapping[Identifier, PublishedName],
    *,
    catalog: str,
) -> PublishedSource:
    """Resolve a definition to what is published. `published_names` are the names that tables are published under.

    `catalog` is the URL of the store.

    Raises UnsupportedError for what plain Spark SQL cannot read, and InputError for a definition that is wrong.
    """
    if isinstance(found, View):
        return PublishedQuery(text=view_text(found, namespace, published_names))
    if is_information(found.identifier):
        reader = InformationReader(table=found, catalog=catalog, project=project)
        return PublishedFrame(table=found, frame=reader.frame)
    found = encrypt_references(found, namespace.secrets)
    connector = connector_of(found, project=project)
    publishable = connector.publishable(found)
    if publishable is not None:
        return _related(found, publishable.relation(spark))
    source = connector.source(found)
    if source.kind is SourceKind.SPLITS:
        return _scanned(found, source, project, spark)
    if source.kind is SourceKind.SNAPSHOT:
        return PublishedFrame(table=found, frame=partial(source.frame, streaming=False))
    raise UnsupportedError(
        f"tables with 'connector' = '{found.connector}' are not read by plain Spark SQL",
        hint=f"session.table('{found.identifier.name}') reads it",
    )


def fields_of(found: Table | View, namespace: Namespace) -> tuple[PublishedColumn, ...]:
    """Return the columns, in order; none where the names of a view's columns are unknown."""
    if isinstance(found, Table):
        fields = []
        for column in found.schema.columns:
            logical = column.type
            if logical is None and isinstance(column, ComputedColumn):
                logical = infer_type(column.expression, found.schema)
            fields.append(
                PublishedColumn(name=column.name, type=_spark_type(logical), comment=column.comment)
            )
        return tuple(fields)
    columns = columns_of_object(found, namespace)
    if columns is None:
        return ()
    comments = _inherited(found, namespace) | {
        name: comment
        for name, comment in zip(found.columns, found.column_comments, strict=False)
        if comment is not None
    }
    return tuple(
        PublishedColumn(
            name=name,
            type=None if kind is None else _spark_type(parse_type(to_text(kind))),
            comment=comments.get(name),
        )
        for name, kind in columns.items()
    )


def _scanned(
    table: Table, source: SplitSource, project: Path, spark: SparkSession
) -> PublishedScan:
    computed = {column.name for column in table.schema.computed}
    columns = tuple(name for name in table.schema.names if name not in computed)
    if source.changes is not ChangelogMode.INSERT_ONLY:
        columns = (*columns, ROW_KIND)
    scan = Scan(
        table=table,
        columns=columns,
        rowtime=None,
        time_zone=spark.conf.get("spark.sql.session.timeZone") or "UTC",
        project=str(project),
    )
    schema = scan_schema(
        scan, counts_skipped=source.skips_bad_records, counts_lost=source.tolerates_loss
    )
    return PublishedScan(scan=scan, schema=schema, changes=source.changes)


def _related(table: Table, found: SparkRelation | None) -> PublishedTable | PublishedQuery:
    if found is None:
        return _empty(table)
    if found.provider is not None and not table.schema.computed:
        return PublishedTable(provider=found.provider, location=found.location)
    return PublishedQuery(text=selected_text(table, found.text))


def _empty(table: Table) -> PublishedQuery:
    known = [
        (column.name, spark_type(column.type).simpleString())
        for column in table.schema.columns
        if column.type is not None
    ]
    return PublishedQuery(text=selected_text(table, f"({empty_text(known)})"), pending=True)


def _spark_type(logical: LogicalType | None) -> DataType | None:
    return None if logical is None else spark_type(logical)


def _inherited(view: View, namespace: Namespace) -> dict[str, str]:
    """Find the comments of columns that a view takes over as they are."""
    query = parse_query(view.query)
    known: dict[str, str | None] = {}
    for leaf in find_relations(query, namespace).leaves:
        for column in leaf.table.schema.columns:
            # two tables with a column of one name: which one is meant is not told by the name
            known[column.name] = None if column.name in known else column.comment
    selects = query.selects if hasattr(query, "selects") else []
    names = view.columns or tuple(item.alias_or_name for item in selects)
    found = {}
    for name, item in zip(names, selects, strict=False):
        comment = known.get(item.unalias().name)
        if comment is not None and item.unalias().key == "column":
            found[name] = comment
    if query.is_star:
        found |= {name: comment for name, comment in known.items() if comment is not None}
    return found
