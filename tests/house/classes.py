"""Classes of a package: their chains of inheritance, names that exist twice, assignments to foreign attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.house.modules import Module, Package

__all__ = [
    "PY4J_ATTRIBUTES",
    "Chain",
    "foreign_assignments",
    "inheritance",
    "names_used_twice",
    "py4j_modules",
]

PY4J_ATTRIBUTES = frozenset({
    "_gateway",
    "_jc",
    "_jcols",
    "_jconf",
    "_jdf",
    "_jreader",
    "_jsc",
    "_jsparkSession",
    "_jsq",
    "_jsqm",
    "_jtracker",
    "_jvm",
    "_jwrite",
    "_to_java_column",
    "_to_seq",
})  # fmt: skip
"""Private attributes of PySpark that hold objects of the JVM, or make them."""


@dataclass(frozen=True)
class Chain:
    """A class with its longest line of bases that are classes of the package."""

    classes: tuple[str, ...]
    """Dotted names: the class first, then its base and so on."""

    @property
    def depth(self) -> int:
        """Return the number of classes of the package in the line."""
        return len(self.classes)


def inheritance(package: Package) -> list[Chain]:
    """Return the longest line of each class, the deepest first."""
    bases = {
        f"{module.name}.{node.name}": list(_own_bases(package, module, node))
        for module in package.modules
        for node in module.classes
    }
    known: dict[str, tuple[str, ...]] = {}

    def line(name: str) -> tuple[str, ...]:
        if name not in known:
            known[name] = (
                name,
                *max((line(base) for base in bases[name] if base in bases), key=len, default=()),
            )
        return known[name]

    return sorted(
        (Chain(line(name)) for name in bases), key=lambda chain: (-chain.depth, chain.classes)
    )


def names_used_twice(package: Package) -> dict[str, list[str]]:
    """Return the names of classes at the top of more than one module, with these modules."""
    modules: dict[str, list[str]] = {}
    for module in package.modules:
        for node in module.classes:
            modules.setdefault(node.name, []).append(module.name)
    return {name: found for name, found in sorted(modules.items()) if len(found) > 1}


def foreign_assignments(package: Package) -> list[str]:
    """Return where an attribute of a class or module of another package is assigned or deleted."""
    return [
        f"{module.name}:{node.lineno} {target}"
        for module in package.modules
        for node, target in _attributes_set(module)
        if _is_foreign(package, module, target)
    ]


def py4j_modules(package: Package) -> dict[str, list[str]]:
    """Return the modules that use py4j attributes of others' objects, with the attributes."""
    found: dict[str, list[str]] = {}
    for module in package.modules:
        used = {
            node.attr
            for node in module.nodes
            if isinstance(node, ast.Attribute)
            and node.attr in PY4J_ATTRIBUTES
            and ast.unparse(node.value) != "self"
        }
        if used:
            found[module.name] = sorted(used)
    return found


def _own_bases(package: Package, module: Module, node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        written = base.value if isinstance(base, ast.Subscript) else base
        first, _, rest = ast.unparse(written).partition(".")
        dotted = module.imported_names.get(first, f"{module.name}.{first}") + (
            f".{rest}" if rest else ""
        )
        yield _defined(package, dotted)


def _defined(package: Package, dotted: str) -> str:
    """Return the name of a class where it is defined, followed through packages that import it for others."""
    owner, _, name = dotted.rpartition(".")
    module = package.by_name.get(owner)
    if module is None or any(node.name == name for node in module.classes):
        return dotted
    source = module.imported_names.get(name)
    return _defined(package, source) if source else dotted


def _attributes_set(module: Module) -> Iterator[tuple[ast.AST, str]]:
    for node in module.nodes:
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                pass
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                targets = [target]
            case ast.Call(
                func=ast.Name(id="setattr" | "delattr"),
                args=[owner, ast.Constant(value=str(name)), *_],
            ):
                yield node, f"{ast.unparse(owner)}.{name}"
                continue
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, *_]):
                yield node, f"{ast.unparse(owner)}.*"
                continue
            case _:
                continue
        for target in targets:
            if isinstance(target, ast.Attribute):
                yield node, ast.unparse(target)


def _is_foreign(package: Package, module: Module, target: str) -> bool:
    first = target.partition(".")[0]
    source = module.imported_names.get(first)
    return source is not None and source.partition(".")[0] != package.name
