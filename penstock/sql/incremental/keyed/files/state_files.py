"""Reads and writes the files of keyed state: Parquet, written whole under a name that tells batches and content.

For tasks: local paths, and what pyarrow knows of Hadoop's file systems. A task that is run again writes the same file
or one of another name; the manifest names one.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from penstock.connector.spark.durable_files import replace
from penstock.connector.storage import Folder, open_folder
from penstock.sql.incremental.keyed.files.manifest import BucketId, StateFile, damaged_state

ROW_GROUP = 200_000
"""Rows of a row group: as many are in memory at once when a file is read."""

_HINT = (
    "tasks keep the state of keyed operators with pyarrow, which knows file, s3, gs, abfss and hdfs; choose another "
    "'execution.checkpointing.dir'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFiles:
    """The files below a folder: a path, or a URL."""

    location: str

    def write(
        self, bucket: BucketId, first: int, last: int, rows: pa.Table, writer: str = ""
    ) -> StateFile:
        """Write the changes of the batches `first` to `last` of a bucket; the file is durable when this returns.

        `writer` is a part of the name, where two processes must not write the same file.
        """
        content = io.BytesIO()
        named = rows.rename_columns([f"c{n}" for n in range(rows.num_columns)])
        pq.write_table(named, content, compression="zstd", row_group_size=ROW_GROUP)
        written = content.getvalue()
        end = f".{writer}.parquet" if writer else ".parquet"
        name = f"{first}-{last}-{_digest(written)}{end}"
        _put(self._folder(bucket), name, written)
        return StateFile(name=name, first=first, last=last, rows=rows.num_rows, bytes=len(written))

    def read(self, bucket: BucketId, file: StateFile, schema: pa.Schema) -> Iterator[pa.Table]:
        """Read a file in parts, in the columns of `schema`. Raises StateMismatchError where it is not as written."""
        folder = self._folder(bucket)
        shown = f"{folder.shown}/{file.name}"
        try:
            with folder.system.open_input_stream(f"{folder.path}/{file.name}") as stream:
                content = stream.read()
        except FileNotFoundError as error:
            raise damaged_state(shown, "is missing") from error
        if len(content) != file.bytes or _digest(content) not in file.name:
            raise damaged_state(shown, "is not as it was written")
        found = pq.ParquetFile(pa.BufferReader(content))
        for number in range(found.num_row_groups):
            rows = found.read_row_group(number)
            if rows.num_columns != len(schema):
                raise damaged_state(shown, "holds the columns of another query")
            yield rows.rename_columns(schema.names).cast(schema)

    def delete(self, bucket: BucketId, name: str) -> None:
        """Remove a file that no manifest names."""
        folder = self._folder(bucket)
        path = f"{folder.path}/{name}"
        if folder.system.get_file_info(path).type is not fs.FileType.NotFound:
            folder.system.delete_file(path)

    def names(self, bucket: BucketId) -> tuple[str, ...]:
        """List the files of a bucket, also those that no manifest names."""
        return tuple(self._folder(bucket).names())

    def _folder(self, bucket: BucketId) -> Folder:
        return open_folder(self.location, hint=_HINT).below(bucket.folder)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _put(folder: Folder, name: str, content: bytes) -> None:
    if isinstance(folder.system, fs.LocalFileSystem):
        replace(Path(folder.path) / name, content, umask=None)
        return
    folder.system.create_dir(folder.path, recursive=True)
    temporary = f"{folder.path}/.{name}.{uuid4().hex[:8]}"
    with folder.system.open_output_stream(temporary) as stream:
        stream.write(content)
    folder.replace(temporary, f"{folder.path}/{name}")
