"""Which files a template may read: those of its own folder and of its project, and the project's macros."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from jinja2 import BaseLoader, Environment, TemplateNotFound, nodes

from penstock.catalog.errors import Span, TemplateError
from penstock.catalog.options.reference_rules import check_no_key
from penstock.sql.script.files import TemplateFolders, check_own, lies_open_in

__all__ = ["MAIN", "ProjectLoader", "macro_names"]

MAIN = "<main>"


class ProjectLoader(BaseLoader):
    """Finds an included file beside the including template, else from the project's root. Nothing outside of both.

    Links are followed first, so that none leads out; nor into what begins with a dot (`.env`, `.penstock/secret.key`).
    """

    def __init__(self, folder: Path, folders: TemplateFolders) -> None:
        self._folder = folder
        macros = [folders.macro_folder] if _is_of_the_project(folders) else []
        self._roots = [folder, folders.root, *macros]

    def get_source(
        self,
        environment: Environment,  # noqa: ARG002  Jinja's interface
        template: str,
    ) -> tuple[str, str, Callable[[], bool]]:
        """Read a file. Raises TemplateNotFound."""
        parts = template.split("/")
        if ".." in parts or not parts[0] or "\\" in template:
            raise TemplateNotFound(template)
        for root in self._roots:
            file = root.joinpath(*parts)
            if file.is_file() and any(lies_open_in(file, each) for each in self._roots):
                check_own(file)
                text = file.read_text(encoding="utf-8")
                check_no_key(text, what=f"the file '{template}'")
                return text, _shown(file), lambda: True
        raise TemplateNotFound(template)


def _is_of_the_project(folders: TemplateFolders) -> bool:
    """Return whether the macros lie in the project: `macros` may be a link to any folder of the machine."""
    return lies_open_in(folders.macro_folder, folders.root)


def macro_names(environment: Environment, folders: TemplateFolders) -> dict[str, str]:
    """List the macros of the project's macro folder, with their files. Raises TemplateError for one given twice,
    and for one that has the name of a function that every template has: bounds rest on what those do.
    """
    folder = folders.macro_folder
    found: dict[str, str] = {}
    there = folder.is_dir() and _is_of_the_project(folders)
    for file in sorted(folder.rglob("*.sql")) if there else ():
        if not lies_open_in(file, folder):
            continue
        check_own(file)
        name = file.relative_to(folder).as_posix()
        text = file.read_text(encoding="utf-8")
        tree = environment.parse(text, name, _shown(file))
        for macro in tree.find_all(nodes.Macro):
            if macro.name in environment.globals:
                raise TemplateError(
                    f"the macro '{macro.name}' has the name of a function that every template has",
                    hint="use another name",
                    span=_span(file, text, macro),
                )
            if macro.name in found:
                raise TemplateError(
                    f"the macro '{macro.name}' is defined twice",
                    hint=f"{folder / found[macro.name]} has one too; each name is known in all files",
                    span=_span(file, text, macro),
                )
            if not macro.name.startswith("_"):
                found[macro.name] = name
    return found


def _shown(file: Path) -> str:
    """Return a path as a person at the prompt would type it: relative where it is below the working directory."""
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


def _span(file: Path, text: str, macro: nodes.Macro) -> Span:
    line = text.split("\n")[macro.lineno - 1]
    found = re.search(rf"macro\s+({re.escape(macro.name)})\b", line)
    column = found.start(1) + 1 if found else 1
    return Span(
        file=_shown(file), line=macro.lineno, column=column, length=len(macro.name), line_text=line
    )
