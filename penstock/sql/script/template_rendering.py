"""Render templates with Jinja, and map each line of the result to the line of the file that produced it.

Sandboxed and strict: an undefined name is an error; templates see plain data, `var`, `env_var`, `secret` and
the project's macros, and read no file outside the project and their own folder. Output carries marks between
NUL characters, which no template contains: filters, tests and comparisons see the plain text of a `MarkedText`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jinja2 import (
    StrictUndefined,
    TemplateNotFound,
    TemplateSyntaxError,
    UndefinedError,
    nodes,
)
from jinja2 import TemplateError as JinjaError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

from penstock.catalog.errors import (
    ConfigError,
    InputError,
    OptionError,
    Span,
    TemplateError,
    did_you_mean,
)
from penstock.catalog.masking import keep_secret
from penstock.catalog.options.reference_rules import check_no_key, read_allowed_file
from penstock.catalog.secrets.crypto import KEY_VARIABLES
from penstock.sql.script.files import TemplateFolders
from penstock.sql.script.template_limits import (
    LONGEST_S,
    MAIN,
    MOST_BYTES,
    ProjectLoader,
    TooLongError,
    first_template_line,
    is_plain,
    macro_names,
    within_limits,
)
from penstock.sql.syntax.positions import LineOrigin, Source

_MARK = re.compile("\x00([0-9:<>]+)\x00")

_IN, _OUT = "\x00>\x00", "\x00<\x00"

Origin = tuple[int, int]
"""A file's number, and a line in it."""


class MarkedText(str):
    """A text without its marks, which are in `marked`."""

    __slots__ = ("marked",)

    marked: str

    @classmethod
    def join(cls, pieces: Iterable[str]) -> Self:
        """Join what a template wrote; a marked piece in it was made elsewhere (a macro, a block)."""
        marked = "".join(
            f"{_IN}{piece.marked}{_OUT}" if isinstance(piece, MarkedText) else piece
            for piece in pieces
        )
        made = cls(_MARK.sub("", marked))
        made.marked = marked
        return made

    def __str__(self) -> str:
        """Return itself: what a template writes passes through `str`."""
        return self


