"""Lineage as text: a tree for people, a Mermaid flowchart for Markdown pages, a JSON document for programs.

`docs/lineage.md` describes the document; fields are added, none is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.catalog.model.identifier import Identifier, quote
from penstock.sql.lineage.graph import (
    ColumnFlow,
    Direction,
    Graph,
    LineageQuery,
    Node,
    NodeKind,
    shown_name,
)

_HEADINGS: dict[Direction, str] = {"upstream": "made of", "downstream": "goes into"}
_LONGEST = 80


@dataclass(slots=True)
class _Branch:
    """A line and the lines below it."""

    text: str
    notes: list[str] = field(default_factory=list)
    below: list[_Branch] = field(default_factory=list)


def tree_lines(
    graph: Graph, start: Identifier, directions: Sequence[Direction], *, columns: bool
) -> list[str]:
    """Write what is around an object; an object that comes again is named and not taken apart again."""
    root = _Branch(_title(graph, start))
    for direction in directions:
        below = list(_branches(graph, start, direction, {start}, columns=columns))
        heading = _HEADINGS[direction]
        root.below.append(_Branch(heading if below else f"{heading} nothing", below=below))
    if columns and (node := graph.nodes.get(start)) is not None:
        root.notes = [
            f"{quote(each.name)} AS {_short(each.expression or '')}"
            + (f", of {', '.join(map(quote, each.sources))}" if each.sources else "")
            for each in node.columns
            if each.kind == "computed"
        ]
    return list(_lines(root))


def trees_of_all(graph: Graph, *, columns: bool) -> list[str]:
    """Write what goes where, from the objects that nothing fills; then those that stand alone."""
    read = {source for flow in graph.flows for source in flow.sources}
    filled = {flow.target for flow in graph.flows if flow.sources}
    starts = [name for name in graph.nodes if name in read and name not in filled]
    # what feeds itself in a circle begins nowhere
    reached = {n for start in starts for n in graph.around(start, ["downstream"]).nodes}
    for name in graph.nodes:
        if name in read and name not in reached:
            starts.append(name)
            reached |= set(graph.around(name, ["downstream"]).nodes)
    lines: list[str] = []
    for start in starts:
        below = list(_branches(graph, start, "downstream", {start}, columns=columns))
        lines += _lines(_Branch(_title(graph, start), below=below))
    alone = [name for name in graph.nodes if name not in read and name not in filled]
    return lines + [f"{_title(graph, name)}: no flow" for name in alone]


def _branches(
    graph: Graph, at: Identifier, direction: Direction, seen: set[Identifier], *, columns: bool
) -> Iterator[_Branch]:
    up = direction == "upstream"
    for flow in graph.into(at) if up else graph.out_of(at):
        for other in flow.sources if up else (flow.target,):
            source = other if up else at
            notes = list(_column_notes(flow, source)) if columns else []
            again = other in seen
            text = f"{_title(graph, other)}  {_how(flow)}"
            branch = _Branch(f"{text}, see above" if again else text, notes=notes)
            if not again:
                seen.add(other)
                branch.below = list(_branches(graph, other, direction, seen, columns=columns))
            yield branch


def _column_notes(flow: LineageQuery, source: Identifier) -> Iterator[str]:
    if flow.columns is None:
        yield "columns cannot be determined without Spark"
        return
    for each in flow.columns_from(source):
        yield _column_note(each, source)


def _column_note(each: ColumnFlow, source: Identifier) -> str:
    names = [quote(s.column) for s in each.sources if s.table == source]
    expression = _short(each.expression)
    plain = names == [expression.rpartition(".")[2]]
    return f"{quote(each.column)} ← {', '.join(names)}" + ("" if plain else f"  ({expression})")


def _how(flow: LineageQuery) -> str:
    return flow.by if flow.position is None else f"{flow.by} {flow.position}"


def _title(graph: Graph, identifier: Identifier) -> str:
    node = graph.nodes.get(identifier)
    if node is None:
        return shown_name(identifier)
    kind = node.kind.lower() if node.connector is None else node.connector
    return f"{shown_name(identifier)} ({kind})"


def _lines(branch: _Branch, head: str = "", rest: str = "") -> Iterator[str]:
    yield head + branch.text
    for note in branch.notes:
        yield f"{rest}{'│  ' if branch.below else '   '}  {note}"
    for number, each in enumerate(branch.below, start=1):
        last = number == len(branch.below)
        yield from _lines(
            each, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")
        )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


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
            "place": flow.position,
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
