"""The password file: a line a user, `name:$scrypt$ln=15,r=8,p=1$salt$hash`. Hashes only, never a password.

scrypt (RFC 7914) with 32 MiB a check makes guessing slow for a thief of the file. The file is read again at every
log-in, so that users are added and removed without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

from penstock.catalog.errors import ConfigError, UnknownObjectError, did_you_mean

MIN_PASSWORD_LENGTH = 8
LOG_COST, BLOCK_SIZE, PARALLELISM = 15, 8, 1
MAX_COST = (20, 8, 4)
"""The most of each: 1 GiB a check. A file that asks for more would take the server's memory."""

SALT_BYTES, HASH_BYTES = 16, 32
# Hive's server splits user names at / and @, and escapes them as an LDAP name
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_LINE = re.compile(
    r"(?P<name>[^:]+):\$scrypt\$ln=(?P<ln>\d+),r=(?P<r>\d+),p=(?P<p>\d+)"
    r"\$(?P<salt>[A-Za-z0-9+/=]+)\$(?P<hash>[A-Za-z0-9+/=]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordHash:
    """A salted scrypt hash. `log_cost` is the base-2 logarithm of N; a check takes 128 · N · `block_size` bytes."""

    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)
    log_cost: int = LOG_COST
    block_size: int = BLOCK_SIZE
    parallelism: int = PARALLELISM

    def __str__(self) -> str:
        cost = f"ln={self.log_cost},r={self.block_size},p={self.parallelism}"
        return f"$scrypt${cost}${b64encode(self.salt).decode()}${b64encode(self.digest).decode()}"

    def fits(self, password: str) -> bool:
        """Return whether this is the hash of a password, in a time that does not tell where they differ."""
        return hmac.compare_digest(self.digest, _digest(password, self))


NOBODY = PasswordHash(salt=bytes(SALT_BYTES), digest=bytes(HASH_BYTES))
"""Compared with where there is no such user: an unknown name takes as long as a wrong password."""


def is_right(users: Mapping[str, PasswordHash], name: str, password: str) -> bool:
    """Return whether a user may log in with a password."""
    known = users.get(name)
    fits = (known or NOBODY).fits(password)
    return fits and known is not None


def check_users(path: Path) -> None:
    """Check that a password file has a user. Raises ConfigError."""
    if not read_users(path):
        raise ConfigError(
            f"the password file {path} names no user",
            hint=f"penstock serve users add NAME --file {path}",
        )


def read_users(path: Path) -> dict[str, PasswordHash]:
    """Read a password file. Raises ConfigError when it is missing, malformed, or open to others."""
    try:
        found = path.stat()
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the password file {path} cannot be read: {error}",
            hint=f"make it with its first user: penstock serve users add NAME --file {path}",
        ) from error
    if hasattr(os, "geteuid") and found.st_uid not in {0, os.geteuid()}:
        raise ConfigError(
            f"the password file {path} belongs to another user (uid {found.st_uid})",
            hint="copy it to a file of your own: whoever owns it can let himself in",
        )
    if os.name == "posix" and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"the password file {path} is open to other users of this machine",
            hint=f"chmod 600 {path}",
        )
    users: dict[str, PasswordHash] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            name, hashed = _read_line(path, number, line.strip())
            users[name] = hashed
    return users


def write_user(path: Path, name: str, password: str) -> bool:
    """Add a user, or change the password of one; returns whether it is new. Makes the file, readable by its owner.

    Raises ConfigError for an invalid name or password, and where the file cannot be read.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no name for a user",
            hint="letters, digits, and . _ - inside; a client may send no other to the server",
        )
    if len(password) < MIN_PASSWORD_LENGTH:
        raise ConfigError(
            f"the password is too short: {len(password)} characters",
            hint=f"at least {MIN_PASSWORD_LENGTH} characters",
        )
    users = read_users(path) if path.exists() else {}
    is_new = name not in users
    _write(path, users | {name: _hashed(password)})
    return is_new


def remove_user(path: Path, name: str) -> None:
    """Remove a user. Raises UnknownObjectError, and ConfigError where the file cannot be read."""
    users = read_users(path)
    if name not in users:
        raise UnknownObjectError(
            f"{path} has no user {name!r}", hint=did_you_mean(name, sorted(users))
        )
    del users[name]
    _write(path, users)


def _hashed(password: str) -> PasswordHash:
    empty = PasswordHash(salt=secrets.token_bytes(SALT_BYTES), digest=b"")
    return PasswordHash(salt=empty.salt, digest=_digest(password, empty))


def _digest(password: str, hashed: PasswordHash) -> bytes:
    return hashlib.scrypt(
        password.encode(),
        salt=hashed.salt,
        n=1 << hashed.log_cost,
        r=hashed.block_size,
        p=hashed.parallelism,
        maxmem=256 * (1 << hashed.log_cost) * hashed.block_size,
        dklen=HASH_BYTES,
    )


def _read_line(path: Path, number: int, line: str) -> tuple[str, PasswordHash]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise _malformed(path, number)
    costs = (int(found["ln"]), int(found["r"]), int(found["p"]))
    if any(not 1 <= cost <= most for cost, most in zip(costs, MAX_COST, strict=True)):
        raise _malformed(path, number)
    try:
        hashed = PasswordHash(
            salt=b64decode(found["salt"], validate=True),
            digest=b64decode(found["hash"], validate=True),
            log_cost=costs[0],
            block_size=costs[1],
            parallelism=costs[2],
        )
    except Base64Error as error:
        raise _malformed(path, number) from error
    return found["name"], hashed


def _malformed(path: Path, number: int) -> ConfigError:
    return ConfigError(
        f"line {number} of the password file {path} is not `name:$scrypt$ln=..,r=..,p=..$salt$hash`",
        hint=f"take it out, and add the user again: penstock serve users add NAME --file {path}",
    )


def _write(path: Path, users: Mapping[str, PasswordHash]) -> None:
    """Replace the file as a whole: a server that reads it meanwhile sees the old one or the new one."""
    try:
        with NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.absolute().parent, prefix=path.name, delete=False
        ) as file:
            file.writelines(f"{name}:{hashed}\n" for name, hashed in sorted(users.items()))
        Path(file.name).replace(path)
    except OSError as error:
        raise ConfigError(f"the password file {path} cannot be written: {error}") from error
