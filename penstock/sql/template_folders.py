"""The folders of a project that templates read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.catalog.reference_rules import ReferenceRules

__all__ = ["TemplateFolders", "lies_open_in"]

MACRO_FOLDER = "macros"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFolders:
    """Where templates look beside their own folder. `macros` None is `macros` in the root; `secrets` None is none.

    `rules` are the project's, which limit what `secret()` reads, beside those in force.
    """

    root: Path
    macros: Path | None = None
    secrets: Path | None = None
    rules: ReferenceRules = field(default_factory=ReferenceRules)

    @property
    def macro_folder(self) -> Path:
        """The folder whose files define macros for all templates."""
        return self.macros or self.root / MACRO_FOLDER


def lies_open_in(path: Path, root: Path) -> bool:
    """Tell whether a path, links followed, lies in a folder and below no hidden one in it."""
    path, root = path.resolve(), root.resolve()
    if not path.is_relative_to(root):
        return False
    return not any(part.startswith(".") for part in path.relative_to(root).parts)