def mark_outputs(node: nodes.Node, file: int) -> None:
    """Mark everything that a syntax tree writes with the number of its file, and its line."""
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.Output):
            child.nodes = [piece for part in child.nodes for piece in _marked(part, file)]
        else:
            mark_outputs(child, file)
    for name in ("body", "else_"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            setattr(node, name, [one for part in body for one in _entered(part, file)])


def _entered(part: nodes.Node, file: int) -> list[nodes.Node]:
    """Note around an include where it stands."""
    if not isinstance(part, nodes.Include):
        return [part]
    before = nodes.TemplateData(f"{_mark(file, part.lineno)}{_IN}", lineno=part.lineno)
    after = nodes.TemplateData(_OUT, lineno=part.lineno)
    outputs = [nodes.Output([data], lineno=part.lineno) for data in (before, after)]
    return [outputs[0], part, outputs[1]]


def _marked(part: nodes.Expr, file: int) -> list[nodes.Expr]:
    if not isinstance(part, nodes.TemplateData):
        return [nodes.TemplateData(_mark(file, part.lineno), lineno=part.lineno), part]
    lines = part.data.split("\n")
    text = "\n".join(f"{_mark(file, part.lineno + i)}{line}" for i, line in enumerate(lines))
    return [nodes.TemplateData(text, lineno=part.lineno)]


def _mark(file: int, line: int) -> str:
    return f"\x00{file}:{line}\x00"


def origins_of(text: MarkedText) -> Iterator[tuple[Origin, ...]]:
    """Return for each line where it was made, and from where that was called or included, the nearest first.

    A line belongs to what is first written on it, blanks apart.
    """
    origin: tuple[Origin, ...] = ((0, 1),)
    for line in text.marked.split("\n"):
        first: tuple[Origin, ...] | None = None
        # text, mark, text, mark, ..., text
        for number, part in enumerate(_MARK.split(line)):
            if number % 2:
                origin = _moved(origin, part)
            elif first is None and part.strip():
                first = origin
        yield first or origin


def _moved(origin: tuple[Origin, ...], mark: str) -> tuple[Origin, ...]:
    match mark:
        case ">":
            return (origin[0], *origin)
        case "<":
            return origin[1:]
    file, line = map(int, mark.split(":"))
    return ((file, line), *origin[1:])


MAX_OUTPUT_CHARS = 10_000_000
"""A template that renders to more than this is taken for a loop gone wrong."""


class _MarkingEnvironment(ImmutableSandboxedEnvironment):
    """Puts a mark with file and line in front of all that a template writes."""

    concat = staticmethod(MarkedText.join)

    def __init__(self, file: str, text: str, loader: ProjectLoader) -> None:
        super().__init__(
            loader=loader, undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
        )
        self.files = [file]
        self.texts = [_lines(text)]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        shown = filename if name != MAIN and filename is not None else self.files[0]
        if shown not in self.files:
            self.files.append(shown)
            self.texts.append(_lines(source))
        mark_outputs(tree, self.files.index(shown))
        return tree


def render(
    text: str,
    file: str,
    variables: Mapping[str, Any],
    env: Mapping[str, str],
    folders: TemplateFolders,
) -> Source:
    """Render a text with template syntax. Raises TemplateError (`template.render_template`)."""
    if "\x00" in text:
        raise TemplateError(f"{file} contains a NUL character")
    work = partial(_render, text, file, variables, env, folders)
    return work() if _is_plain(text) else within_limits(work, text, file)


def _is_plain(text: str) -> bool:
    """Return whether a template needs no bounds; one that cannot be read is explained where they hold."""
    try:
        return is_plain(SandboxedEnvironment().parse(text))
    except (JinjaError, RecursionError, MemoryError):
        return False


def _render(
    text: str,
    file: str,
    variables: Mapping[str, Any],
    env: Mapping[str, str],
    folders: TemplateFolders,
) -> Source:
    environment = _MarkingEnvironment(file, text, ProjectLoader(Path(file).parent, folders))
    environment.globals = {
        "var": _lookup("var", dict(variables), "pass it with --var or --vars-file"),
        "env_var": _lookup("env_var", dict(env), "set it in the environment or in .env"),
        "secret": _secret(dict(env), folders),
        **{name: environment.globals[name] for name in ("range", "dict", "namespace")},
    }
    try:
        environment.globals = _macros(environment, folders) | environment.globals
        return _collect(environment.from_string(text).generate(), environment)
    except (
        JinjaError,
        _UnknownName,
        OptionError,
        ConfigError,
        TypeError,
        ValueError,
        ArithmeticError,
        MemoryError,
        RecursionError,
        TooLongError,
    ) as error:
        raise _explain(error, text, file, environment) from error


_BOUNDS: Mapping[type[Exception], tuple[str, str]] = {
    TooLongError: (
        f"the template takes more than {LONGEST_S:g} s",
        "look for a loop within a loop, or a power; `range` gives at most 100,000 numbers",
    ),
    MemoryError: (
        f"the template takes more than {MOST_BYTES >> 20} MiB",
        "look for a text that is repeated, or filled up, to a very great length",
    ),
    RecursionError: (
        "the template goes round in circles, or is nested too deeply",
        "look for a macro that calls itself, or a file that includes itself",
    ),
}


class _UnknownName(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _key_of_the_secrets(what: str) -> _UnknownName:
    return _UnknownName(
        f"{what} is the key of the secrets itself, which no template sees",
        "name the secret where it is used: ${secret:name}",
    )


_MISSING = object()


def _lookup(function: str, known: dict[str, Any], remedy: str) -> Callable[..., Any]:
    def look_up(name: str, default: Any = _MISSING) -> Any:
        if function == "env_var" and name in KEY_VARIABLES:
            raise _key_of_the_secrets(f"env_var('{name}')")
        if name in known:
            if function == "env_var":
                check_no_key(known[name], what=f"env_var('{name}')")
            return known[name]
        if default is not _MISSING:
            return default
        supplied = f"those supplied: {', '.join(sorted(known))}" if known else "none is supplied"
        if function == "env_var":
            supplied = ""  # not the names of a whole environment
        near = did_you_mean(name, known)
        hint = "; ".join(filter(None, [near, f"{remedy}, or set a default", supplied]))
        raise _UnknownName(f"{function}('{name}') is not defined", hint)

    look_up.__name__ = function
    return look_up


def _secret(env: dict[str, str], folders: TemplateFolders) -> Callable[[str], str]:
    """Look a secret up: an environment variable, else a file of that name, without the newline at its end."""
    folder = folders.secrets

    def secret(name: str) -> str:
        what = f"secret('{name}')"
        if name in KEY_VARIABLES:
            raise _key_of_the_secrets(what)
        value = env.get(name)
        if value is None and folder is not None and re.fullmatch(r"[\w.-]+", name):
            file = folder / name
            if file.is_file():
                value = _text_of(file, what, folders).rstrip("\r\n")
        if value is None:
            file_hint = f", or put it into a file {folder / name}" if folder is not None else ""
            hint = f"set {name} in the environment or in .env{file_hint}; a secret has no default"
            raise _UnknownName(f"secret('{name}') is not defined", hint)
        check_no_key(value, what=what)
        keep_secret(value)
        return value

    return secret


def _text_of(file: Path, what: str, folders: TemplateFolders) -> str:
    try:
        return read_allowed_file(file, what=what, rules=folders.rules)
    except OSError as error:
        raise ConfigError(f"{what}: the file {file} cannot be read: {error.strerror}") from error


def _macros(
    environment: _MarkingEnvironment, folders: TemplateFolders
) -> dict[str, Callable[..., Any]]:
    """Return the macros of the project by name; their files are run when one is called."""

    def caller(file: str, name: str) -> Callable[..., Any]:
        def call(*values: Any, **named: Any) -> Any:
            module = environment.get_template(file).make_module()
            return getattr(module, name)(*values, **named)

        return call

    names = macro_names(environment, folders)
    return {name: caller(file, name) for name, file in names.items()}


def _lines(text: str) -> list[str]:
    """Split a text where Jinja counts lines."""
    return re.split(r"\r\n|\r|\n", text)


def _collect(pieces: Any, environment: _MarkingEnvironment) -> Source:
    size, parts = 0, []
    for piece in pieces:
        size += len(piece)
        if size > MAX_OUTPUT_CHARS:
            raise ValueError(f"the template renders to more than {MAX_OUTPUT_CHARS} characters")
        parts.append(piece)
    whole = MarkedText.join(parts)
    files, texts = environment.files, environment.texts
    line_map = tuple(
        LineOrigin(
            file=files[origins[0][0]],
            line=origins[0][1],
            text=texts[origins[0][0]][origins[0][1] - 1],
            called_from=tuple(f"{files[file]}:{line}" for file, line in origins[1:]),
        )
        for origins in origins_of(whole)
    )
    return Source(file=files[0], text=str.__str__(whole), line_map=line_map)


def _explain(
    error: Exception, text: str, file: str, environment: _MarkingEnvironment
) -> TemplateError:
    hint: str | None = getattr(error, "hint", None)
    line = _line_of(error.__traceback__, environment.files)
    message = error.message if isinstance(error, InputError) else str(error)
    if isinstance(error, tuple(_BOUNDS)):
        message, hint = next(found for kind, found in _BOUNDS.items() if isinstance(error, kind))
    if isinstance(error, TemplateSyntaxError):
        hint = (
            "{{ ... }} and {% ... %} are filled in here; put {% raw %} and {% endraw %} around text that has "
            "braces of its own, and write ${secret:name} or ${env:NAME} in an option's value"
        )
        named = error.filename if error.name != MAIN else None
        line = (named or file, error.lineno)
    elif isinstance(error, TemplateNotFound):
        message = f"there is no file '{error.name}' to include"
        hint = (
            "includes are looked for in the folder of the file and in the project, below them too"
        )
    elif isinstance(error, UndefinedError):
        name = re.match(r"'(\w+)' is undefined", message)
        near = did_you_mean(name[1], environment.globals) if name else None
        hint = near or "variables are read with {{ var('name') }} or {{ var('name', default) }}"
    elif isinstance(error, SecurityError):
        message = f"the template may not do this: {message}"
    span = None if line is None else _line_span(text, file, *line)
    if span is None and isinstance(error, tuple(_BOUNDS)):
        span = first_template_line(text, file)
    if span is not None:
        span = _narrowed(span, message)
    return TemplateError(message, hint=hint, span=span)


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
        shown = _lines(source)[line - 1]
    except (OSError, IndexError):
        shown = ""
    stripped = shown.strip()
    column = shown.index(stripped) + 1 if stripped else 1
    return Span(file=where, line=line, column=column, length=max(1, len(stripped)), line_text=shown)


def _narrowed(span: Span, message: str) -> Span:
    """The place of the name that a message quotes, if the line has it once; else the line as it was."""
    for name in re.findall(r"'([^']+)'", message):
        columns = [
            m.start() for m in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", span.line_text)
        ]
        if len(columns) == 1:
            return replace(span, column=columns[0] + 1, length=len(name))
    return span
