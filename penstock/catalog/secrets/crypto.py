"""Values of secrets and the key that they are encrypted with. `cryptography` is loaded where it is used.

A key is one of Fernet's (32 random bytes in base64), as many as were ever in use, the current one first: in the
variable PENSTOCK_SECRET_KEY, in the file that PENSTOCK_SECRET_KEY_FILE names, or in the catalog's own key file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from penstock.catalog.errors import ConfigError, DefinitionError
from penstock.catalog.masking import SHORTEST, keep_secret
from penstock.catalog.secrets.private_folder import make_private_folder

KEY_FILE = "secret.key"
"""The key file beside a catalog that is a file."""

KEY_FILES = "secret-keys"
"""The list beside it of other key files that it was used with."""

KEY_VARIABLE = "PENSTOCK_SECRET_KEY"
KEY_FILE_VARIABLE = "PENSTOCK_SECRET_KEY_FILE"
KEY_VARIABLES = (KEY_VARIABLE,)
"""Variables whose value is a key."""

LARGEST_VALUE = 1 << 16
"""Bytes of a secret: a chain of certificates has some thousand."""

_KEY_BYTES = 32
_SQLITE_FILE = re.compile(r"sqlite(?:\+\w+)?:///([^?]+)")
_BOUND = "v2."
"""Tokens with the secret's name in them begin so; older ones have the value alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecret:
    """A secret as it is passed between processes and stored in the catalog: its name and the encrypted value.

    `key_id` identifies the key of the encryption, `key_file` is the key file of the process that sealed it.
    """

    name: str
    token: str = field(repr=False)
    key_id: str
    key_file: str | None = None

    def __str__(self) -> str:
        return f"${{secret:{self.name}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRing:
    """Keys, the current one first. Never shown."""

    keys: tuple[str, ...] = field(repr=False)

    @property
    def current_id(self) -> str:
        """What the current key is called."""
        return key_id(self.keys[0])

    @property
    def ids(self) -> tuple[str, ...]:
        """What the keys are called."""
        return tuple(map(key_id, self.keys))

    def encrypt(self, value: str, *, name: str) -> str:
        """Encrypt with the current key. The token is of the secret `name` and opens under no other."""
        from cryptography.fernet import Fernet

        text = f"{name}\0{value}"
        return _BOUND + Fernet(self.keys[0]).encrypt(text.encode()).decode("ascii")

    def decrypt(self, sealed: SealedSecret) -> str:
        """Return the value. Raises ConfigError where it was encrypted with another key, or is damaged."""
        from cryptography.fernet import Fernet, InvalidToken

        key = next((key for key in self.keys if key_id(key) == sealed.key_id), None)
        if key is None:
            raise _other_key(sealed.name, sealed.key_id, self.ids)
        try:
            value = Fernet(key).decrypt(sealed.token.removeprefix(_BOUND)).decode()
        except InvalidToken:
            raise ConfigError(
                f"the secret '{sealed.name}' is damaged: its key is here and does not open it",
                hint=f"set it again: ALTER SECRET {sealed.name} AS '...'",
            ) from None
        if sealed.token.startswith(_BOUND):
            name, _, value = value.partition("\0")
            if name != sealed.name:
                raise ConfigError(
                    f"the secret '{sealed.name}' has the value of another one: its row was changed from outside",
                    hint=f"set it again: ALTER SECRET {sealed.name} AS '...'",
                )
        elif "\0" in value:
            # no value has it (`check_value`): it stands between a name and its value
            raise ConfigError(
                f"the mark of the secret '{sealed.name}' was taken off: its row was changed from outside",
                hint=f"set it again: ALTER SECRET {sealed.name} AS '...'",
            )
        keep_secret(value)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLocation:
    """Where a process has its keys: a variable's text, or a file that exists or can be made."""

    text: str | None = field(default=None, repr=False)
    file: Path | None = None
    may_be_made: bool = False

    @property
    def shown(self) -> str:
        """The place for messages."""
        return f"the variable {KEY_VARIABLE}" if self.text is not None else f"the file {self.file}"


