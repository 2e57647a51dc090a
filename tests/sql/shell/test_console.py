"""What the shell's prompt remembers."""

from __future__ import annotations

import readline
from collections.abc import Iterator

import pytest

from penstock.sql.shell.console import _remember


@pytest.fixture
def remembered() -> Iterator[None]:
    """An empty history, empty again afterwards."""
    readline.clear_history()
    yield
    readline.clear_history()


@pytest.mark.usefixtures("remembered")
def test_a_statement_that_says_a_secret_is_not_remembered() -> None:
    """The history is a file; nor one that was meant to be such a statement."""
    for statement in (
        "SELECT 1;",
        "CREATE SECRET s AS 'hunter2-shell';",
        "alter\n  secret s as 'hunter2-shell';",
        "CREATE SECRT s AS 'hunter2-shell';",
        "SHOW SECRETS;",
    ):
        _remember(statement)

    lines = [readline.get_history_item(n + 1) for n in range(readline.get_current_history_length())]
    assert lines == ["SELECT 1;", "SHOW SECRETS;"]
