"""The folder in Spark's checkpoint where planning keeps which files it has seen: durable, and cleaned with the log.

A file stays for as long as Spark keeps an offset that names it, or may name it once a query resumes from an older
offset: what the oldest offset of the log names, and every later file of its chain, stays. Chains that this log does
not know are left alone: a query that reads a table twice plans it in two processes, each with a chain of its own.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.catalog.errors import ConfigError, SinkError
from penstock.connector.source.segments import Segment, SegmentFiles, SegmentName
from penstock.connector.spark import durable_files
from penstock.connector.storage import BY_ITSELF, Folder, StorageAccess, open_folder

log = logging.getLogger(__name__)

FOLDER = "seen-files"
"""Name of the folder in a checkpoint directory."""

OFFSETS = "offsets"
"""Name of the folder of Spark's offset log in it."""

CLEAN_EVERY = 50
"""Writes of a process between two checks of what may be removed; the first one checks, too."""


def open_segment_folder(location: str, access: StorageAccess = BY_ITSELF) -> SegmentFiles | None:
    """Open `location`, a folder of that name in a checkpoint, and make it; None where offsets have to do.

    So it is where pyarrow does not know the file system, and where a store lets Spark in alone, by credentials that
    pyarrow does not find. Raises SinkError for a folder of this machine that cannot be made.
    """
    try:
        folder = open_folder(location, access=access)
    except ConfigError:
        return None
    files = _SegmentFolder(folder)
    try:
        files.make()
    except SinkError as error:
        if folder.system.type_name == "local":
            raise
        log.warning("%s; offsets hold what was seen, and grow with it", error)
        return None
    return files


class _SegmentFolder:
    """A SegmentFiles. One process, one thread; others may use the same folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._local = folder.system.type_name == "local"
        self._writes = 0

    @property
    def shown(self) -> str:
        """How messages name the folder."""
        return self._folder.shown

    def make(self) -> None:
        """Make the folder. Raises SinkError."""
        if not self._local:  # a local one is made with its first file
            with self._storage_errors():
                self._folder.system.create_dir(self._folder.path, recursive=True)

    def new_chain(self) -> str:
        """Return the name of a new chain."""
        return secrets.token_hex(8)

    def read(self, name: str) -> bytes | None:
        """Read a file; None where there is none. Raises SinkError."""
        with self._storage_errors():
            path = f"{self._folder.path}/{name}"
            if not self._folder.system.get_file_info(path).is_file:
                return None
            with self._folder.system.open_input_stream(path) as stream:
                return bytes(stream.read())

    def write(self, new: Sequence[Segment], current: Sequence[Segment]) -> None:
        """Write files, on the disk when this returns, and remove what no offset can need. Raises SinkError."""
        with self._storage_errors():
            for segment in new:
                self._write(str(segment.name), segment.content)
        if self._writes % CLEAN_EVERY == 0:
            try:
                self._clean(current)
            except (OSError, ValueError) as error:
                # what is left over costs space, and another look comes
                log.warning("%s cannot be cleaned: %s", self.shown, error)
        self._writes += 1

    def _write(self, name: str, content: bytes) -> None:
        """Write a file, over one of that name: that holds the same, or is what a killed process left."""
        if self._local:
            durable_files.replace(Path(self._folder.path) / name, content, umask=None)
            return
        with self._folder.system.open_output_stream(f"{self._folder.path}/{name}") as stream:
            stream.write(content)

    def _clean(self, current: Sequence[Segment]) -> None:
        """Remove files of the chain of `current` that the oldest offset has outlived."""
        chain = current[0].name.chain
        named = self._named_by_oldest(chain)
        if not named:
            return
        newest = max(name.serial for name in named)
        needed = named | {segment.name for segment in current}
        for text in self._folder.names():
            name = SegmentName.parse(text)
            if name is None or name.chain != chain:
                continue
            if name.serial <= newest and name not in needed:
                with suppress(FileNotFoundError):  # another runner was quicker
                    self._folder.system.delete_file(f"{self._folder.path}/{text}")

    def _named_by_oldest(self, chain: str) -> set[SegmentName]:
        """Return what the oldest offset that Spark keeps names of a chain; nothing where there is none to go by."""
        above, _, _ = self._folder.path.rpartition("/")
        offsets = Folder(
            system=self._folder.system, path=f"{above}/{OFFSETS}", shown=self._folder.shown
        )
        oldest = min((int(name) for name in offsets.names() if name.isdecimal()), default=None)
        text = None if oldest is None else offsets.text(str(oldest))
        found = {name for line in (text or "").splitlines() for name in _names_in(line)}
        return {name for name in found if name.chain == chain}

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        """Make errors of the storage the query's own."""
        try:
            yield
        except OSError as error:
            raise SinkError(
                f"what was seen of a folder cannot be kept in {self.shown}: {error}",
                hint="it belongs to the query's checkpoint directory: the query needs permission and space to write",
            ) from error


def _names_in(line: str) -> Iterator[SegmentName]:
    """Return the files that a line of Spark's offset log names: one source's offset, if it is one."""
    try:
        seen = json.loads(line)["coordinator"]["enumerator"]["seen"]["segments"]
    except (ValueError, TypeError, KeyError):
        return
    for text in seen:
        name = SegmentName.parse(text)
        if name is not None:
            yield name
