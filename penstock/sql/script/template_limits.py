"""Bounds of templates: which files they may read, and how much time and memory they may use.

Files are those of a template's own folder and of its project, and the project's macros. What could loop or grow is
rendered in a child process of its own: a fork takes some milliseconds, and its memory is freed with it, while the
result of a macro, a filter or a number times a text cannot be predicted. A template that only names variables is
rendered here, which costs nothing. Where there is no fork, on Windows, templates have no bounds.
"""

from __future__ import annotations

import os
import pickle
import re
import selectors
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from jinja2 import BaseLoader, Environment, TemplateNotFound, nodes

from penstock.catalog.errors import PenstockError, Span, TemplateError
from penstock.catalog.masking import forget_secrets, keep_secret, kept_secrets
from penstock.catalog.options.reference_rules import check_no_key
from penstock.sql.script.files import TemplateFolders, check_own, lies_open_in

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


LONGEST_S = 5.0
"""Seconds that a template may take; a thousand lines from loops take a hundredth."""

MOST_BYTES = 512 << 20
"""What a template may take of memory, beside what the process has already."""

_GRACE_S = 2.0
"""After this much more the child is killed: an operation within Python's own code cannot be interrupted."""

T = TypeVar("T")

_PLAIN = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.Call)
_LOOKUPS = ("var", "env_var", "secret")


class TooLongError(Exception):
    """A template took too long."""


def is_plain(tree: nodes.Template) -> bool:
    """Return whether a template only puts in texts and named values: it takes no more than it has."""
    return all(
        isinstance(node, _PLAIN)
        and not (
            isinstance(node, nodes.Call)
            and not (isinstance(node.node, nodes.Name) and node.node.name in _LOOKUPS)
        )
        for node in (tree, *tree.find_all(nodes.Node))
    )


def within_limits(work: Callable[[], T], text: str, file: str) -> T:
    """Run `work` in a child process with bounds, and return its result. Raises its errors, and TemplateError.

    Secrets that the child has seen are masked here too.
    """
    if not hasattr(os, "fork"):
        return work()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # the child takes no lock of other threads: it renders, writes to the pipe and is gone
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os.close(reader)
        _answer(work, writer)
    os.close(writer)
    try:
        answer = _received(reader, LONGEST_S + _GRACE_S)
    finally:
        os.close(reader)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not answer:
        raise TemplateError(
            f"the template took more than {LONGEST_S:g} s or {MOST_BYTES >> 20} MiB, and was stopped",
            hint="look for a loop, a power or a text that is repeated very often",
            span=first_template_line(text, file),
        )
    result, error, secrets = pickle.loads(answer)  # noqa: S301  our own child wrote it
    for value in secrets:
        keep_secret(value)
    if error is not None:
        kind, message, hint, span = error
        raise kind(message, hint=hint, span=span)
    return result  # type: ignore[no-any-return]


def _answer(work: Callable[[], Any], writer: int) -> NoReturn:
    """Run the work in the child and write its result; nothing of the parent's is flushed or closed."""
    try:
        forget_secrets()
        _bind()
        result, error = _outcome(work)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _unbind()
        document = pickle.dumps((result, error, kept_secrets()))
        while document:
            document = document[os.write(writer, document) :]
    finally:
        os._exit(0)  # not this process's handlers, threads or open files


def _outcome(
    work: Callable[[], Any],
) -> tuple[Any, tuple[type, str, str | None, Span | None] | None]:
    try:
        return work(), None
    except PenstockError as error:
        return None, (type(error), error.message, error.hint, getattr(error, "span", None))


def _bind() -> None:
    """Bound this process. Soft limits, which end a computation and not the answer."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    import resource  # not on Windows

    # what the process has is not the template's
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _unbind() -> None:
    """Lift the bound of memory for the answer."""
    import resource

    with suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _too_long(*_: object) -> NoReturn:
    raise TooLongError


def _received(reader: int, timeout_s: float) -> bytes:
    """Read what a child writes until it ends; nothing where that takes too long."""
    parts: list[bytes] = []
    end = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while selector.select(max(0.0, end - time.monotonic())):
            part = os.read(reader, 1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
    return b""


def first_template_line(text: str, file: str) -> Span | None:
    """Return the first line that has template syntax: where in it the time went is not known."""
    for number, line in enumerate(text.split("\n"), start=1):
        at = min((line.find(mark) for mark in ("{{", "{%") if mark in line), default=-1)
        if at >= 0:
            length = len(line) - at
            return Span(file=file, line=number, column=at + 1, length=length, line_text=line)
    return None
