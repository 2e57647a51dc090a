"""A file of dead letters that one attempt at a range writes: hidden until the range was read to its end."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import uuid4

import pyarrow as pa

from penstock.connector.storage import Folder

__all__ = ["AttemptFile"]


class AttemptFile:
    """An open file in a folder that exists. A task's thread; raises OSError.

    Two attempts at a range may run at a time, so each has a hidden name of its own; the one that ends replaces what an
    earlier one has published under the range's name.
    """

    def __init__(self, folder: Folder) -> None:
        """Make the file."""
        self._folder = folder
        self._path = f"{folder.path}/.{uuid4().hex}.tmp"
        self._stream: Any = folder.system.open_output_stream(self._path)
        self._writer: Any = None

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._stream.write(data)

    def write_rows(self, batch: pa.RecordBatch) -> None:
        """Append rows of one schema: the file is of Parquet."""
        if self._writer is None:
            from pyarrow import parquet  # loaded here: most tasks write nothing

            self._writer = parquet.ParquetWriter(self._stream, batch.schema)
        self._writer.write_batch(batch)

    def publish(self, name: str) -> None:
        """Close the file and show it under `name`, in place of one of that name."""
        self._close()
        self._folder.replace(self._path, f"{self._folder.path}/{name}")

    def drop(self) -> None:
        """Remove the file, if that can be done."""
        # what failed before is told, and a hidden file that stays does no harm
        with suppress(OSError, pa.ArrowException):
            self._close()
            self._folder.system.delete_file(self._path)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._stream.close()
