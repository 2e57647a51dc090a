"""What the shell's prompt remembers."""

from __future__ import annotations

import readline
from collections.abc import Iterator

import pytest

from penstock.sql.shell.console import Command, Entry, _remember, command_of


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


# --- typed lines become statements at their semicolon ---


@pytest.mark.parametrize(
    ("lines", "statements"),
    [
        (["SELECT 1;"], ["SELECT 1;"]),
        (["SELECT", "  1", ";"], ["SELECT\n  1\n;"]),
        (["SELECT 1; SELECT 2; SELECT"], ["SELECT 1;", "SELECT 2;"]),
        (["SELECT ';' -- ;", "/* ; */ ;"], ["SELECT ';' -- ;\n/* ; */ ;"]),
        (["SELECT 'a", ";b';"], ["SELECT 'a\n;b';"]),
        (["BEGIN STATEMENT SET;", "INSERT INTO a SELECT 1;"], []),
        (
            ["BEGIN STATEMENT SET;", "INSERT INTO a SELECT 1;", "END;"],
            ["BEGIN STATEMENT SET;\nINSERT INTO a SELECT 1;\nEND;"],
        ),
        ([";"], [";"]),
    ],
)
def test_a_statement_is_whole_at_its_semicolon(lines: list[str], statements: list[str]) -> None:
    """Not at one in a string, a comment or a statement set."""
    entry = Entry()

    found = [statement for line in lines for statement in entry.add(line)]

    assert found == statements


def test_what_was_begun_can_be_forgotten() -> None:
    """Ctrl-C at the prompt."""
    entry = Entry()
    entry.add("SELECT (")
    entry.clear()

    assert entry.is_empty
    assert entry.add("SELECT 1;") == ["SELECT 1;"]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("help", Command.HELP),
        (" QUIT ; ", Command.QUIT),
        ("exit", Command.QUIT),
        ("Clear;", Command.CLEAR),
        ("SELECT 1;", None),
        ("", None),
    ],
)
def test_the_shell_has_commands_of_its_own(line: str, command: Command | None) -> None:
    """In any case, with or without a semicolon."""
    assert command_of(line) is command
