"""Import graphs between modules and between folders: their cycles and their layers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tests.house.modules import Package, When

__all__ = ["RUNS", "Graph", "cycles", "folder_graph", "layers", "module_graph", "package_graph"]

Graph = Mapping[str, Collection[str]]
"""What each node imports; all nodes are keys."""

RUNS = (When.AT_IMPORT, When.IN_FUNCTION)
"""All imports that ever run."""


def module_graph(package: Package, kinds: Iterable[When]) -> Graph:
    """Return which modules each module imports by imports of these kinds."""
    wanted = set(kinds)
    return {
        name: {found.module for found in imports if found.when in wanted}
        for name, imports in package.imports.items()
    }


def folder_graph(package: Package, kinds: Iterable[When]) -> Graph:
    """Return which other folders the modules of each folder import."""
    graph: dict[str, set[str]] = {folder: set() for folder in package.folders}
    for name, imported in module_graph(package, kinds).items():
        folder = package.by_name[name].folder
        graph[folder] |= {package.by_name[module].folder for module in imported} - {folder}
    return graph


def package_graph(package: Package, parent: str, kinds: Iterable[When]) -> Graph:
    """Return which of its siblings each package or module directly below `parent` imports, with all below it."""
    prefix = f"{parent}."

    def child(name: str) -> str | None:
        return name[len(prefix) :].partition(".")[0] if name.startswith(prefix) else None

    graph: dict[str, set[str]] = {}
    for name, imported in module_graph(package, kinds).items():
        if (own := child(name)) is None:
            continue
        found = {other for module in imported if (other := child(module)) is not None}
        graph.setdefault(own, set()).update(found - {own})
    return graph


def cycles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node, sorted (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in index:
            visit(node)
    return sorted(found)


def layers(graph: Graph) -> list[list[list[str]]]:
    """Return the nodes of a graph from the top layer to the lowest, those of a cycle together.

    A node stands as low as what it imports lets it: one layer above the highest of that.
    """
    group = {node: (node,) for node in graph} | {
        node: tuple(cycle) for cycle in cycles(graph) for node in cycle
    }
    heights: dict[tuple[str, ...], int] = {}

    def height(nodes: tuple[str, ...]) -> int:
        if nodes not in heights:
            below = {group[other] for node in nodes for other in graph[node]} - {nodes}
            heights[nodes] = 1 + max(map(height, below), default=-1)
        return heights[nodes]

    top = max(map(height, group.values()), default=-1)
    groups = sorted(set(group.values()))
    return [
        [list(nodes) for nodes in groups if heights[nodes] == level] for level in range(top, -1, -1)
    ]
