"""The options of a cell: what stands behind `%%penstock` on its first line."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass, field
from typing import NoReturn

from penstock.catalog.errors import OptionError

USAGE = """\
%%penstock [--limit N] [-v NAME=VALUE]... [--available-now] [--seconds S] [--rows N] [--catalog URL] [--out NAME]
  --limit N         rows of a SELECT that are shown (20)
  -v NAME=VALUE     a variable of templates: {{ var('NAME') }}; may be given several times
  --available-now   read what is there now and end; otherwise a query over a table without end goes on
  --seconds S       end a SELECT without end after so many seconds
  --rows N          end a SELECT without end after so many rows
  --catalog URL     the catalog to connect to, where no session is open
  --out NAME        keep the frame of the last SELECT, or the job of the last INSERT, in a variable"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOptions:
    """What a cell asks for. `limit` is in rows, `seconds` in seconds of wall-clock time; None is no bound."""

    limit: int = 20
    variables: dict[str, str] = field(default_factory=dict)
    available_now: bool = False
    seconds: float | None = None
    rows: int | None = None
    catalog: str | None = None
    out: str | None = None


class _Parser(argparse.ArgumentParser):
    """Raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"%%penstock: {message}", hint=USAGE)


def read_cell_options(line: str) -> CellOptions:
    """Read the first line of a cell. Raises OptionError, with all options as its hint."""
    parser = _Parser(prog="%%penstock", add_help=False, allow_abbrev=False)
    parser.add_argument("--limit", type=_count, default=CellOptions().limit)
    parser.add_argument("-v", "--var", action="append", default=[])
    parser.add_argument("--available-now", action="store_true")
    parser.add_argument("--seconds", type=_seconds)
    parser.add_argument("--rows", type=_count)
    parser.add_argument("--catalog")
    parser.add_argument("--out")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise OptionError(f"%%penstock: {error}", hint=USAGE) from None
    found = parser.parse_args(words)
    if found.out is not None and not found.out.isidentifier():
        raise OptionError(f"%%penstock: --out {found.out!r} is not the name of a variable")
    return CellOptions(
        limit=found.limit,
        variables=dict(map(_pair, found.var)),
        available_now=found.available_now,
        seconds=found.seconds,
        rows=found.rows,
        catalog=found.catalog,
        out=found.out,
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise OptionError(
            f"%%penstock: -v {text}: a variable is NAME=VALUE", hint="-v day=2024-05-01"
        )
    return name, value
