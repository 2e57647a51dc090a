"""Reads and writes the files of keyed state: Parquet, written whole under a name that tells batches and content.

For tasks: local paths, and what pyarrow knows of Hadoop's file systems. A task that is run again writes the same file
or one of another name; the manifest names one. A row group is in memory at once, of files that are written and read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyarrow import parquet as pq

from penstock.catalog.errors import StateMismatchError
from penstock.connector.spark.durable_files import open_temporary, publish, replace
from penstock.connector.storage import BY_ITSELF, Folder, StorageAccess, open_folder
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS
from penstock.sql.incremental.keyed.files.file_content import (
    FileContent,
    is_local,
    open_as_written,
    open_spool,
)
from penstock.sql.incremental.keyed.files.manifest import BucketId, StateFile, damaged_state

ROW_GROUP, ROW_GROUP_BYTES = 200_000, 32 << 20
"""The most rows of a row group, and bytes of them in memory: as many are there at once when a file is read."""

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


class ReadRows(Protocol):
    """Rows that are read once, batch by batch, as a RecordBatchReader gives them."""

    @property
    def schema(self) -> pa.Schema:
        """Their columns."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Read them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFiles:
    """The files below a folder: a path, or a URL, whose store is opened by `access`."""

    location: str
    access: StorageAccess = BY_ITSELF

    def write(self, bucket: BucketId, first: int, last: int, rows: pa.Table) -> StateFile:
        """Write the changes of the batches `first` to `last` of a bucket; the file is durable when this returns.

        It says of its columns what the schema of the rows does (`with_columns`).
        """
        return self.write_batches(bucket, first, last, rows.to_reader())

    def write_batches(
        self, bucket: BucketId, first: int, last: int, rows: ReadRows, *, writer: str = ""
    ) -> StateFile:
        """Write rows as they come, as `write` does, and no file where they end with an error.

        `writer` is a part of the name, where two processes must not write the same file.
        """
        folder = self._folder(bucket)
        beside = (
            Path(folder.path) / f"{first}-{last}-{writer}"
        )  # orphans are known by it (`last_batch`)
        content = FileContent(
            partial(open_temporary, beside, None) if is_local(folder) else open_spool
        )
        try:
            count = _encode(content, rows)
            end = f".{writer}.parquet" if writer else ".parquet"
            name = f"{first}-{last}-{content.digest}{end}"
            _put(folder, name, content)
        finally:
            content.discard()
        return StateFile(name=name, first=first, last=last, rows=count, bytes=content.size)

    def read(self, bucket: BucketId, file: StateFile, schema: pa.Schema) -> Iterator[pa.Table]:
        """Read a file in parts, in the columns of `schema`. Raises StateMismatchError where it is not as written."""
        folder = self._folder(bucket)
        shown = f"{folder.shown}/{file.name}"
        try:
            content = open_as_written(folder, file)
        except FileNotFoundError as error:
            raise damaged_state(shown, "is missing") from error
        if content is None:
            raise damaged_state(shown, "is not as it was written")
        with content:
            found = pq.ParquetFile(content)
            written = _columns(found.metadata.metadata)
            _check_columns(bucket, shown, written, _columns(schema.metadata))
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


# --- content ---


def _encode(content: FileContent, rows: ReadRows) -> int:
    """Write rows as Parquet, of columns by position, and return their number."""
    names = [f"c{n}" for n in range(len(rows.schema))]
    columns = [of.with_name(name) for of, name in zip(rows.schema, names, strict=True)]
    named = pa.schema(columns, metadata=rows.schema.metadata)
    count = 0
    parquet = pq.ParquetWriter(content, named, compression="zstd")
    try:
        for group in row_groups(rows):
            parquet.write_table(group.rename_columns(names))
            count += group.num_rows
        if not count:
            parquet.write_table(named.empty_table())
    except BaseException:
        with suppress(Exception):  # what failed first is the reason
            parquet.close()
        raise
    parquet.close()
    return count


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Put rows together, and cut them, to row groups of a bounded size."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        width, start = max(1, batch.nbytes // max(1, batch.num_rows)), 0
        while start < batch.num_rows:
            count = min(ROW_GROUP - rows, max(1, (ROW_GROUP_BYTES - size) // width))
            held.append(batch.slice(start, count))
            added = held[-1].num_rows
            start, rows, size = start + added, rows + added, size + added * width
            if rows >= ROW_GROUP or size + width > ROW_GROUP_BYTES:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _put(folder: Folder, name: str, content: FileContent) -> None:
    """Give content its name. Raises OSError, and leaves nothing in the folder then."""
    if is_local(folder):
        path = Path(folder.path) / name
        if content.file is None:
            replace(path, content.in_memory(), umask=None)
        else:
            publish(content.file, path)
        return
    if folder.is_of_objects and content.file is None:
        # One request: a rename is a copy and a removal. Of many pieces one may fail, and what came were the object.
        with folder.system.open_output_stream(f"{folder.path}/{name}") as stream:
            content.copy_to(stream)
        return
    folder.system.create_dir(folder.path, recursive=True)
    temporary = f"{folder.path}/.{name}.{uuid4().hex[:8]}"
    try:
        with folder.system.open_output_stream(temporary) as stream:
            content.copy_to(stream)
        folder.keep(temporary, f"{folder.path}/{name}")
    except BaseException:
        with suppress(OSError):
            folder.system.delete_file(temporary)
        raise
