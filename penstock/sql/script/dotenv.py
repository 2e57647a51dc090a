"""Reads a `.env` file: `KEY=value` lines for the environment, which wins where it has the key too."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.catalog.errors import ConfigError, Span
from penstock.sql.script.files import check_link, check_own

__all__ = ["ENV_FILE", "read_dotenv", "sets_options"]

ENV_FILE = ".env"

_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<key>[A-Za-z_][\w.]*)\s*=\s*
        (?:'(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>[^'"#\s][^#]*?)?)
        \s*(?:\#.*)?""",
    re.VERBOSE,
)
_STARTS_PROGRAMS = re.compile(
    r"_?JAVA_(?:HOME|OPTS|\w*OPTIONS)|JDK_JAVA_OPTIONS|CLASSPATH|PYTHON[A-Z]*|PYSPARK_\w*"
    r"|(?:SPARK|HADOOP)_(?:HOME|CONF_DIR|\w*OPTS|\w*CLASSPATH)|(?:LD|DYLD|BASH)_\w*|SHELLOPTS|IFS|PATH|HOME"
    r"|GCONV_PATH|OPENSSL_(?:CONF|MODULES|ENGINES)|PENSTOCK_(?:FAILURE_MARK|SAFE_FOLDERS|CACHE|IVY_SETTINGS)"
)
_OWN = "PENSTOCK_"
_SETTABLE = frozenset(
    _OWN + name
    for name in (
        "BOOTSTRAP",
        "BOOTSTRAP_SERVERS",
        "CATALOG",
        "FORMAT",
        "MASTER",
        "OUTPUT_FORMAT",
        "SECRET_ENV_PREFIX",
        "SECRET_FILE_ROOTS",
        "SECRET_KEY",
        "SECRET_KEY_FILE",
        "STRICT",
        "TARGET",
    )
)
"""Variables of Penstock that a file of a project may set: keys of `penstock.toml`, output formats, and limits. None
decides how thoroughly a command checks, which file it reads or what it permits.
"""

_WHERE_TO = re.compile(
    r"PG(?!(?:USER|PASSWORD|DATABASE|APPNAME)$)[A-Z]\w*|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|SSLKEYLOGFILE|KRB5\w*"
)
"""Variables that redirect a connection, or make it less safe: the catalog that a user names by its URL would be
another one (PGHOSTADDR), or would be sent a password in plain text (PGSSLMODE).
"""

_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\\": "\\", r"\$": "$"}


def read_dotenv(file: Path) -> dict[str, str]:
    """Read a file of variables; one that is not there has none. Raises ConfigError at a line that is none.

    Values may stand in quotes; within "double" ones a backslash escapes as in a shell. A `#` begins a comment outside
    of quotes. Nothing is expanded.
    """
    if not file.is_file():
        return {}
    check_own(file)
    check_link(file, file.parent)
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
        if _STARTS_PROGRAMS.fullmatch(found["key"]):
            raise _starts_programs(file, number, found["key"])
        values[found["key"]] = _value(found)
    return values


def sets_options(key: str) -> bool:
    """Return whether a variable is set where a command is typed, and by no file: most of Penstock's, and of libpq's."""
    own = key.upper().startswith(_OWN) and key not in _SETTABLE
    return own or _WHERE_TO.fullmatch(key.upper()) is not None


def _value(found: re.Match[str]) -> str:
    if found["double"] is not None:
        return re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), found["double"])
    return found["single"] or found["bare"] or ""


def _starts_programs(file: Path, number: int, key: str) -> ConfigError:
    span = Span(file=str(file), line=number, column=1, length=len(key), line_text=key)
    return ConfigError(
        f"{key} is not set from a file: it decides which code the programs run that Penstock starts",
        hint="set it where the command is typed",
        span=span,
    )


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
