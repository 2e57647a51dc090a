"""Which variables and files the references of options may read, and the bounded read of such a file.

The operator's environment decides (`PENSTOCK_REFERENCE_*`), and the project may only narrow it. A file of keys and
values is one of Java's properties files (java.util.Properties.load).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import ConfigError, OptionError
from penstock.catalog.secrets.crypto import KEY_VARIABLES, is_key_file, keys_in_use

_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_LINE = re.compile(
    r"(?P<key>(?:[^\\=:\s]|\\.)*)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+)?(?P<value>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """Return the pairs of a properties file; the last one of a key counts."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        assert match is not None, "every line matches"
        found[_plain(match["key"])] = _plain(match["value"])
    return found


def properties_text(values: Mapping[str, str]) -> str:
    """Write pairs as a properties file that Java reads back as they are."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in values.items())


def _escaped(text: str) -> str:
    """Escape what Java would take for a separator, a comment, an escape or an end."""
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    return "".join(named.get(c, f"\\{c}" if c in "\\=:#! " else c) for c in text)


def _logical_lines(text: str) -> list[str]:
    """Join lines that end with a backslash to the next ones; comments and empty lines are left out."""
    lines: list[str] = []
    begun: str | None = None
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if begun is None and (not line or line[0] in "#!"):
            continue
        line = (begun or "") + line
        begun = line[:-1] if _CONTINUED.search(line) else None
        if begun is None:
            lines.append(line)
    return [*lines, begun] if begun else lines


def _plain(text: str) -> str:
    return _ESCAPE.sub(
        lambda m: chr(int(m[1], 16)) if m[1] else _CONTROL.get(m[2], m[2]),
        text,
    )


FILE_ROOTS_VARIABLE = "PENSTOCK_SECRET_FILE_ROOTS"
"""Folders, separated as in PATH."""

ENV_PREFIX_VARIABLE = "PENSTOCK_SECRET_ENV_PREFIX"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRules:
    """What references may name. None: no limit."""

    file_roots: tuple[Path, ...] | None = None
    env_prefix: str | None = None

    @property
    def limits(self) -> bool:
        """Return whether there is a limit at all."""
        return self.file_roots is not None or self.env_prefix is not None


_of_projects: dict[ReferenceRules, None] = {}


def add_rules(rules: ReferenceRules) -> None:
    """Enforce the rules of a project in this process from now on."""
    if rules.limits:
        _of_projects[rules] = None


def rules_in_force() -> tuple[ReferenceRules, ...]:
    """Return the rules that hold here: the environment's, then those of projects."""
    roots = os.environ.get(FILE_ROOTS_VARIABLE)
    named = ReferenceRules(
        file_roots=None
        if roots is None
        else tuple(Path(each) for each in roots.split(os.pathsep) if each),
        env_prefix=os.environ.get(ENV_PREFIX_VARIABLE),
    )
    return (*([named] if named.limits else ()), *_of_projects)


def check_variable(name: str) -> None:
    """Check that a reference may name a variable. Raises OptionError."""
    for rules in rules_in_force():
        if rules.env_prefix is not None and not name.startswith(rules.env_prefix):
            raise OptionError(
                f"${{env:{name}}}: references may name variables that begin with {rules.env_prefix} alone",
                hint=f"the prefix comes from [secrets] env-prefix of penstock.toml or from {ENV_PREFIX_VARIABLE}",
            )


def visible_variables(environment: Mapping[str, str], rules: ReferenceRules) -> dict[str, str]:
    """Return the variables that templates may read: none that is a key, and those that all rules allow."""
    prefixes = [
        each.env_prefix for each in (*rules_in_force(), rules) if each.env_prefix is not None
    ]
    return {
        name: value
        for name, value in environment.items()
        if name not in KEY_VARIABLES and all(map(name.startswith, prefixes))
    }


LARGEST_FILE = 1 << 20
"""Bytes of a file that a reference may name."""

KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
"""What lies there are no files but views of processes and devices: `/proc/self/environ` has the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    handle: int
    path: Path
    what: str

    def close(self) -> None:
        os.close(self.handle)


def read_allowed_file(path: Path, *, what: str, rules: ReferenceRules | None = None) -> str:
    """Return the text of a file that all rules in force, and `rules`, allow. Raises as `read_referred_file`."""
    among = rules_in_force() if rules is None else (*rules_in_force(), rules)
    groups = [each.file_roots for each in among if each.file_roots is not None]
    return read_referred_file(path, what=what, roots=groups)


def read_referred_file(path: Path, *, what: str, roots: Sequence[tuple[Path, ...]] = ()) -> str:
    """Return the text of a file; `what` names the requester. The file must lie in a folder of each group of `roots`.

    It is opened once, so that the checked file is the one that is read. Raises OSError as it comes, OptionError for a
    key's file and one outside of `roots`, ConfigError for one that is no regular file, too large or no text.
    """
    # a pipe without a writer would block the process that opens it
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with closing(_Opened(handle=handle, path=_true_path(handle, path), what=what)) as opened:
        _check_kind(opened)
        for group in roots:
            _check_roots(opened, group)
        return _text(_content(opened), what)


def check_no_key(value: str, *, what: str) -> None:
    """Refuse a value that holds a key of the secrets, whatever its origin. Raises OptionError."""
    if any(key in value for key in keys_in_use()):
        raise _is_the_key(what)


def _check_kind(opened: _Opened) -> None:
    found = os.fstat(opened.handle)
    inside = any(opened.path.is_relative_to(folder) for folder in KERNEL_FOLDERS)
    if inside or not stat.S_ISREG(found.st_mode):
        raise ConfigError(
            f"{opened.what}: this is no regular file",
            hint=f"a reference names a file with a text, and none below {', '.join(KERNEL_FOLDERS)}",
        )
    if is_key_file(found):
        raise _is_the_key(opened.what)
    if found.st_size > LARGEST_FILE:
        raise _too_large(opened.what)


def _check_roots(opened: _Opened, roots: tuple[Path, ...]) -> None:
    if any(opened.path.is_relative_to(root.resolve()) for root in roots):
        return
    allowed = ", ".join(map(str, roots)) or "none"
    raise OptionError(
        f"{opened.what}: the file lies in none of the folders that references may read",
        hint=f"they are: {allowed} ([secrets] file-roots, PENSTOCK_SECRET_FILE_ROOTS)",
    )


def _content(opened: _Opened) -> bytes:
    """Read the file, at most one byte more than is allowed: the size that a file system reports may be wrong."""
    left, parts = LARGEST_FILE + 1, []
    while left and (part := os.read(opened.handle, left)):
        parts.append(part)
        left -= len(part)
    if not left:
        raise _too_large(opened.what)
    content = b"".join(parts)
    if content and not os.fstat(opened.handle).st_size:
        # procfs under another path: its files say that they are empty, and are not
        raise ConfigError(
            f"{opened.what}: this is no regular file", hint="a reference names a file on a disk"
        )
    return content


def _text(content: bytes, what: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(
            f"{what}: the file cannot be read: it is no UTF-8 text",
            hint="a reference is for passwords, keys and certificates in PEM",
        ) from None


def _true_path(handle: int, path: Path) -> Path:
    """Return the path of an open file, links followed: the kernel's where it is available."""
    try:
        return Path(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115  no path of its own
    except OSError:
        return path.resolve()


def _too_large(what: str) -> ConfigError:
    return ConfigError(
        f"{what}: the file is larger than {LARGEST_FILE} bytes",
        hint="a reference is for passwords, keys and certificates",
    )


def _is_the_key(what: str) -> OptionError:
    return OptionError(
        f"{what} gives the key of the secrets itself, which no table may send anywhere",
        hint=f"the key stays in {KEY_VARIABLES[0]} or in its file",
    )
