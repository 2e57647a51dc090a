"""Where a table's files are, and what the file system says of them: the only module that asks it.

The errors of a scan are worded here: what happened, which file, what to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.catalog.errors import (
    BadRecordError,
    ConfigError,
    DataLossError,
    OptionError,
    QueryFailedError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.options.redaction import redact
from penstock.connector.urls import split_url

_KEEP = (
    "keep files as they are until they are read, and give new ones new names; start over with --from-scratch, "
    "which sets the checkpoint aside, or under another SET 'pipeline.name'"
)


def vanished(path: str) -> DataLossError:
    """A file was listed and is gone."""
    return DataLossError(f"file {path} was removed before it was read to its end", hint=_KEEP)


def shortened(path: str, known: int, found: int) -> DataLossError:
    """A file has fewer bytes than when it was listed."""
    return DataLossError(
        f"file {path} had {known} bytes when it was planned and now has {found}: it was rewritten",
        hint=_KEEP,
    )


def rewritten(path: str) -> DataLossError:
    """A file has its size and another modification time."""
    return DataLossError(
        f"file {path} was modified after it was listed, so what was read of it may not be what it holds",
        hint=_KEEP,
    )


def corrupt(path: str, reason: str) -> BadRecordError:
    """A compressed file is damaged, or is none."""
    return BadRecordError(
        f"file {path} cannot be decompressed: {reason}",
        hint="a file that is still being written belongs under a name that begins with '.' or '_'",
    )


def line_too_long(path: str, position: int, most: int) -> BadRecordError:
    """A line has no end in sight."""
    return BadRecordError(
        f"file {path}, byte {position}: a line of more than {most} bytes",
        hint="is this a file of lines?",
    )


def not_readable(path: str, ending: str, known: str) -> UnsupportedError:
    """A file is compressed in a way that is not read here."""
    return UnsupportedError(
        f"file {path}: files that end in '{ending}' are not read",
        hint=f"compressed files may end in {known}; or leave it out with 'source.path.regex-pattern'",
    )


_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
_HIDDEN = (".", "_")
_NANOSECONDS_IN_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A folder or a file: an absolute local path, or a URL."""

    text: str

    @property
    def shown(self) -> str:
        """The location for messages: keys inside a URL are not shown."""
        return redact({"path": self.text})["path"]