def key_id(key: str) -> str:
    """Name a key without telling anything of it."""
    return hashlib.sha256(b"penstock secret key\0" + key.encode()).hexdigest()[:12]


def new_key() -> str:
    """Make a key."""
    return base64.urlsafe_b64encode(os.urandom(_KEY_BYTES)).decode("ascii")


def key_location(default: Path | None, *, own: bool = False) -> KeyLocation | None:
    """Find the place of the keys: what the environment names, else the file `default`; None where nothing does.

    `own`: the default file is the catalog's own and may be made.
    """
    if text := os.environ.get(KEY_VARIABLE):
        return KeyLocation(text=text)
    if named := os.environ.get(KEY_FILE_VARIABLE):
        return KeyLocation(file=Path(named).absolute())
    return None if default is None else KeyLocation(file=default, may_be_made=own)


def find_keys(location: KeyLocation | None) -> KeyRing:
    """Read the keys of a place. Raises ConfigError where there are none, or where others may read them."""
    if location is None:
        raise ConfigError(
            "there is no key for secrets",
            hint=f"set {KEY_VARIABLE} or {KEY_FILE_VARIABLE}; `penstock secret key` makes one",
        )
    if location.text is not None:
        return _ring(location.text.replace(",", " ").split(), location)
    assert location.file is not None, "a place is a text or a file"
    return _ring(_read_private(location.file).split(), location)


def decrypt(sealed: SealedSecret) -> str:
    """Return the value of a sealed secret with the keys of this process, which the environment names, else the secret.

    Raises ConfigError.
    """
    default = None if sealed.key_file is None else Path(sealed.key_file)
    location = key_location(default)
    if location is None:
        raise ConfigError(
            f"the process that connects (process {os.getpid()}) has no key for the secret '{sealed.name}'",
            hint=f"set {KEY_VARIABLE} or {KEY_FILE_VARIABLE} where it runs: on a cluster by "
            f"spark.executorEnv.{KEY_FILE_VARIABLE} and on the driver before Spark starts",
        )
    return find_keys(location).decrypt(sealed)


def check_value(name: str, value: str) -> None:
    """Check what is to be kept. Raises DefinitionError."""
    if len(value.strip()) < SHORTEST:
        raise DefinitionError(
            f"the secret '{name}' has fewer than {SHORTEST} characters, too few to be kept out of messages",
            hint="choose a longer one",
        )
    if "\0" in value:
        raise DefinitionError(
            f"the secret '{name}' has a NUL in it",
            hint="keep bytes in a file, or in base64: ${file:/path}",
        )
    if len(value.encode()) > LARGEST_VALUE:
        raise DefinitionError(
            f"the secret '{name}' is larger than {LARGEST_VALUE} bytes",
            hint="keep it in a file: ${file:/path}",
        )


# --- keys that are in use here, which nothing may give away ---

_key_files: set[Path] = set()


def keep_key_file(file: Path) -> None:
    """Register a key file, whether it exists already or not: no reference of this process may read it."""
    _key_files.add(file.absolute())


def keep_catalog_key(url: str) -> None:
    """Register the key files of a catalog that is a SQLite file, without opening it: its own, and those in the list
    beside it.
    """
    if found := _SQLITE_FILE.match(url):
        folder = Path(found[1]).parent
        keep_key_file(folder / KEY_FILE)
        with suppress(OSError, UnicodeDecodeError):
            for line in (folder / KEY_FILES).read_text(encoding="utf-8").splitlines():
                keep_key_file(Path(line))


