"""Lineage as a Mermaid flowchart, for Markdown pages that draw it (GitHub and GitLab do)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.catalog.model.identifier import Identifier
from penstock.sql.lineage.graph import Graph, LineageQuery, Node, NodeKind, shown_name

__all__ = ["mermaid_lines"]

_SHAPES = {
    NodeKind.TABLE: ('[("', '")]'),
    NodeKind.VIEW: ('(["', '"])'),
    NodeKind.MATERIALIZED_TABLE: ('[["', '"]]'),
}


def mermaid_lines(graph: Graph, *, columns: bool) -> list[str]:
    """Write a graph; with `columns` each object is a box of the columns that flow, and arrows join columns."""
    ids = {name: f"n{number}" for number, name in enumerate(graph.nodes)}
    if not columns:
        return ["flowchart LR", *_objects(graph, ids), *_arrows(graph, ids)]
    return ["flowchart LR", *_boxes(graph, ids), *_column_arrows(graph, ids)]


def _objects(graph: Graph, ids: Mapping[Identifier, str]) -> Iterator[str]:
    for name, node in graph.nodes.items():
        opening, closing = _SHAPES[node.kind]
        yield f"  {ids[name]}{opening}{_label(node, '<br/>')}{closing}"


def _arrows(graph: Graph, ids: Mapping[Identifier, str]) -> Iterator[str]:
    for flow in graph.flows:
        for source in flow.sources:
            if source in ids:
                yield f"  {ids[source]} -->|{flow.by}| {ids[flow.target]}"


def _boxes(graph: Graph, ids: Mapping[Identifier, str]) -> Iterator[str]:
    used = _columns(graph)
    for name, node in graph.nodes.items():
        yield f'  subgraph {ids[name]}["{_label(node, ", ")}"]'
        for number, column in enumerate(used.get(name, ())):
            yield f'    {ids[name]}c{number}["{_text(column)}"]'
        yield "  end"


def _column_arrows(graph: Graph, ids: Mapping[Identifier, str]) -> Iterator[str]:
    used = _columns(graph)
    for flow in graph.flows:
        for each in flow.columns or ():
            target = f"{ids[flow.target]}c{used[flow.target].index(each.column)}"
            for source in each.sources:
                if source.table in ids:
                    number = used[source.table].index(source.column)
                    yield f"  {ids[source.table]}c{number} --> {target}"
        if flow.columns is None:
            yield from _whole_arrows(flow, ids)


def _whole_arrows(flow: LineageQuery, ids: Mapping[Identifier, str]) -> Iterator[str]:
    for source in flow.sources:
        if source in ids:
            yield f"  {ids[source]} -->|{flow.by}| {ids[flow.target]}"


def _columns(graph: Graph) -> dict[Identifier, list[str]]:
    """Return the columns of each object that flow, in their order of mention."""
    used: dict[Identifier, dict[str, None]] = {}
    for flow in graph.flows:
        for each in flow.columns or ():
            used.setdefault(flow.target, {})[each.column] = None
            for source in each.sources:
                used.setdefault(source.table, {})[source.column] = None
    return {name: list(columns) for name, columns in used.items()}


def _label(node: Node, joint: str) -> str:
    kind = node.kind.lower() if node.connector is None else node.connector
    return f"{_text(shown_name(node.identifier))}{joint}{_text(kind)}"


def _text(text: str) -> str:
    """Write a text inside of quotes, by Mermaid's own codes of characters."""
    marks = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;"}
    return "".join(marks.get(c, c) for c in text)
