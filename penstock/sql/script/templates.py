"""Render SQL files as templates; `template_rendering.py` has those with template syntax."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.sql.script.files import TemplateFolders
from penstock.sql.syntax.positions import Source

_SYNTAX = re.compile(r"\{\{|\{%|\{#")


def render_template(
    text: str,
    file: str,
    variables: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    folders: TemplateFolders | None = None,
) -> Source:
    """Render `text`, the contents of `file`. A text without template syntax comes back as it is.

    What a macro makes counts as the macro's line, called from the line that uses it. What went through a filter
    counts as the line of the filter.

    `folders` are those of the project, beside the file's own. Raises TemplateError, at the line of the template
    where that is known.
    """
    if not _SYNTAX.search(text):
        return Source(file=file, text=text)
    from penstock.sql.script.template_rendering import render  # with Jinja, for those who use it

    folders = folders or TemplateFolders(root=Path(file).parent)
    return render(text, file, variables or {}, env or {}, folders)
