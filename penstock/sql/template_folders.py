"""The folders of a project that templates read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["TemplateFolders"]

MACRO_FOLDER = "macros"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFolders:
    """Where templates look beside their own folder. `macros` None is `macros` in the root; `secrets` None is none."""

    root: Path
    macros: Path | None = None
    secrets: Path | None = None

    @property
    def macro_folder(self) -> Path:
        """The folder whose files define macros for all templates."""
        return self.macros or self.root / MACRO_FOLDER