def locate(path: str, project: Path, *, owner: str) -> Location:
    """Read the option `path`; relative paths are of `project`. No I/O. Raises OptionError."""
    url = split_url(path)
    if url is None:
        return Location(text=os.path.normpath(project.absolute() / path))
    scheme, rest = url
    if scheme == "file":
        # as in Hadoop's Path: file:/a and file:///a, nothing in it is escaped
        if rest.startswith("//") and not rest.startswith("///"):
            raise OptionError(
                f"{owner}: 'path' = '{path}' names another machine", hint="write file:///folder"
            )
        return Location(text=os.path.normpath("/" + rest.lstrip("/")))
    if scheme not in _SCHEMES:
        shown = redact({"path": path})["path"]
        raise OptionError(
            f"{owner}: 'path' = '{shown}' is of a file system that is not known here",
            hint="write s3://bucket/folder"
            if scheme in ("s3a", "s3n")
            else f"paths and URLs with file, {', '.join(_SCHEMES)} can be read",
        )
    return Location(text=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file as it was when it was looked at. `name` is its path inside the table's folder, with slashes.

    `path` is the whole path inside its file system, without scheme. `size` is in bytes, `modified_ms` epoch ms.
    """

    name: str
    path: str
    size: int
    modified_ms: int

    def change_since(self, size: int, modified_ms: int) -> DataLossError | None:
        """Return the error where this is not the file that once was so; None also for one that only grew."""
        if self.size < size:
            return shortened(self.path, size, self.size)
        if self.size == size and self.modified_ms != modified_ms:
            return rewritten(self.path)
        return None


class TableFolder:
    """A table's location, opened. May block on I/O; for one thread."""

    def __init__(self, location: Location) -> None:
        """Open without a request."""
        self._location = location

    def files(self) -> list[FoundFile]:
        """List the files below, hidden ones and unfinished ones left out, in no particular order.

        Raises UnknownObjectError where there is nothing of that name.
        """
        with explained(self._location.shown):
            info = self._system.get_file_info(self._root)
            if info.is_file:
                return [_found(info, info.base_name)]
            if info.type == self._types.NotFound:
                raise UnknownObjectError(
                    f"there is no folder or file {self._location.shown}",
                    hint="check the path, which is relative to the project; a folder has to be there before it is read",
                )
            return list(self._below(self._root, ""))

    def look_at(self, names: Sequence[str]) -> list[FoundFile | None]:
        """Stat files by name; None for one that no longer exists."""
        with explained(self._location.shown):
            infos = self._system.get_file_info([self.path_of(name) for name in names])
        pairs = zip(names, infos, strict=True)
        return [_found(info, name) if info.is_file else None for name, info in pairs]

    def path_of(self, name: str) -> str:
        """Return the whole path of a file of the table."""
        return self._root if self._is_file else f"{self._root.rstrip('/')}/{name}"

    def open_file(self, path: str) -> Any:
        """Open a file for reads at any place (pyarrow's NativeFile). Raises DataLossError if it is gone."""
        with explained(path):
            return self._system.open_input_file(path)

    def open_stream(self, path: str, codec: str) -> Any:
        """Open a compressed file for reads from its beginning."""
        with explained(path):
            raw = self._system.open_input_stream(path, compression=None)
            return pa.CompressedInputStream(raw, codec)

    def _below(self, folder: str, above: str) -> Iterator[FoundFile]:
        selector = self._selector(folder, allow_not_found=True)
        for info in self._system.get_file_info(selector):
            name = f"{above}{info.base_name}"
            if is_hidden(info.base_name):
                continue
            if info.is_file:
                yield _found(info, name)
            elif info.type == self._types.Directory:
                yield from self._below(info.path, f"{name}/")

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        from pyarrow import fs

        text = self._location.text
        try:
            return (fs.LocalFileSystem(), text) if text[0] == "/" else fs.FileSystem.from_uri(text)
        except (pa.ArrowException, OSError) as error:
            raise ConfigError(
                f"the file system of {self._location.shown} cannot be opened: {error}",
                hint="keys and addresses come from the environment, as pyarrow.fs reads them",
            ) from error

    @property
    def _system(self) -> Any:
        return self._opened[0]

    @property
    def _root(self) -> str:
        return self._opened[1]

    @cached_property
    def _is_file(self) -> bool:
        with explained(self._location.shown):
            return bool(self._system.get_file_info(self._root).is_file)

    @cached_property
    def _types(self) -> Any:
        from pyarrow import fs

        return fs.FileType

    @cached_property
    def _selector(self) -> Any:
        from pyarrow import fs

        return fs.FileSelector


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is left out: hidden (Flink's DefaultFileFilter), or unfinished.

    What Flink's sink has not finished is hidden; what is being copied with Hadoop's tools ends in ._COPYING_.
    """
    return name.startswith(_HIDDEN) or name.endswith("._COPYING_")


def _found(info: Any, name: str) -> FoundFile:
    modified_ms = (info.mtime_ns or 0) // _NANOSECONDS_IN_MS
    return FoundFile(name=name, path=info.path, size=info.size, modified_ms=modified_ms)


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn errors of the file system into the product's, `what` named."""
    try:
        yield
    except FileNotFoundError as error:
        raise vanished(what) from error
    except PermissionError as error:
        raise ConfigError(
            f"{what} may not be read: {error.strerror or error}",
            hint="allow the user that runs the query to read it, and to list its folder",
        ) from error
    except OSError as error:
        raise QueryFailedError(f"{what} cannot be read: {error}") from error
