"""The compiled build of sqlglot is found out at import, and the error says how to be rid of it."""

from __future__ import annotations

from types import ModuleType

import pytest

from penstock.catalog.errors import ConfigError, InputError
from penstock.sql.dialect.flink.compiled_sqlglot import CompiledSqlglotError, refuse_compiled_build


def test_a_compiled_module_is_refused_with_the_remedy() -> None:
    """Mypyc modules are loaded from .so files."""
    compiled = ModuleType("sqlglot.parser")
    compiled.__file__ = "site-packages/sqlglot/parser.cpython-311-x86_64-linux-gnu.so"

    with pytest.raises(CompiledSqlglotError, match="pip uninstall -y sqlglotc") as caught:
        refuse_compiled_build((compiled,))

    assert isinstance(caught.value, InputError), "the commands say it without a traceback"
    assert caught.value.code == ConfigError.code


def test_the_plain_build_passes() -> None:
    """The one that is installed here."""
    refuse_compiled_build()
