"""Reads a `.env` file: `KEY=value` lines for the environment, which wins where it has the key too."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.catalog.errors import ConfigError, Span

__all__ = ["ENV_FILE", "read_dotenv"]

ENV_FILE = ".env"

_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<key>[A-Za-z_][\w.]*)\s*=\s*
        (?:'(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>[^'"#\s][^#]*?)?)
        \s*(?:\#.*)?""",
    re.VERBOSE,
)
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\\": "\\", r"\$": "$"}


def read_dotenv(file: Path) -> dict[str, str]:
    """Read a file of variables; one that is not there has none. Raises ConfigError at a line that is none.

    Values may stand in quotes; within "double" ones a backslash escapes as in a shell. A `#` begins a comment outside
    of quotes. Nothing is expanded.
    """
    if not file.is_file():
        return {}
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    values: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise _malformed(file, number, line)
        values[found["key"]] = _value(found)
    return values


def _value(found: re.Match[str]) -> str:
    if found["double"] is not None:
        return re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), found["double"])
    return found["single"] or found["bare"] or ""


def _malformed(file: Path, number: int, line: str) -> ConfigError:
    # the line may hold a password: only what stands before the equals sign is shown
    shown = line.partition("=")[0].strip()
    span = Span(
        file=str(file), line=number, column=1, length=max(1, len(shown)), line_text=shown or "="
    )
    return ConfigError(
        "this is no line of an environment file",
        hint="write KEY=value, a value with blanks, quotes or # in 'quotes'",
        span=span,
    )
