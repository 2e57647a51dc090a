"""The figures of the house rules: what each is now, what it was before the folders were cut, and the aim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from tests.house.classes import foreign_assignments, inheritance, names_used_twice, py4j_modules
from tests.house.connectors import modules_with_imports, modules_with_names
from tests.house.graph import RUNS, Graph, cycles, folder_graph, module_graph
from tests.house.modules import FOLDER_ENTRIES, FOLDER_MODULES, MODULE_LINES, Package, When

__all__ = ["Figure", "figures"]

PLANNERS = ("sql.plan", "sql.incremental.planning", "sql.maintain")
"""Where queries are planned. The last held the operators, too, before `sql.incremental` was cut out of it."""


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    name: str
    now: str
    before: str
    """What this command counts at commit 548f484."""

    aim: str
    details: tuple[str, ...] = ()
    """What was counted, where that can be listed."""


def figures(package: Package) -> list[Figure]:
    """Return all figures of a package."""
    return [*_sizes(package), *_cycles(package), *_classes(package), *_connectors(package)]


def _sizes(package: Package) -> Iterable[Figure]:
    modules = [module for module in package.modules if not module.is_package]
    lines = sum(module.lines for module in package.modules)
    head = sum(module.head_lines for module in package.modules)
    planners = tuple(f"{package.name}.{folder}" for folder in PLANNERS)
    planned = sum(
        m.lines
        for m in package.modules
        if f"{m.name}.".startswith(tuple(f"{p}." for p in planners))
    )
    largest = max(package.folders.items(), key=lambda item: item[1])
    outside = package.folders_out_of_bounds
    yield Figure("modules, __init__.py included", f"{len(package.modules)}", "812", "about 430")
    yield Figure(
        "median lines, __init__.py not",
        f"{median(m.lines for m in modules):.0f}",
        "108",
        "about 200",
    )
    long = [f"{m.name} {m.lines}" for m in modules if m.lines > MODULE_LINES]
    yield Figure(
        f"modules of more than {MODULE_LINES} lines", f"{len(long)}", "0", "0", tuple(long)
    )
    yield Figure(
        "modules of less than 80 lines",
        f"{sum(m.lines < 80 for m in modules)}",
        "266",
        "only seams",
    )
    yield Figure(
        "modules of the largest folder", f"{largest[1]} ({largest[0]})", "64", "15; commands 22"
    )
    bounds = f"{FOLDER_ENTRIES} to {FOLDER_MODULES}"
    listed = tuple(f"{folder} {count}" for folder, count in sorted(outside.items()))
    yield Figure(
        f"folders outside {bounds} modules",
        f"{len(outside)} of {len(package.folders)}",
        "20 of 35",
        "0",
        listed,
    )
    yield Figure("lines of imports and __all__", f"{head / lines:.1%}", "11.3%", "6%")
    yield Figure("lines of the query planners", f"{planned:,}", "12,263", "3,800")


def _cycles(package: Package) -> Iterable[Figure]:
    at_import = (When.AT_IMPORT,)
    for title, kinds, files, folders in (
        ("at import", at_import, "0", "6"),
        ("imports in functions too", RUNS, "2", "5"),
        ("TYPE_CHECKING too", tuple(When), "4", "5"),
    ):
        yield _cycle_figure(f"file cycles, {title}", module_graph(package, kinds), files)
        yield _cycle_figure(f"folder cycles, {title}", folder_graph(package, kinds), folders)


def _cycle_figure(name: str, graph: Graph, before: str) -> Figure:
    found = cycles(graph)
    return Figure(name, f"{len(found)}", before, "0", tuple(" <-> ".join(cycle) for cycle in found))


def _classes(package: Package) -> Iterable[Figure]:
    chains = inheritance(package)
    deep = tuple(f"{chain.depth} {chain.classes[0]}" for chain in chains if chain.depth > 3)
    yield Figure("deepest own inheritance", f"{chains[0].depth if chains else 0}", "19", "3", deep)
    twice = names_used_twice(package)
    yield Figure("class names used more than once", f"{len(twice)}", "41", "< 10", _listed(twice))
    foreign = foreign_assignments(package)
    yield Figure("assignments to foreign attributes", f"{len(foreign)}", "2", "0", tuple(foreign))
    py4j = py4j_modules(package)
    yield Figure(
        "modules with py4j attributes", f"{len(py4j)}", "15", "1, and serve", _listed(py4j)
    )


def _connectors(package: Package) -> Iterable[Figure]:
    names, imports = modules_with_names(package), modules_with_imports(package)
    yield Figure(
        "modules that name another's connector", f"{len(names)}", "27", "0", _listed(names)
    )
    yield Figure(
        "modules that import another's connector", f"{len(imports)}", "21", "few", _listed(imports)
    )


def _listed(found: Mapping[str, list[str]]) -> tuple[str, ...]:
    return tuple(f"{name}: {', '.join(values)}" for name, values in sorted(found.items()))
