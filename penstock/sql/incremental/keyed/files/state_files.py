"""Reads and writes the files of keyed state: Parquet, written whole under a name that tells batches and content.

For tasks: local paths, and what pyarrow knows of Hadoop's file systems. A task that is run again writes the same file
or one of another name; the manifest names one.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from penstock.catalog.errors import StateMismatchError
from penstock.connector.spark.durable_files import replace
from penstock.connector.storage import BY_ITSELF, Folder, StorageAccess, open_folder
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS
from penstock.sql.incremental.keyed.files.manifest import BucketId, StateFile, damaged_state

ROW_GROUP = 200_000
"""Rows of a row group: as many are in memory at once when a file is read."""

_HINT = (
    "tasks keep the state of keyed operators with pyarrow, which knows file, s3, gs, abfss and hdfs; choose another "
    "'execution.checkpointing.dir'"
)

_COLUMNS = b"penstock.columns"
"""What files, and schemas of their rows, have the names and types of the columns by: as JSON."""

_WHOLE_NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
"""Types of which one may have become another since a file was written: values are cast, and keys go by BIGINT."""


def with_columns(schema: pa.Schema, columns: Iterable[tuple[str, str]]) -> pa.Schema:
    """Return the schema of stored rows, whose columns go by position, with what they are: names and types.

    Files of such rows say so, and rows are read from files that say the same, or nothing, as those of earlier versions.
    """
    return schema.with_metadata({_COLUMNS: json.dumps(list(columns)).encode()})


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFiles:
    """The files below a folder: a path, or a URL, whose store is opened by `access`."""

    location: str
    access: StorageAccess = BY_ITSELF

    def write(
        self, bucket: BucketId, first: int, last: int, rows: pa.Table, writer: str = ""
    ) -> StateFile:
        """Write the changes of the batches `first` to `last` of a bucket; the file is durable when this returns.

        It says of its columns what the schema of the rows does (`with_columns`).
        `writer` is a part of the name, where two processes must not write the same file.
        """
        content = io.BytesIO()
        named = rows.rename_columns([f"c{n}" for n in range(rows.num_columns)])
        named = named.replace_schema_metadata(rows.schema.metadata)
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
        _check_columns(bucket, shown, _columns(found.metadata.metadata), _columns(schema.metadata))
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
        root = open_folder(self.location, access=self.access, hint=_HINT)
        return root.below(bucket.folder)


def last_batch(name: str) -> int:
    """Return the last batch of a file, by its name; of other files more than any."""
    parts = name.split("-")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else 2**62


def _columns(metadata: Mapping[bytes, bytes] | None) -> list[tuple[str, str]]:
    found = json.loads((metadata or {}).get(_COLUMNS, b"[]"))
    return [(str(name), str(kind)) for name, kind in found]


def _check_columns(
    bucket: BucketId,
    shown: str,
    written: Sequence[tuple[str, str]],
    read: Sequence[tuple[str, str]],
) -> None:
    """Refuse a file whose columns are others: by position they would be taken for those that are read."""
    if not written or not read:
        return
    for number, (there, here) in enumerate(zip_longest(written, read), start=1):
        both = {one[1] for one in (there, here) if one is not None}
        named = there is not None and here is not None and there[0] == here[0]
        if named and (len(both) == 1 or both <= _WHOLE_NUMBERS):
            continue
        hint = "; or ".join(("run the version of Penstock that wrote it", *START_OVER_HINTS))
        raise StateMismatchError(
            f"the state of the operator {bucket.stage} is of other columns than this version of Penstock reads: column "
            f"{number} of the rows that it keeps of {bucket.input} is {_shown(there)} in {shown}, and {_shown(here)} "
            "here",
            hint=hint,
        )


def _shown(column: tuple[str, str] | None) -> str:
    return "missing" if column is None else " ".join(column)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _put(folder: Folder, name: str, content: bytes) -> None:
    if isinstance(folder.system, fs.LocalFileSystem):
        replace(Path(folder.path) / name, content, umask=None)
        return
    if folder.is_of_objects:
        # one request: a rename would be a copy and a removal, and there are no folders to make
        with folder.system.open_output_stream(f"{folder.path}/{name}") as stream:
            stream.write(content)
        return
    folder.system.create_dir(folder.path, recursive=True)
    temporary = f"{folder.path}/.{name}.{uuid4().hex[:8]}"
    with folder.system.open_output_stream(temporary) as stream:
        stream.write(content)
    folder.replace(temporary, f"{folder.path}/{name}")
