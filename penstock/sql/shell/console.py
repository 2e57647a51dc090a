"""The loop at the terminal: prompt, history, completion by readline.

Lines are collected until a statement ends with its `;`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.errors import PenstockError
from penstock.sql.errors.render import ErrorFormat, show_error
from penstock.sql.script.splitter import split_all, states_secret
from penstock.sql.shell.completion import Names, complete
from penstock.sql.syntax.positions import Source

if TYPE_CHECKING:
    from penstock.sql.shell.session import ShellSession


HELP = """\
Statements end with ; and may take several lines. Ctrl-C stops a running statement, Ctrl-D leaves.
  SHOW TABLES;  DESCRIBE t;  SHOW CREATE TABLE t;      tables and their definitions
  CREATE TABLE t (...) WITH (...);                     Tab completes options and their values
  SELECT ... FROM t;                                   rows; of an unbounded query with their kind (column op)
  INSERT INTO t SELECT ...;                            an unbounded query runs in the background
  SHOW JOBS;  STOP JOB 'id';                           queries that run in the background
  EXPLAIN SELECT ...;  SET;  SET 'key' = 'value';      the plan of a query; settings
  HELP  CLEAR  QUIT                                    commands of the shell
Spark starts with the first statement that needs it."""


class Command(Enum):
    """What the shell itself does; it needs no semicolon (Flink's CliStrings)."""

    HELP = auto()
    CLEAR = auto()
    QUIT = auto()


_COMMANDS = {
    "HELP": Command.HELP,
    "\\?": Command.HELP,
    "CLEAR": Command.CLEAR,
    "QUIT": Command.QUIT,
    "EXIT": Command.QUIT,
    "\\Q": Command.QUIT,
}


def command_of(line: str) -> Command | None:
    """Return the command that a line is; None for SQL."""
    return _COMMANDS.get(line.strip().rstrip(";").strip().upper())


class Entry:
    """The text that was typed since the last whole statement."""

    def __init__(self) -> None:
        self.text = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was begun."""
        return not self.text.strip()

    def clear(self) -> None:
        """Forget what was typed."""
        self.text = ""

    def add(self, line: str) -> list[str]:
        """Add a line; returns the statements that it ends, each with its semicolon."""
        self.text += f"{line}\n"
        whole: list[str] = []
        while (end := _end_of_first(self.text)) is not None:
            whole.append(self.text[:end].strip())
            self.text = self.text[end:].lstrip()
        return whole


def _end_of_first(text: str) -> int | None:
    """Return where the first statement of a text ends, behind its semicolon; None where it is incomplete."""
    for at, char in enumerate(text):
        if char != ";":
            continue
        # a second statement is there behind the semicolon if and only if that ends the first
        found, error = split_all(Source(file="shell", text=f"{text[: at + 1]}\nSELECT"))
        if error is None and len(found) == 2:
            return at + 1
        if error is None and len(found) == 1 and found[0].text == "SELECT":
            return at + 1  # an empty statement
    return None


PROMPT, MORE = "penstock> ", "        > "

HISTORY_LINES = 5_000

_DELIMITERS = " \t\n,;()="


def history_file() -> Path:
    """Return where lines are remembered: PENSTOCK_HISTORY, else in the user's state folder."""
    named = os.environ.get("PENSTOCK_HISTORY")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(named) if named else Path(state) / "penstock" / "history"


class Console:
    """Reads statements from a terminal and runs them until the user leaves."""

    def __init__(self, session: ShellSession, names: Names, say: Callable[[str], None]) -> None:
        self._session = session
        self._names = names
        self._say = say
        self._entry = Entry()

    def loop(self) -> None:
        """Run until QUIT or the end of the input."""
        history = history_file()
        self._open_readline(history)
        try:
            while self._turn():
                pass
        finally:
            self._save(history)

    def _turn(self) -> bool:
        """Read a line and run what it ends. Returns False at the end."""
        try:
            line = input(PROMPT if self._entry.is_empty else MORE)
        except KeyboardInterrupt:
            self._entry.clear()
            self._say("")
            return True
        except EOFError:
            self._say("")
            return False
        if self._entry.is_empty:
            match command_of(line):
                case Command.QUIT:
                    return False
                case Command.HELP:
                    self._say(HELP)
                    return True
                case Command.CLEAR:
                    sys.stdout.write("\x1b[2J\x1b[H")
                    sys.stdout.flush()
                    return True
        for statement in self._entry.add(line):
            _remember(statement)
            self._run(statement)
        return True

    def _run(self, statement: str) -> None:
        try:
            self._session.run(statement)
        except PenstockError as error:
            self._say(show_error(error, ErrorFormat.FULL, color=sys.stderr.isatty()))
        except KeyboardInterrupt:
            self._say("given up")
        except Exception as error:  # noqa: BLE001  a fault of ours ends the statement, not the shell
            self._say(f"error[{PenstockError.code}]: {type(error).__name__}: {error}")
            self._say("help: this is a fault in penstock; `penstock --verbose shell` shows more")

    def _open_readline(self, history: Path) -> None:
        try:
            import readline
        except ImportError:  # Windows has none: lines are read all the same
            return
        readline.set_completer_delims(_DELIMITERS)
        readline.set_completer(self._completer)
        readline.parse_and_bind("tab: complete")
        readline.set_history_length(HISTORY_LINES)
        if hasattr(readline, "set_auto_history"):
            readline.set_auto_history(False)
        try:
            readline.read_history_file(history)
        except OSError:
            return  # the first time there is none

    def _save(self, history: Path) -> None:
        try:
            import readline

            history.parent.mkdir(parents=True, exist_ok=True)
            history.touch(mode=0o600)  # statements may hold passwords
            readline.write_history_file(history)
        except (ImportError, OSError):
            return  # a shell without history is one all the same

    def _completer(self, word: str, state: int) -> str | None:
        import readline

        line = readline.get_line_buffer()[: readline.get_begidx()]
        try:
            found = complete(self._entry.text + line, word, self._names)
        except PenstockError:
            return None  # the catalog does not answer: nothing to offer
        return found[state] if state < len(found) else None


def _remember(statement: str) -> None:
    try:
        import readline
    except ImportError:
        return
    if states_secret(statement):
        return
    readline.add_history(" ".join(statement.split("\n")) if "--" not in statement else statement)
