"""Renders SQL files as Jinja templates, and remembers for each line which line of which file made it.

Sandboxed and strict: a name that is not defined is an error, templates see plain data and the two
functions `var` and `env_var`, includes come from the file's folder (Jinja's loader refuses `..`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from jinja2 import (
    BaseLoader,
    FileSystemLoader,
    StrictUndefined,
    TemplateNotFound,
    TemplateSyntaxError,
    UndefinedError,
    nodes,
)
from jinja2 import (
    TemplateError as JinjaError,
)
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from penstock.catalog.errors import Span, TemplateError, did_you_mean

__all__ = ["Rendered", "render_template"]

MAX_OUTPUT_CHARS = 10_000_000
"""A template that renders to more than this is taken for a loop gone wrong."""

MAIN = "<main>"
_SYNTAX = re.compile(r"\{\{|\{%|\{#")
_MARK = re.compile("\x00([0-9]+):([0-9]+)\x00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A rendered text; `line_map` gives for each of its lines the file and line of the template.

    A line that a macro or a block assignment made counts as the line where its text was put in.
    """

    text: str = field(repr=False)
    line_map: tuple[tuple[str, int], ...] | None = field(default=None, repr=False)


class _MarkingEnvironment(ImmutableSandboxedEnvironment):
    """Puts a mark with file and line in front of all that a template writes straight to its result.

    What goes through a macro, a filter block or an assignment is left alone: there a mark could be
    seen by the template.
    """

    def __init__(self, files: list[str], loader: BaseLoader) -> None:
        super().__init__(
            loader=loader, undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
        )
        self._files = files

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        shown = filename if name != MAIN and filename is not None else self._files[0]
        if shown not in self._files:
            self._files.append(shown)
        _mark_outputs(tree, self._files.index(shown))
        return tree


def _mark_outputs(node: nodes.Node, file: int) -> None:
    hidden = (nodes.Macro, nodes.CallBlock, nodes.AssignBlock, nodes.FilterBlock)
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.Output):
            child.nodes = [piece for part in child.nodes for piece in _marked(part, file)]
        elif not isinstance(child, hidden):
            _mark_outputs(child, file)


def _marked(part: nodes.Expr, file: int) -> list[nodes.Expr]:
    if not isinstance(part, nodes.TemplateData):
        return [nodes.TemplateData(f"\x00{file}:{part.lineno}\x00", lineno=part.lineno), part]
    lines = part.data.split("\n")
    text = "\n".join(f"\x00{file}:{part.lineno + i}\x00{line}" for i, line in enumerate(lines))
    return [nodes.TemplateData(text, lineno=part.lineno)]


def render_template(
    text: str,
    file: str,
    variables: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> Rendered:
    """Render `text`, the contents of `file`. A text without template syntax comes back as it is.

    Raises TemplateError, at the line of the template where that is known.
    """
    if not _SYNTAX.search(text):
        return Rendered(text=text)
    if "\x00" in text:
        raise TemplateError(f"{file} contains a NUL character")
    folder = Path(file).parent
    files = [file]
    environment = _MarkingEnvironment(files, FileSystemLoader(folder))
    environment.globals = {
        "var": _lookup("var", dict(variables or {}), "pass it with --var or --vars-file"),
        "env_var": _lookup("env_var", dict(env or {}), "set it in the environment"),
        **{name: environment.globals[name] for name in ("range", "dict", "namespace")},
    }
    try:
        template = environment.from_string(text, template_class=None)
        return _collect(template.generate(), files)
    except (JinjaError, _UnknownName, TypeError, ValueError, ArithmeticError) as error:
        raise _explain(error, text, file, files) from error


class _UnknownName(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


_MISSING = object()


def _lookup(function: str, known: dict[str, Any], remedy: str) -> Callable[..., Any]:
    def look_up(name: str, default: Any = _MISSING) -> Any:
        if name in known:
            return known[name]
        if default is not _MISSING:
            return default
        supplied = f"those supplied: {', '.join(sorted(known))}" if known else "none is supplied"
        if function == "env_var":
            supplied = ""  # not the names of a whole environment
        near = did_you_mean(name, known)
        hint = "; ".join(filter(None, [near, f"{remedy}, or give a default", supplied]))
        raise _UnknownName(f"{function}('{name}') is not defined", hint)

    look_up.__name__ = function
    return look_up


def _collect(pieces: Any, files: list[str]) -> Rendered:
    size, parts = 0, []
    for piece in pieces:
        size += len(piece)
        if size > MAX_OUTPUT_CHARS:
            raise ValueError(f"the template renders to more than {MAX_OUTPUT_CHARS} characters")
        parts.append(piece)
    origin = (files[0], 1)
    lines: list[str] = []
    line_map: list[tuple[str, int]] = []
    for line in "".join(parts).split("\n"):
        # a line belongs to what is first written on it, blanks apart
        first: tuple[str, int] | None = None
        texts = _MARK.split(line)  # text, file, line, text, file, line, text, ...
        for i, text in enumerate(texts[::3]):
            if i:
                origin = (files[int(texts[3 * i - 2])], int(texts[3 * i - 1]))
            if first is None and text.strip():
                first = origin
        lines.append(_MARK.sub("", line))
        line_map.append(first or origin)
    return Rendered(text="\n".join(lines), line_map=tuple(line_map))


def _explain(error: Exception, text: str, file: str, files: list[str]) -> TemplateError:
    hint: str | None = getattr(error, "hint", None)
    line = _line_of(error.__traceback__, files)
    message = str(error)
    if isinstance(error, TemplateSyntaxError):
        line = (
            (error.filename or file, error.lineno) if error.name != MAIN else (file, error.lineno)
        )
    elif isinstance(error, TemplateNotFound):
        message = f"there is no file '{error.name}' to include"
        hint = "includes are looked for in the folder of the file, below it too"
    elif isinstance(error, UndefinedError):
        hint = hint or "variables are read with {{ var('name') }} or {{ var('name', default) }}"
    elif isinstance(error, SecurityError):
        message = f"the template may not do this: {message}"
    where = line or (file, 1)
    return TemplateError(message, hint=hint, span=_line_span(text, file, *where) if line else None)


def _line_of(trace: TracebackType | None, files: list[str]) -> tuple[str, int] | None:
    """The template line in a traceback that Jinja has rewritten to template lines."""
    found = None
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in ("<template>", "<unknown>"):
            found = (files[0], trace.tb_lineno)
        elif name in files:
            found = (name, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _line_span(text: str, file: str, where: str, line: int) -> Span:
    try:
        source = text if where == file else Path(where).read_text(encoding="utf-8")
        shown = source.split("\n")[line - 1]
    except (OSError, IndexError):
        shown = ""
    stripped = shown.strip()
    column = shown.index(stripped) + 1 if stripped else 1
    return Span(file=where, line=line, column=column, length=max(1, len(stripped)), line_text=shown)
