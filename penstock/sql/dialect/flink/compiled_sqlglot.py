"""Refuses the compiled build of sqlglot, under which a dialect of our own cannot exist.

Since 2026-03 `sqlglot[c]` (distribution `sqlglotc`) compiles parser and generator with mypyc; a
Python subclass of a compiled class fails at the first parse with a message that tells nothing.
"""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

from sqlglot import generator, parser, tokenizer_core

from penstock.catalog.errors import ConfigError, InputError

REMEDY = (
    "remove it and put the plain one back: "
    "pip uninstall -y sqlglotc && pip install --force-reinstall --no-deps sqlglot"
)


class CompiledSqlglotError(InputError, ImportError):
    """The compiled sqlglot is installed; `pip uninstall sqlglotc` fixes it.

    An InputError for the commands, an ImportError for programs that import the dialect.
    """

    code: ClassVar[str] = ConfigError.code


def refuse_compiled_build(
    modules: tuple[ModuleType, ...] = (tokenizer_core, parser, generator),
) -> None:
    """Raise CompiledSqlglotError if any of `modules` was not loaded from a .py file."""
    compiled = [
        m.__name__ for m in modules if not (getattr(m, "__file__", "") or "").endswith("py")
    ]
    if compiled:
        raise CompiledSqlglotError(
            "the compiled build of sqlglot (sqlglot[c], sqlglotc) is installed and refuses "
            f"dialects written in Python ({', '.join(compiled)}); {REMEDY}"
        )
