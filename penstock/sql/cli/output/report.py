"""The output conventions of commands: data on stdout, everything else on stderr, an error as text
with its exit status.
"""

from __future__ import annotations

import errno
import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

import typer

from penstock.catalog.errors import ConfigError, InputError, PenstockError
from penstock.catalog.masking import masked, without_secrets
from penstock.sql.cli.output.text import terminal_text
from penstock.sql.errors.exit_status import ExitStatus

if TYPE_CHECKING:
    from penstock.sql.errors.render import ErrorFormat
    from penstock.sql.runner.summary import ResultRows


_CONTROLS = re.compile(r"[\x7f-\x9f]")
UNLIMITED_WIDTH = 100_000

_OF_THE_MACHINE = {
    errno.EACCES: "change its permissions, or run the command as its owner",
    errno.EROFS: "run the command in a folder that you may write to",
    errno.ENOSPC: "the disk is full: free some space, and run the command again",
    errno.EDQUOT: "your quota of this disk is used up: free some space, and run the command again",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
}
"""What to do about errors of the operating system that are no fault of ours."""


class OutputFormat(StrEnum):
    """What stdout gets."""

    TABLE = "table"
    JSON = "json"


@dataclass(slots=True)
class Context:
    """What the root command hands to the others."""

    verbose: bool = False


@contextmanager
def reporting(
    context: typer.Context,
    *,
    verbose: bool = False,
    output: OutputFormat = OutputFormat.TABLE,
    errors: ErrorFormat | None = None,
    timed: bool = False,
) -> Iterator[bool]:
    """Run a command's body; its errors end as text on stderr and an exit status. Yields whether to be verbose.

    `errors` is their format; None is the form for people. `timed`: log messages begin with the time, for commands that
    run for long.
    """
    outer = context.find_object(Context) or Context()
    verbose = verbose or outer.verbose
    _configure_logging(verbose=verbose, timed=timed)
    try:
        yield verbose
    except InputError as error:
        _report(error, verbose=verbose, output=output, shape=errors)
        raise typer.Exit(
            ExitStatus.MAY_PASS if error.may_pass else ExitStatus.WRONG_INPUT
        ) from error
    except PenstockError as error:
        _report(error, verbose=verbose, output=output, shape=errors)
        raise typer.Exit(ExitStatus.FAILED) from error
    except KeyboardInterrupt as error:
        say("interrupted")
        raise typer.Exit(ExitStatus.INTERRUPTED) from error
    except BrokenPipeError as error:  # `penstock catalog ls | head`
        raise typer.Exit(ExitStatus.FAILED) from error
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            refusal = ConfigError(
                f"{error.filename or 'a file'} cannot be used: {error.strerror}",
                hint=_OF_THE_MACHINE[error.errno],
            )
            _report(refusal, verbose=verbose, output=output, shape=errors)
            raise typer.Exit(ExitStatus.FAILED) from error
        if verbose:
            say(traceback.format_exc().rstrip())
        say(
            f"error[{PenstockError.code}]: {type(error).__name__}: {_words(error)}",
            "help: this is a fault in penstock; --verbose shows where",
        )
        raise typer.Exit(ExitStatus.FAILED) from error


def _words(error: Exception) -> str:
    """Return the message of an error; one of Java has it in its process, which may have ended."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  whatever asking for it raises
        return "its message is lost with the process that had it; see the log of Spark"


def say(*lines: str) -> None:
    """Write lines to stderr: progress, diagnostics, what a person reads and a program does not."""
    for line in lines:
        sys.stderr.write(f"{terminal_text(without_secrets(line))}\n")
    sys.stderr.flush()


def say_warnings(warnings: Sequence[PenstockError], shape: ErrorFormat) -> None:
    """Write warnings to stderr, in the shape that errors have."""
    from penstock.sql.errors.render import Severity, show_error

    color = sys.stderr.isatty()
    say(*(show_error(one, shape, color=color, severity=Severity.WARNING) for one in warnings))


def print_json(document: Any) -> None:
    """Write one JSON document to stdout."""
    text = json.dumps(masked(document), indent=2, ensure_ascii=False)
    # JSON leaves these as they are, and terminals take some of them for commands
    text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_lines(lines: Sequence[str]) -> None:
    """Write lines of text to stdout."""
    sys.stdout.write(terminal_text(without_secrets("".join(f"{line}\n" for line in lines))))
    sys.stdout.flush()


def print_rows(rows: ResultRows) -> None:
    """Write a query's rows to stdout as a table; as wide as it is where stdout is no terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from penstock.sql.runner.summary import plain, time_text

    def _cell(value: object) -> str | Text:
        if value is None:
            return "NULL"
        text = time_text(value) if isinstance(value, datetime) else str(plain(value))
        return Text(terminal_text(text) if on_terminal else text)

    on_terminal = sys.stdout.isatty()
    table = Table()
    for column in rows.columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows.rows:
        table.add_row(*map(_cell, row))
    width = None if on_terminal else UNLIMITED_WIDTH
    Console(width=width).print(table)


def _report(
    error: PenstockError, *, verbose: bool, output: OutputFormat, shape: ErrorFormat | None
) -> None:
    from penstock.sql.errors.render import ErrorFormat, error_document, show_error

    if verbose:
        say(traceback.format_exc().rstrip())
    say(show_error(error, shape or ErrorFormat.FULL, color=sys.stderr.isatty()))
    if output is OutputFormat.JSON:
        print_json({"statements": [], "errors": error_document(error)})


class _Masked(logging.Formatter):
    """Writes messages without the secrets of templates; times in UTC, as event times are shown."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to the current stderr: a live display replaces it for a while."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignore what the base class chooses."""


def _is_no_interrupt_of_py4j(record: logging.LogRecord) -> bool:
    """Py4j logs Ctrl-C during a call with its stack, and by the root logger; the command reports it in one line."""
    return not (
        record.module == "java_gateway"
        and record.exc_info is not None
        and record.exc_info[0] is KeyboardInterrupt
    )


def _configure_logging(*, verbose: bool, timed: bool) -> None:
    """Show our own messages and the warnings of libraries; everything when asked."""
    handler = _Stderr()
    if not verbose:
        handler.addFilter(_is_no_interrupt_of_py4j)
    handler.setFormatter(
        _Masked("%(asctime)s %(message)s" if timed else "%(message)s", datefmt="%Y-%m-%d %H:%M:%SZ")
    )
    logging.basicConfig(
        handlers=[handler],
        level=logging.INFO if verbose else logging.WARNING,
        force=True,
    )
    logging.getLogger("penstock").setLevel(logging.DEBUG if verbose else logging.INFO)
    # an error in the writing of a batch comes back through Spark: no stack of it is wanted here as well
    logging.getLogger("py4j").setLevel(logging.INFO if verbose else logging.CRITICAL)
