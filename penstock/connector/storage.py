"""Folders that tasks write to without Spark: local paths, and what pyarrow knows of the URLs that Hadoop takes.

Tasks have no Java, so no configuration of Hadoop's. What it says of a store, its keys and its address, the driver
derives (`spark/storage_access.py`) and sends to them as a value, `StorageAccess`. Without one, and for what is not in
it, pyarrow finds keys by itself: in the environment, in files of the user, or by asking the machine that it runs on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from penstock.catalog.errors import ConfigError
from penstock.catalog.masking import keep_secret
from penstock.catalog.options.redaction import redact
from penstock.connector.urls import split_url

# Hadoop's names of one store; pyarrow has one
_NAMES = {"s3a": "s3", "s3n": "s3", "wasbs": "abfss"}

S3 = "s3"
AZURE = "abfss"
_STORES = {"s3": S3, "s3a": S3, "s3n": S3, "abfs": AZURE, "abfss": AZURE}
"""Schemes of stores that are opened as Hadoop's configuration says, where it says something."""

_OBJECT_STORES = frozenset({"s3", "gcs"})
"""pyarrow's file systems whose files appear whole, when they are closed, and whose renames are copies."""

_SECRETS = frozenset({"secret_key", "session_token", "account_key", "sas_token", "client_secret"})
"""Arguments of file systems that are masked in what a process says."""

_OPEN_SYSTEMS = 16
"""File systems that a process keeps open: each has connections, and asks where its bucket is."""


def store_name(location: str) -> tuple[str, str] | None:
    """Return pyarrow's scheme and the authority of a URL; None for what is not in a `StorageAccess`.

    That includes a store in whose URL a key stands, which pyarrow reads (KEY:SECRET@bucket, container:KEY@account).
    """
    found = split_url(location)
    if found is None or found[0] not in _STORES or not found[1].startswith("//"):
        return None
    scheme, authority = _STORES[found[0]], found[1][2:].partition("/")[0]
    if not authority or ":" in authority or (scheme == S3 and "@" in authority):
        return None
    return scheme, authority