def note_key_file(folder: Path, file: Path) -> None:
    """Add a key file to the list in the folder of a catalog.

    So it stays one when the project's file no longer names it.
    """
    noted, line = folder / KEY_FILES, str(file.absolute())
    with suppress(OSError, UnicodeDecodeError):  # it is one precaution of several
        known = noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
        if line not in known:
            descriptor = os.open(noted, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8") as stream:
                stream.write(f"{line}\n")


def is_key_file(found: os.stat_result) -> bool:
    """Return whether an open file is one of the keys' files, under whatever name."""
    for file in _known_key_files():
        with suppress(OSError):
            if os.path.samestat(file.stat(), found):
                return True
    return False


def keys_in_use() -> frozenset[str]:
    """Return the keys that this process could use: those of the environment and of the files it knows."""
    found = os.environ.get(KEY_VARIABLE, "").replace(",", " ").split()
    for file in _known_key_files():
        with suppress(OSError, UnicodeDecodeError):
            state = file.stat()
            # a project's file may name a pipe or a device, whose reading does not end
            if stat.S_ISREG(state.st_mode) and state.st_size <= LARGEST_VALUE:
                found += file.read_text(encoding="ascii").split()
    return frozenset(key for key in found if _is_key(key))


def _known_key_files() -> Iterator[Path]:
    yield from _key_files
    if named := os.environ.get(KEY_FILE_VARIABLE):
        yield Path(named)


# --- key files ---


def make_key_file(file: Path) -> None:
    """Make a key file for this user only; one that another process has made meanwhile stays. Raises ConfigError."""
    with _made(file, f"{new_key()}\n") as temporary, suppress(FileExistsError):
        # a link is there with its text or not at all, and never in the place of another
        os.link(temporary, file)


def put_key_first(file: Path, key: str) -> None:
    """Prepend a new key to those of a file, atomically. Raises ConfigError."""
    before = _read_private(file)
    with _made(file, f"{key}\n{before}") as temporary:
        temporary.replace(file)


@contextmanager
def _made(file: Path, text: str) -> Iterator[Path]:
    """Make a file beside `file` with a text, for this user only; removed at the end if it is still there."""
    temporary = file.with_name(f".{file.name}.{uuid4().hex}")
    try:
        make_private_folder(file.parent)
        opened = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(opened, "w", encoding="ascii") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        yield temporary
    except OSError as error:
        raise ConfigError(
            f"the key file {file} cannot be written: {error.strerror}",
            hint=f"name another place by {KEY_FILE_VARIABLE}",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _read_private(file: Path) -> str:
    """Read a file that only its owner may read. Raises ConfigError."""
    try:
        found = file.stat()
        mode = found.st_mode
        if hasattr(os, "geteuid") and found.st_uid not in {0, os.geteuid()}:
            raise ConfigError(
                f"the key file {file} belongs to another user (uid {found.st_uid})",
                hint="make one of your own: `penstock secret key` makes a key",
            )
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(
                f"the key file {file} may be used by others (mode {stat.S_IMODE(mode):04o})",
                hint=f"chmod 600 {file}; if others had access, make a new key: penstock secret rotate",
            )
        return file.read_text(encoding="ascii")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no key file {file}",
            hint=f"restore it, or name the right one by {KEY_FILE_VARIABLE}; `penstock secret key` makes a new key",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text of keys"
        raise ConfigError(f"the key file {file} cannot be read: {reason}") from None


def _ring(keys: Sequence[str], location: KeyLocation) -> KeyRing:
    if not keys:
        raise ConfigError(f"{location.shown} holds no key", hint="`penstock secret key` makes one")
    for key in keys:
        keep_secret(key)
        if not _is_key(key):
            raise ConfigError(
                f"{location.shown} holds something that is no key",
                hint="a key has 32 bytes in URL-safe base64; `penstock secret key` makes one",
            )
    return KeyRing(keys=tuple(keys))


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, altchars="-_", validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _other_key(name: str, wanted: str, there: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"the secret '{name}' was encrypted with another key ({wanted}) than those here ({', '.join(there)})",
        hint=f"give this process that key by {KEY_VARIABLE} or {KEY_FILE_VARIABLE}, or set the secret again",
    )
