"""What the queries of a run read and write, outside of Penstock: datasets with their columns, views written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table
from penstock.connector.capabilities import Dataset
from penstock.connector.registry import connector_of
from penstock.connector.urls import is_remote, local_path, resolve_path
from penstock.sql.check.script_check import CheckedScript
from penstock.sql.execution.context import SessionContext
from penstock.sql.jobs.startable_query import StartableQuery
from penstock.sql.lineage.build import LineageBuilder
from penstock.sql.lineage.graph import ColumnSource, Graph, LineageQuery, Node, NodeKind
from penstock.sql.runner.replay import replay
from penstock.sql.statements.statement import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetColumn:
    """A column of a dataset with its type; of one that is written, the columns that it is made of, and how."""

    name: str
    type: str | None = None
    sources: tuple[tuple[Dataset, str], ...] = ()
    expression: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDataset:
    """A table as datasets: several for one over several topics. `table` is its name in Penstock."""

    table: str
    datasets: tuple[Dataset, ...]
    columns: tuple[DatasetColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineLineage:
    """What one pipeline reads and writes. `is_bounded`: its tables have an end."""

    pipeline: str
    inputs: tuple[TableDataset, ...]
    outputs: tuple[TableDataset, ...]
    is_bounded: bool = False


def pipeline_lineages(
    scripts: Sequence[CheckedScript], context: SessionContext
) -> dict[str, PipelineLineage]:
    """Return the lineage of each query of planned files, by the name of its pipeline."""
    found: dict[str, PipelineLineage] = {}
    for one in replay(scripts, context):
        queries = [query for query in one.checked.queries if query.is_stream]
        namespace = one.planner.namespace
        found |= statement_lineages(one.checked.statement, queries, namespace, context.project)
    return found


def statement_lineages(
    statement: Statement, queries: Sequence[StartableQuery], namespace: Namespace, project: Path
) -> dict[str, PipelineLineage]:
    """Return the lineage of the queries that run a statement, by the name of their pipeline."""
    if not queries:
        return {}
    builder = LineageBuilder()
    builder.add_statement(statement, namespace)
    scope = _StatementGraph(graph=builder.graph(), namespace=namespace, project=project)
    return {
        query.pipeline: scope.lineage(query, _flows(scope.graph, query, alone=len(queries) == 1))
        for query in queries
    }


def _flows(graph: Graph, query: StartableQuery, *, alone: bool) -> list[LineageQuery]:
    """Return the flows of a query: of a statement set that runs as one query, all."""
    tables = [flow for flow in graph.flows if graph.nodes[flow.target].kind is not NodeKind.VIEW]
    own = [flow for flow in tables if str(flow.target) == query.sink]
    inserts = [flow for flow in tables if flow.by == "INSERT"]
    return own or (inserts if alone else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatementGraph:
    """The graph of one statement, and where its names are looked up."""

    graph: Graph
    namespace: Namespace
    project: Path

    def lineage(self, query: StartableQuery, flows: Sequence[LineageQuery]) -> PipelineLineage:
        sources = dict.fromkeys(
            s for flow in flows for name in flow.sources for s in self._tables(name)
        )
        return PipelineLineage(
            pipeline=query.pipeline,
            inputs=tuple(self._dataset(self.graph.nodes[name], None) for name in sources),
            outputs=tuple(self._dataset(self.graph.nodes[flow.target], flow) for flow in flows),
            is_bounded=query.bounded,
        )

    def _tables(self, name: Identifier) -> Iterator[Identifier]:
        """Return the tables behind a name: its own, or those that a view reads."""
        if self.graph.nodes[name].kind is not NodeKind.VIEW:
            yield name
            return
        for flow in self.graph.into(name):
            for source in flow.sources:
                yield from self._tables(source)

    def _dataset(self, node: Node, flow: LineageQuery | None) -> TableDataset:
        made_of = {} if flow is None else {each.column: each for each in flow.columns or ()}
        columns = []
        for column in node.columns:
            made = made_of.get(column.name)
            sources = () if made is None else tuple(self._origins(made.sources))
            expression = None if made is None else made.expression
            columns.append(
                DatasetColumn(
                    name=column.name, type=column.type, sources=sources, expression=expression
                )
            )
        return TableDataset(
            table=str(node.identifier),
            datasets=self._located(node.identifier),
            columns=tuple(columns),
        )

    def _origins(self, sources: Sequence[ColumnSource]) -> Iterator[tuple[Dataset, str]]:
        """Return the stored columns behind columns: through views, and those that computed ones are made of."""
        origins = dict.fromkeys(origin for source in sources for origin in self._stored(source))
        for origin in origins:
            for dataset in self._located(origin.table):
                yield dataset, origin.column

    def _stored(self, source: ColumnSource) -> Iterator[ColumnSource]:
        node = self.graph.nodes[source.table]
        if node.kind is NodeKind.VIEW:
            for flow in self.graph.into(source.table):
                for made in flow.columns or ():
                    if made.column == source.column:
                        for each in made.sources:
                            yield from self._stored(each)
            return
        column = next((each for each in node.columns if each.name == source.column), None)
        if column is None or column.kind != "computed":
            yield source
            return
        for name in column.sources:
            yield ColumnSource(table=source.table, column=name)

    def _located(self, identifier: Identifier) -> tuple[Dataset, ...]:
        try:
            table = self.namespace.lookup(identifier)
            if isinstance(table, Table):
                return datasets_of(table, self.project)
        except InputError:
            pass  # a definition of a catalog that does not answer has no address
        return (Dataset(namespace="penstock", name=str(identifier)),)


def datasets_of(table: Table, project: Path) -> tuple[Dataset, ...]:
    """Return where the rows of a table are; of one that keeps none, such as `print`, its name in Penstock."""
    connector = connector_of(table, project=project)
    if found := connector.datasets(table):
        return tuple(found)
    folder = connector.folder(table)
    if folder is None:
        return (Dataset(namespace="penstock", name=str(table.identifier)),)
    if not is_remote(folder):
        path = resolve_path(local_path(folder), project)
        return (Dataset(namespace="file", name=path),)
    parts = urlsplit(folder)
    name = parts.path.strip("/") or "/"
    return (Dataset(namespace=f"{parts.scheme.lower()}://{parts.netloc}", name=name),)
