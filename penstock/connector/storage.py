"""Folders that tasks write to without Spark: local paths, and what pyarrow knows of the URLs that Hadoop takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.catalog.errors import ConfigError
from penstock.catalog.options.redaction import redact
from penstock.connector.urls import split_url

# Hadoop's names of one store; pyarrow has one
_NAMES = {"s3a": "s3", "s3n": "s3", "wasbs": "abfss"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """An opened place: pyarrow's file system, the path inside it, and how messages name it."""

    system: Any
    path: str
    shown: str

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


_OF_CHECKPOINTS = (
    "tasks write dead letters with pyarrow, which knows file, s3, gs, abfss and hdfs; choose another "
    "'execution.checkpointing.dir', or 'bad-records' = 'fail'"
)


def open_folder(location: str, *, shown: str | None = None, hint: str = _OF_CHECKPOINTS) -> Folder:
    """Open a path or a URL. `shown` is how messages name it, `hint` what helps where it cannot be opened.

    Raises ConfigError for a file system that pyarrow does not have.
    """
    from pyarrow import fs  # loaded here: most tasks write nothing

    shown = shown or redact({"path": location})["path"]
    found = split_url(location)
    if found is None:
        return Folder(system=fs.LocalFileSystem(), path=os.path.normpath(location), shown=shown)
    scheme, rest = found
    if scheme == "file":
        path = os.path.normpath("/" + rest.lstrip("/"))
        return Folder(system=fs.LocalFileSystem(), path=path, shown=shown)
    try:
        system, inside = fs.FileSystem.from_uri(f"{_NAMES.get(scheme, scheme)}:{rest}")
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{shown} cannot be opened by tasks: {error}", hint=hint) from error
    return Folder(system=system, path=inside.rstrip("/"), shown=shown)
