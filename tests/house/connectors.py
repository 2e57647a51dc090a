"""Where a connector is known by its name or its folder outside that folder and the registry."""

from __future__ import annotations

import ast

from tests.house.modules import Module, Package

__all__ = ["connector_folders", "modules_with_imports", "modules_with_names"]


def connector_folders(package: Package) -> dict[str, str]:
    """Return the folder of each built-in connector by its name, read from the registry's table.

    What the registry finds for itself alone ('spark', 'information-schema') is left out: its names are words, too.
    """
    below = f"{package.name}.connector."
    table: tuple[tuple[str, str], ...] = next(
        ast.literal_eval(node.value)
        for node in _registry(package).tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_BUILT_IN"
    )
    return {name: below + target.removeprefix(below).partition(".")[0] for name, target in table}


def modules_with_names(package: Package) -> dict[str, list[str]]:
    """Return the modules with a string that is the name of a connector of another folder, with these names.

    A string may be a connector's name and mean something else ('delta' is a format of Spark's, too).
    """
    folders = connector_folders(package)
    found: dict[str, list[str]] = {}
    for module in package.modules:
        names = {
            node.value
            for node in module.nodes
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value in folders
            and not _is_in(module, folders[node.value])
        }
        if names and module is not _registry(package):
            found[module.name] = sorted(names)
    return found


def modules_with_imports(package: Package) -> dict[str, list[str]]:
    """Return the modules that import from a connector's folder, other than that connector's own, with the folders."""
    folders = set(connector_folders(package).values())
    found: dict[str, list[str]] = {}
    for module in package.modules:
        imported = {
            folder
            for other in package.imports[module.name]
            for folder in folders
            if _is_in(package.by_name[other.module], folder) and not _is_in(module, folder)
        }
        if imported:
            found[module.name] = sorted(imported)
    return found


def _registry(package: Package) -> Module:
    return package.by_name[f"{package.name}.connector.registry"]


def _is_in(module: Module, folder: str) -> bool:
    return f"{module.name}.".startswith(f"{folder}.")
