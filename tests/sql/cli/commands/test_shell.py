"""`penstock shell` at a terminal and behind a pipe, as far as it goes without Spark."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time
from pathlib import Path

import pytest

from penstock.sql.cli.commands.app import app
from tests.sql.cli.command_runner import CommandRunner

COMMAND = [sys.executable, "-c", "from penstock.sql.cli.commands.app import main; main()", "shell"]
TABLE = "CREATE TABLE words (word STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'raw');"
PROMPT, MORE = r"penstock> $", r" > $"
END_S = 60


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, folder):
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ |= {
                "TERM": "dumb",
                "NO_COLOR": "1",
                "PENSTOCK_HISTORY": str(folder / "history"),
            }
            os.execv(sys.executable, COMMAND)
        self._text = ""

    def type(self, text):
        """Type as a person would."""
        os.write(self._file, text.encode())

    def interrupt(self):
        """Type Ctrl-C while the shell sleeps until a key is typed.

        Python's readline loses a signal between the prompt and its wait for a key, until the next one is typed.
        """
        deadline = time.monotonic() + END_S
        while not Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].startswith("S"):
            assert time.monotonic() < deadline, "the shell waits for no key"
            time.sleep(0.01)
        self.type("\x03")

    def expect(self, pattern):
        """Wait until what was not checked yet ends in, or has, a match; gives the text up to there."""
        deadline = time.monotonic() + END_S
        while not (found := re.search(pattern, self._text)):
            ready, _, _ = select.select([self._file], [], [], deadline - time.monotonic())
            assert ready, f"no {pattern!r} in {self._text!r}"
            self._text += os.read(self._file, 4096).decode()
        seen, self._text = self._text[: found.end()], self._text[found.end() :]
        return seen

    def end(self):
        """Wait for the end; gives the exit status."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal(tmp_path):
    """A shell in an empty project."""
    return Terminal(tmp_path)


@pytest.mark.spark
def test_statements_are_typed_over_lines_and_the_shell_survives_errors(terminal, tmp_path):
    """Prompt, continuation, Ctrl-C, completion by Tab, HELP, an error, history, QUIT."""
    terminal.expect(PROMPT)
    terminal.type("SELECT 'never\n")
    terminal.expect(MORE)
    terminal.interrupt()
    terminal.expect(PROMPT)
    terminal.type("help\n")
    help_text = terminal.expect(PROMPT)
    terminal.type(TABLE.replace(" WITH", "\nWITH") + "\n")
    terminal.expect("finished +CREATE TABLE words")
    terminal.expect(PROMPT)
    terminal.type("SELECT wrod FROM wo\t;\n")
    error = terminal.expect(PROMPT)
    terminal.type("DESCRIBE words;\n")
    described = terminal.expect(PROMPT)
    terminal.type("quit\n")

    assert terminal.end() == 0
    assert "Ctrl-C stops a running statement" in help_text
    assert "error[PEN-2001]" in error
    assert "did you mean 'word'?" in error
    assert "STRING" in described
    assert "DESCRIBE words;" in (tmp_path / "history").read_text()
    assert (tmp_path / "history").stat().st_mode & 0o077 == 0


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Runs a shell behind a pipe in the same empty project; both streams apart."""
    monkeypatch.chdir(tmp_path)
    runner = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return lambda *arguments, text="": runner.invoke(app, ["shell", *arguments], input=text)


def test_statements_can_be_given(shell, tmp_path):
    """An initial file first; rows on stdout, the rest on stderr; an error ends it with status 2."""
    (tmp_path / "init.sql").write_text(TABLE)

    shown = shell("-i", "init.sql", "-e", "SHOW TABLES;", "-e", "EXPLAIN SELECT word FROM words")
    wrong = shell("-e", "SELECT x FROM words", "-e", "SHOW TABLES")
    piped = shell(text="SHOW TABLES; SET 'pipeline.name' = 'x';")

    assert shown.exit_code == 0
    assert "words" in shown.stdout
    assert "Scan words (filesystem)" in shown.stdout
    assert "Spark" not in shown.stderr
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert (piped.exit_code, "words" in piped.stdout) == (0, True)
