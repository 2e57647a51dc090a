"""Reads the small files that references and `secret()` name: regular files alone, and never one that is the key's.

What is opened is looked at, not what a path said before: a link, a pipe, a device or a kernel's file under another name
is found by the open file itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import ConfigError, OptionError
from penstock.catalog.reference_rules import ReferenceRules, rules_in_force
from penstock.catalog.secret import KEY_VARIABLES, is_key_file, keys_in_use

__all__ = ["LARGEST_FILE", "check_no_key", "read_allowed_file", "read_referred_file"]

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
    """Give the text of a file that all rules in force, and `rules`, allow. Raises as `read_referred_file`."""
    among = rules_in_force() if rules is None else (*rules_in_force(), rules)
    groups = [each.file_roots for each in among if each.file_roots is not None]
    return read_referred_file(path, what=what, roots=groups)


def read_referred_file(path: Path, *, what: str, roots: Sequence[tuple[Path, ...]] = ()) -> str:
    """Give the text of a file; `what` names who asks. The file must lie in a folder of each group of `roots`.

    It is opened once, so that what is looked at is what is read. Raises OSError as it comes, OptionError for a key's
    file and one outside of `roots`, ConfigError for one that is no regular file, too large or no text.
    """
    # a pipe without a writer would block the process that opens it
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with closing(_Opened(handle=handle, path=_true_path(handle, path), what=what)) as opened:
        _check_kind(opened)
        for group in roots:
            _check_roots(opened, group)
        return _text(_content(opened), what)


def check_no_key(value: str, *, what: str) -> None:
    """Refuse a value that holds a key of the secrets, whatever way it came. Raises OptionError."""
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
    """Read the file, at most one byte more than is allowed: its size is what a file system says of it."""
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
    """Give the path of an open file, links followed: as the kernel has it where it tells."""
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
