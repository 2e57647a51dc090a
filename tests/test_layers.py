"""Imports and folders as tests: no cycles, folders of a size that can be looked over.

The layers themselves are contracts of import-linter (pyproject.toml). What is listed here as an exception may go, and
nothing may be added to it. `make house` prints the figures behind these rules.
"""

from __future__ import annotations

import pytest

from tests.house.graph import Graph, cycles, folder_graph, layers, module_graph
from tests.house.modules import Module, Package, When, penstock

FOLDERS_OUT_OF_BOUNDS = {
    "penstock.sql.cli.commands": 24,  # a module each family of commands
}


def written(graph: Graph) -> set[str]:
    """The cycles of a graph, a text each."""
    return {" <-> ".join(cycle) for cycle in cycles(graph)}


def test_modules_import_each_other_in_no_cycle() -> None:
    """Imports inside functions and for types count: they hide a cycle, and a reader has to follow it."""
    assert written(module_graph(penstock(), When)) == set()


def test_folders_import_each_other_in_no_cycle() -> None:
    """A folder is a node of its own, apart from the folders in it."""
    assert written(folder_graph(penstock(), When)) == set()


def test_folders_hold_a_few_modules() -> None:
    """At least three modules or folders, at most fifteen modules."""
    found = penstock().folders_out_of_bounds

    assert found.keys() == FOLDERS_OUT_OF_BOUNDS.keys()
    assert {
        folder: count for folder, count in found.items() if count > FOLDERS_OUT_OF_BOUNDS[folder]
    } == {}


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("from p.b import noun", When.AT_IMPORT),
        ("import p.b", When.AT_IMPORT),
        ("from p import b", When.AT_IMPORT),
        ("from . import b", When.AT_IMPORT),
        ("from .b import noun", When.AT_IMPORT),
        ("class A:\n    import p.b", When.AT_IMPORT),
        ("try:\n    import p.b\nexcept ImportError:\n    pass", When.AT_IMPORT),
        ("def f():\n    if True:\n        import p.b", When.IN_FUNCTION),
        ("if TYPE_CHECKING:\n    import p.b", When.TYPE_CHECKING),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import p.b", When.AT_IMPORT),
    ],
)
def test_imports_are_told_apart_by_when_they_run(tmp_path, text, when) -> None:
    """The rules above see every way to write an import."""
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text(text)
    (package / "b.py").touch()

    (found,) = Package.read(package).imports["p.a"]

    assert (found.module, found.when) == ("p.b", when)


def test_cycles_are_found_and_layers_put_them_into_one() -> None:
    """Two cycles of three and two nodes, and what is above and below them."""
    graph = {
        "top": ["x", "a"],
        "a": ["b"],
        "b": ["c"],
        "c": ["a", "low"],
        "x": ["y", "low"],
        "y": ["x"],
        "low": [],
    }

    assert cycles(graph) == [["a", "b", "c"], ["x", "y"]]
    assert layers(graph) == [[["top"]], [["a", "b", "c"], ["x", "y"]], [["low"]]]


def test_a_package_is_a_module_of_its_folder(tmp_path) -> None:
    """`__init__.py` belongs to the folder whose name it has."""
    inner = Module("p.q", tmp_path / "p" / "q" / "__init__.py", "")
    module = Module("p.q.m", tmp_path / "p" / "q" / "m.py", "")

    assert (inner.folder, module.folder) == ("p.q", "p.q")
