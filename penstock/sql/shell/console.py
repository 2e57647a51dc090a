"""The loop at the terminal: prompt, history, completion by readline; errors are shown and the shell goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.errors import PenstockError
from penstock.sql.error_formats import ErrorFormat, show_error
from penstock.sql.secrets import states_secret
from penstock.sql.shell.completion import Names, complete
from penstock.sql.shell.entry import Command, Entry, command_of

if TYPE_CHECKING:
    from penstock.sql.shell.session import ShellSession

__all__ = ["Console", "history_file"]

PROMPT, MORE = "penstock> ", "        > "
HISTORY_LINES = 5_000
_DELIMITERS = " \t\n,;()="

HELP = """\
Statements end with ; and may take several lines. Ctrl-C stops a running statement, Ctrl-D leaves.
  SHOW TABLES;  DESCRIBE t;  SHOW CREATE TABLE t;      what there is
  CREATE TABLE t (...) WITH (...);                     Tab completes options and their values
  SELECT ... FROM t;                                   rows; op tells what changes where a query never ends
  INSERT INTO t SELECT ...;                            a query that never ends goes on beside the shell
  EXPLAIN SELECT ...;  SET;  SET 'key' = 'value';      how it would run; settings
  HELP  CLEAR  QUIT                                    of the shell itself
Spark starts with the first statement that needs it."""


def history_file() -> Path:
    """Give where lines are remembered: PENSTOCK_HISTORY, else in the user's state folder."""
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
        """Read a line and run what it ends. Gives False at the end."""
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
