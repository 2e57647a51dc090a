"""Lineage as one JSON document, for programs. `docs/lineage.md` describes it; fields are added, none is changed."""

from __future__ import annotations

from typing import Any

from penstock.sql.lineage.graph import Graph, LineageQuery, Node

__all__ = ["VERSION", "lineage_document"]

VERSION = 1


def lineage_document(graph: Graph, *, columns: bool) -> dict[str, Any]:
    """Return `version`, `nodes` and `edges`: one edge for each object that a query reads."""
    return {
        "version": VERSION,
        "nodes": [_node(node, columns=columns) for node in graph.nodes.values()],
        "edges": [edge for flow in graph.flows for edge in _edges(flow, columns=columns)],
    }


def _node(node: Node, *, columns: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": str(node.identifier),
        "kind": str(node.kind),
        "connector": node.connector,
    }
    if columns:
        document["columns"] = [
            {
                "name": each.name,
                "kind": each.kind,
                "type": each.type,
                "expression": each.expression,
                "from": list(each.sources),
            }
            for each in node.columns
        ]
    return document


def _edges(flow: LineageQuery, *, columns: bool) -> list[dict[str, Any]]:
    edges = []
    for source in flow.sources:
        edge: dict[str, Any] = {
            "from": str(source),
            "to": str(flow.target),
            "by": flow.by,
            "place": flow.place,
        }
        if columns:
            edge["columns"] = (
                None
                if flow.columns is None
                else [
                    {
                        "column": each.column,
                        "expression": each.expression,
                        "from": [s.column for s in each.sources if s.table == source],
                    }
                    for each in flow.columns_from(source)
                ]
            )
        edges.append(edge)
    return edges
