"""Collects typed lines into statements: one is whole at its `;`, outside of strings, comments and statement sets."""

from __future__ import annotations

from enum import Enum, auto

from penstock.sql.positions import Source
from penstock.sql.script import split_all

__all__ = ["Command", "Entry", "command_of"]


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
    """Give the command that a line is; None for SQL."""
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
        """Take a line; gives the statements that it ends, each with its semicolon."""
        self.text += f"{line}\n"
        whole: list[str] = []
        while (end := _end_of_first(self.text)) is not None:
            whole.append(self.text[:end].strip())
            self.text = self.text[end:].lstrip()
        return whole


def _end_of_first(text: str) -> int | None:
    """Give where the first statement of a text ends, behind its semicolon; None where it goes on."""
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
