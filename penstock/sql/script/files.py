"""SQL files and the folders of a project, and its `.env` file.

`.env` has `KEY=value` lines for the environment, which wins where it has the key too.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.catalog.errors import ConfigError, Span
from penstock.catalog.options.reference_rules import ReferenceRules

SAFE_FOLDERS_VARIABLE = "PENSTOCK_SAFE_FOLDERS"
"""Folders, separated as in PATH, whose files are accepted from any owner; `*` for all."""


def check_own(file: Path, *, folder: bool = True) -> None:
    """Check that an existing file, and with `folder` its folder, belong to this user or to root.

    Raises ConfigError. A link belongs to its maker, and its target is checked as well.
    """
    if not hasattr(os, "geteuid") or _is_safe(file):
        return
    looked_at = (file, file.parent) if folder else (file,)
    for path in looked_at:
        owners = {path.lstat().st_uid, path.stat().st_uid}
        if foreign := owners - _trusted():
            raise ConfigError(
                f"{file} is not used: {'it' if path == file else path} belongs to another user (uid {min(foreign)})",
                hint=f"if you trust it, set {SAFE_FOLDERS_VARIABLE}={file.parent.resolve()}",
            )


def check_link(file: Path, root: Path) -> None:
    """Check that a file of the project at `root` is no link that leads out of it. Raises ConfigError.

    Links can be committed, and what is wrong with a file is shown with its lines: `~/.netrc` would be in a report.
    """
    target, project = file.resolve(), root.resolve()
    is_here = file.parent.resolve().is_relative_to(project)
    if is_here and not target.is_relative_to(project) and not _is_safe(file):
        raise ConfigError(
            f"{file} is not used: it is a link that leads out of its project",
            hint=f"if you trust it, set {SAFE_FOLDERS_VARIABLE}={target.parent}",
        )


def _trusted() -> set[int]:
    """Return this user, root, and behind sudo the user who asked for it."""
    user = os.geteuid()
    by_sudo = os.environ.get("SUDO_UID", "")
    return {0, user} | ({int(by_sudo)} if user == 0 and by_sudo.isdigit() else set())


def _is_safe(file: Path) -> bool:
    named = [each for each in os.environ.get(SAFE_FOLDERS_VARIABLE, "").split(os.pathsep) if each]
    return "*" in named or any(
        file.resolve().is_relative_to(Path(each).resolve()) for each in named
    )


MACRO_FOLDER = "macros"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFolders:
    """Where templates look beside their own folder. `macros` None is `macros` in the root; `secrets` None is none.

    `rules` are the project's, which limit what `secret()` reads, beside those in force.
    """

    root: Path
    macros: Path | None = None
    secrets: Path | None = None
    rules: ReferenceRules = field(default_factory=ReferenceRules)

    @property
    def macro_folder(self) -> Path:
        """The folder whose files define macros for all templates."""
        return self.macros or self.root / MACRO_FOLDER


def lies_open_in(path: Path, root: Path) -> bool:
    """Return whether a path, links followed, lies in a folder and below no hidden one in it."""
    path, root = path.resolve(), root.resolve()
    if not path.is_relative_to(root):
        return False
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """A file's name, as the user gave it, and its text. `path` is None for a text that is in no file."""

    name: str
    text: str
    path: Path | None = None

    @property
    def pipeline(self) -> str:
        """The pipeline's name without a SET: the file's, without folders and ending."""
        return Path(self.name).stem


def read_script(path: Path) -> ScriptFile:
    """Read a SQL file. Raises ConfigError."""
    try:
        return ScriptFile(name=str(path), text=path.read_text(encoding="utf-8-sig"), path=path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}") from error


def write_script(file: ScriptFile, text: str) -> None:
    """Replace the text of a file that was read, atomically. Raises ConfigError."""
    assert file.path is not None, "a text in no file cannot be written back"
    target = file.path.resolve()  # a link stays one
    beside = target.with_name(f".{target.name}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.chmod(target.stat().st_mode)
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):  # a read-only file system refuses it even where there is no file
            beside.unlink(missing_ok=True)
        raise ConfigError(f"{file.path} cannot be written: {error.strerror}") from error


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