def account_of(authority: str) -> str:
    """Return the account of Azure that a container is in, with its host."""
    return authority.rpartition("@")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A bucket or a container, and the arguments of the file system of pyarrow that opens it, which are not shown.

    `scheme` is pyarrow's; `authority` is what stands for the store in URLs.
    """

    scheme: str
    authority: str
    arguments: tuple[tuple[str, str | bool], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageAccess:
    """How tasks open stores of which Hadoop's configuration says something."""

    stores: tuple[Store, ...] = ()

    def store_of(self, location: str) -> Store | None:
        """Return the store of a location; None where pyarrow opens it by what it finds itself."""
        named = store_name(location)
        return next((s for s in self.stores if (s.scheme, s.authority) == named), None)

    def to_json(self) -> list[Any]:
        """Return plain values, for a file that nobody else may read: with the keys."""
        return [[s.scheme, s.authority, dict(s.arguments)] for s in self.stores]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> StorageAccess:
        """Read what `to_json` returned."""
        return cls(
            stores=tuple(
                Store(scheme=scheme, authority=authority, arguments=tuple(arguments.items()))
                for scheme, authority, arguments in value
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """An opened place: pyarrow's file system, the path inside it, and how messages name it."""

    system: Any
    path: str
    shown: str

    @property
    def is_of_objects(self) -> bool:
        """Whether a file appears in it whole when it is closed, and a rename is a copy."""
        return self.system.type_name in _OBJECT_STORES

    def below(self, name: str) -> Folder:
        """Return a folder inside of this one; it need not be there."""
        return replace(self, path=f"{self.path}/{name}", shown=f"{self.shown}/{name}")

    def names(self) -> Sequence[str]:
        """Return the names of the files in it; none where there is no such folder."""
        return sorted(info.base_name for info in self._inside() if info.is_file)

    def folders(self) -> Sequence[str]:
        """Return the names of the folders in it; none where there is no such folder."""
        return sorted(info.base_name for info in self._inside() if not info.is_file)

    def text(self, name: str) -> str | None:
        """Read a UTF-8 file in it; None where there is none."""
        path = f"{self.path}/{name}"
        if not self.system.get_file_info(path).is_file:
            return None
        with self.system.open_input_stream(path) as stream:
            return bytes(stream.read()).decode()

    def _inside(self) -> Sequence[Any]:
        from pyarrow import fs

        found: Sequence[Any] = self.system.get_file_info(
            fs.FileSelector(self.path, allow_not_found=True)
        )
        return found

    def replace(self, source: str, target: str) -> None:
        """Rename a file over another one. HDFS refuses where there is one."""
        try:
            self.system.move(source, target)
        except OSError:
            if not self.system.get_file_info(target).is_file:
                raise
            self.system.delete_file(target)
            self.system.move(source, target)

    def keep(self, source: str, target: str) -> None:
        """Rename a file to a name that tells its content: a whole one that is there stays, all the time."""
        try:
            self.system.move(source, target)
        except OSError:
            found = self.system.get_file_info(target)
            if found.is_file and found.size == self.system.get_file_info(source).size:
                self.system.delete_file(source)
            else:
                self.replace(source, target)


_OF_CHECKPOINTS = (
    "tasks write dead letters with pyarrow, which knows file, s3, gs, abfss and hdfs; choose another "
    "'execution.checkpointing.dir', or 'bad-records' = 'fail'"
)

BY_ITSELF = StorageAccess()
"""Nothing is known of Hadoop's configuration: pyarrow finds keys and addresses by itself."""


def open_folder(
    location: str,
    *,
    access: StorageAccess = BY_ITSELF,
    shown: str | None = None,
    hint: str = _OF_CHECKPOINTS,
) -> Folder:
    """Open a path or a URL. `shown` is how messages name it, `hint` what helps where it cannot be opened.

    Raises ConfigError for a file system that pyarrow does not have.
    """
    import pyarrow as pa  # loaded here: most tasks write nothing, and a scan is a value to commands without it
    from pyarrow import fs

    shown = shown or redact({"path": location})["path"]
    found = split_url(location)
    if found is None:
        return Folder(system=fs.LocalFileSystem(), path=os.path.normpath(location), shown=shown)
    scheme, rest = found
    if scheme == "file":
        path = os.path.normpath("/" + rest.lstrip("/"))
        return Folder(system=fs.LocalFileSystem(), path=path, shown=shown)
    store = access.store_of(location)
    try:
        if store is None:
            system, inside = _system_of(f"{_NAMES.get(scheme, scheme)}:{rest}")
        else:
            system, inside = _opened(store), _path_in(store, rest)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{shown} cannot be opened by tasks: {error}", hint=hint) from error
    return Folder(system=system, path=inside.rstrip("/"), shown=shown)


@lru_cache(maxsize=_OPEN_SYSTEMS)
def _system_of(url: str) -> tuple[Any, str]:
    from pyarrow import fs

    system, inside = fs.FileSystem.from_uri(url)
    return system, inside


@lru_cache(maxsize=_OPEN_SYSTEMS)
def _opened(store: Store) -> Any:
    """Open a store by its arguments, and mask its keys in what this process says."""
    from pyarrow import fs

    for name, value in store.arguments:
        if name in _SECRETS:
            keep_secret(str(value))
    arguments: dict[str, Any] = dict(store.arguments)
    if store.scheme == AZURE:
        return fs.AzureFileSystem(account_of(store.authority).partition(".")[0], **arguments)
    if not {"region", "endpoint_override"} & arguments.keys():
        arguments["region"] = fs.resolve_s3_region(store.authority)
    # a small object is written by one request, in place of three
    return fs.S3FileSystem(**arguments, allow_delayed_open=True)


def _path_in(store: Store, rest: str) -> str:
    """Return a path as pyarrow has it, the bucket or container first; as in Hadoop's Path nothing in it is escaped."""
    _, _, below = rest.removeprefix("//").partition("/")
    name = store.authority.partition("@")[0]
    return f"{name}/{below.lstrip('/')}"
