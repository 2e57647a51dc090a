"""The content of a file of keyed state while it is written, or read: in memory where it is small, else on a local disk.

For `state_files.py`. No more of a large file than a piece is in memory at once: its digest, which its name has, grows
with each one.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import fs

from penstock.connector.spark.durable_files import discard, open_temporary
from penstock.connector.storage import Folder
from penstock.sql.incremental.keyed.files.manifest import StateFile
from penstock.sql.incremental.keyed.files.spooled_rows import local_folder

MOST_BYTES = 8 << 20
"""Bytes of a file that are held in memory: the files of most batches are smaller, and cost no other file."""

_PIECE = 4 << 20
"""Bytes that are read at once: a request to an object store each."""

_OWN = 0o077
"""The umask of files on the local disk of the executor: of this user alone."""


class FileContent:
    """Content that comes piece by piece: as long as it is small `file` is None, then it is what `spool` opens.

    pyarrow writes to it as to a file. Discard it in the end.
    """

    closed = False

    def __init__(self, spool: Callable[[], BinaryIO]) -> None:
        self._spool = spool
        self._memory = io.BytesIO()
        self._hash = hashlib.sha256()
        self.file: BinaryIO | None = None
        self.size = 0

    def write(self, data: bytes) -> int:
        """Add a piece. Raises OSError, as where the disk is full."""
        assert not self.closed, "it is discarded"
        self._hash.update(data)
        self.size += len(data)
        if self.file is None and self.size <= MOST_BYTES:
            return self._memory.write(data)
        if self.file is None:
            self.file = self._spool()
            self.file.write(self._memory.getbuffer())
            self._memory = io.BytesIO()
        return self.file.write(data)

    def flush(self) -> None:
        """Nothing waits: readers flush the file."""

    @property
    def digest(self) -> str:
        """The part of the name of a file that tells its content."""
        return _shown_digest(self._hash)

    def in_memory(self) -> bytes:
        """Return all of it, where it is small."""
        assert self.file is None, "it is in a file"
        return self._memory.getvalue()

    def copy_to(self, target: Any) -> None:
        """Write all of it to a stream of pyarrow."""
        if self.file is None:
            target.write(self._memory.getbuffer())
            return
        self.file.flush()
        with Path(self.file.name).open("rb") as source:
            shutil.copyfileobj(source, target, _PIECE)

    def reader(self) -> Any:
        """Open it as a file of pyarrow, which can be read when this is discarded."""
        if self.file is None:
            return pa.BufferReader(self._memory.getbuffer())
        self.file.flush()
        return pa.OSFile(str(self.file.name))

    def discard(self) -> None:
        """Remove the file, unless it was renamed."""
        self.closed = True
        if self.file is not None:
            discard(self.file)


def open_spool() -> BinaryIO:
    """Open a file on the local disk of the executor."""
    return open_temporary(local_folder() / "penstock-state", _OWN)


def is_local(folder: Folder) -> bool:
    """Return whether a folder is on a disk of this machine, or mounted as one."""
    return isinstance(folder.system, fs.LocalFileSystem)


def open_as_written(folder: Folder, file: StateFile) -> Any:
    """Open a file of a folder as one of pyarrow, None where its content is not that which was written.

    A large one is read twice where it is local, and comes by way of the local disk else. It is not mapped: a read that
    fails, as of a file on a network drive that another removes, is an error then and not the end of the process. Raises
    FileNotFoundError, or another OSError.
    """
    path = f"{folder.path}/{file.name}"
    if is_local(folder) and file.bytes > MOST_BYTES:
        return _read_twice(folder.system.open_input_file(path), file)
    content = FileContent(open_spool)
    try:
        with folder.system.open_input_stream(path) as stream:
            for piece in _pieces(stream):
                content.write(piece)
                if content.size > file.bytes:
                    return None
        is_whole = content.size == file.bytes and content.digest in file.name
        return content.reader() if is_whole else None
    finally:
        content.discard()


def _read_twice(found: Any, file: StateFile) -> Any:
    """Return an opened file from its beginning, None where its content is not that which was written."""
    digest = hashlib.sha256()
    if found.size() == file.bytes:
        for piece in _pieces(found):
            digest.update(piece)
    if _shown_digest(digest) in file.name:
        found.seek(0)
        return found
    found.close()
    return None


def _shown_digest(digest: hashlib._Hash) -> str:
    """Return the part of a digest that the name of a file has."""
    return digest.hexdigest()[:16]


def _pieces(stream: Any) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece
