"""Lineage as values: objects with their columns, and the flows between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal

from penstock.catalog.model.identifier import Identifier, quote
from penstock.catalog.model.namespaces import DEFAULT_CATALOG, DEFAULT_DATABASE

Direction = Literal["upstream", "downstream"]


def shown_name(identifier: Identifier) -> str:
    """Write a name as a person would: without the default catalog, and without the default database in it."""
    if identifier.catalog != DEFAULT_CATALOG:
        return str(identifier)
    if identifier.database != DEFAULT_DATABASE:
        return f"{quote(identifier.database)}.{quote(identifier.name)}"
    return quote(identifier.name)


class NodeKind(StrEnum):
    """What an object is."""

    TABLE = "TABLE"
    VIEW = "VIEW"
    MATERIALIZED_TABLE = "MATERIALIZED TABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeColumn:
    """A column of an object. `kind` is physical, metadata, computed, or query for those of a view.

    A computed one has its `expression`, and `sources`: the physical and metadata columns that it is computed from.
    `type` is None where it is unknown without Spark.
    """

    name: str
    kind: Literal["physical", "metadata", "computed", "query"]
    type: str | None = None
    expression: str | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A table or view. `columns` are empty where those of a view are unknown without Spark."""

    identifier: Identifier
    kind: NodeKind
    connector: str | None = None
    columns: tuple[NodeColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ColumnSource:
    """A column of an object that a flow reads."""

    table: Identifier
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFlow:
    """What fills a column: an expression of Flink SQL, and the columns that it is made of, none for a constant."""

    column: str
    expression: str
    sources: tuple[ColumnSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageQuery:
    """A query that fills an object. `by` is VIEW, MATERIALIZED TABLE or INSERT, `position` file:line of a statement.

    `sources` are the objects that the query names, in order; `columns` None where they are unknown without Spark.
    """

    target: Identifier
    sources: tuple[Identifier, ...]
    by: str
    position: str | None = None
    columns: tuple[ColumnFlow, ...] | None = None

    def columns_from(self, source: Identifier) -> tuple[ColumnFlow, ...]:
        """Return the columns that are made of columns of `source`."""
        flows = self.columns or ()
        return tuple(each for each in flows if any(s.table == source for s in each.sources))


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Objects and the flows between them. Flows may go round."""

    nodes: Mapping[Identifier, Node] = field(default_factory=dict)
    flows: tuple[LineageQuery, ...] = ()

    def into(self, target: Identifier) -> tuple[LineageQuery, ...]:
        """Return the flows that fill an object."""
        return tuple(self._by_target.get(target, ()))

    def out_of(self, source: Identifier) -> tuple[LineageQuery, ...]:
        """Return the flows that read an object."""
        return tuple(self._by_source.get(source, ()))

    @cached_property
    def _by_target(self) -> Mapping[Identifier, Sequence[LineageQuery]]:
        found: dict[Identifier, list[LineageQuery]] = {}
        for flow in self.flows:
            found.setdefault(flow.target, []).append(flow)
        return found

    @cached_property
    def _by_source(self) -> Mapping[Identifier, Sequence[LineageQuery]]:
        found: dict[Identifier, list[LineageQuery]] = {}
        for flow in self.flows:
            for source in dict.fromkeys(flow.sources):
                found.setdefault(source, []).append(flow)
        return found

    def around(self, start: Identifier, directions: Iterable[Direction]) -> Graph:
        """Return the sources of `start` (upstream), and what is derived from it (downstream)."""
        reachable: dict[Identifier, None] = {start: None}
        flows: dict[int, None] = {}
        for direction in directions:
            reached = {start}
            todo = deque([start])
            while todo:
                current = todo.popleft()
                up = direction == "upstream"
                for flow in self.into(current) if up else self.out_of(current):
                    flows[id(flow)] = None
                    for other in flow.sources if up else (flow.target,):
                        if other not in reached:
                            reached.add(other)
                            todo.append(other)
            reachable |= dict.fromkeys(reached)
        return Graph(
            nodes={name: node for name, node in self.nodes.items() if name in reachable},
            flows=tuple(flow for flow in self.flows if id(flow) in flows),
        )
