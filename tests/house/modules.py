"""Modules of a package as syntax trees, with what they import and when."""

from __future__ import annotations

import ast
import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

__all__ = [
    "FOLDER_ENTRIES",
    "FOLDER_MODULES",
    "MODULE_LINES",
    "PENSTOCK",
    "Import",
    "Module",
    "Package",
    "When",
    "penstock",
]

PENSTOCK = Path(__file__).resolve().parents[2] / "penstock"

FOLDER_ENTRIES = 3
"""The fewest modules and folders of a folder: fewer are a file."""

FOLDER_MODULES = 15
"""The most modules of a folder, its `__init__.py` not counted."""

MODULE_LINES = 500
"""The most lines of a module: past this it holds more than one subject."""


class When(enum.Enum):
    """When an import statement runs."""

    AT_IMPORT = "when the module is imported"
    IN_FUNCTION = "when a function is called"
    TYPE_CHECKING = "never: for type checkers alone"


@dataclass(frozen=True)
class Import:
    """One module of the package that another one imports."""

    module: str
    when: When


@dataclass(frozen=True)
class Module:
    """A Python file of the package."""

    name: str
    """Dotted; a package's `__init__.py` has the package's own name."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Return the syntax tree."""
        return ast.parse(self.text, str(self.path))

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Return all nodes of the syntax tree, which several rules go through."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def lines(self) -> int:
        """Return the number of lines."""
        return len(self.text.splitlines())

    @property
    def is_package(self) -> bool:
        """Return whether this is an `__init__.py`."""
        return self.path.name == "__init__.py"

    @property
    def folder(self) -> str:
        """Return the dotted name of the folder that holds the file."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def classes(self) -> list[ast.ClassDef]:
        """Return the classes at the top of the module."""
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    @property
    def head_lines(self) -> int:
        """Return the lines of import statements and of `__all__`."""
        nodes = [node for node, _ in self.import_nodes] + [
            node for node in self.tree.body if _is_all(node)
        ]
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)

    @cached_property
    def imported_names(self) -> dict[str, str]:
        """Return what each name that the module imports stands for, dotted."""
        names: dict[str, str] = {}
        for node, _ in self.import_nodes:
            for alias in node.names:
                if isinstance(node, ast.ImportFrom):
                    names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                elif alias.asname:
                    names[alias.asname] = alias.name
                else:
                    root = alias.name.partition(".")[0]
                    names[root] = root
        return names

    @cached_property
    def import_nodes(self) -> tuple[tuple[ast.Import | ast.ImportFrom, When], ...]:
        """Return the import statements with when they run."""
        return tuple(self._import_nodes())

    def _import_nodes(self) -> Iterator[tuple[ast.Import | ast.ImportFrom, When]]:
        todo: list[tuple[ast.AST, When]] = [(self.tree, When.AT_IMPORT)]
        while todo:
            node, when = todo.pop()
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield node, when
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                todo.extend((child, When.TYPE_CHECKING) for child in node.body)
                todo.extend((child, when) for child in node.orelse)
            elif not isinstance(node, ast.expr):
                if (
                    isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                    and when is When.AT_IMPORT
                ):
                    when = When.IN_FUNCTION
                todo.extend((child, when) for child in ast.iter_child_nodes(node))


@dataclass(frozen=True)
class Package:
    """All modules of a package, found below its folder."""

    name: str
    modules: tuple[Module, ...]

    @classmethod
    def read(cls, folder: Path) -> Package:
        """Read the package in a folder."""
        modules = []
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            modules.append(Module(name, path, path.read_text(encoding="utf-8")))
        return cls(folder.name, tuple(modules))

    @cached_property
    def by_name(self) -> dict[str, Module]:
        """Return the modules by their dotted names."""
        return {module.name: module for module in self.modules}

    @cached_property
    def folders(self) -> dict[str, int]:
        """Return the number of modules of each folder, its `__init__.py` not among them."""
        counts: dict[str, int] = {}
        for module in self.modules:
            counts[module.folder] = counts.get(module.folder, 0) + (not module.is_package)
        return counts

    @cached_property
    def folders_out_of_bounds(self) -> dict[str, int]:
        """Return the folders of too many modules, and those of too few modules and folders together."""
        inner = Counter(folder.rpartition(".")[0] for folder in self.folders)
        return {
            folder: count
            for folder, count in self.folders.items()
            if count + inner[folder] < FOLDER_ENTRIES or count > FOLDER_MODULES
        }

    @cached_property
    def imports(self) -> dict[str, frozenset[Import]]:
        """Return what each module imports of the package."""
        return {module.name: frozenset(self._imports_of(module)) for module in self.modules}

    def _imports_of(self, module: Module) -> Iterator[Import]:
        for node, when in module.import_nodes:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                base = self._base_of(module, node)
                # `from package import module` imports the module, `from module import noun` the module it is in
                names = [
                    inner if (inner := f"{base}.{alias.name}") in self.by_name else base
                    for alias in node.names
                ]
            for name in names:
                if name in self.by_name and name != module.name:
                    yield Import(name, when)

    @staticmethod
    def _base_of(module: Module, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.folder.split(".")
        kept = parts[: len(parts) - node.level + 1]
        return ".".join([*kept, node.module] if node.module else kept)


@cache
def penstock() -> Package:
    """Return the package of this checkout."""
    return Package.read(PENSTOCK)


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )
