"""The staging files of bad records: one file per range, in a folder of the batch, written by tasks for the driver.

A file's name holds the range, the number of records read and the number of bad ones; the file is empty if none
are kept, else a Parquet file of `DEAD_LETTER_SCHEMA`. It is hidden until the range was read to its end. A range that
is read again (a failed task, a replayed batch, a sink that reads twice) writes the same file, so the driver finds
each bad record once. If the definition changed between two attempts, overlapping files of the earlier one are
removed when a range ends. The deprecated `scan.dead-letter.path` is a directory of JSON lines.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa

from penstock.catalog.errors import SinkError
from penstock.catalog.options.redaction import redact
from penstock.connector.bad_records.limits import Tally
from penstock.connector.source.records import BadRecord, RawRecord
from penstock.connector.source.split import Split
from penstock.connector.source.state import MAX_WATERMARK_MS, MIN_INSTANT_MS, instant_text
from penstock.connector.storage import BY_ITSELF, Folder, StorageAccess, open_folder
from penstock.connector.urls import resolve_path


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


OPTION = "scan.dead-letter.path"
TOO_FAR = "the watermark is too far in the future"
LONGEST_JSON_NAME = 150
"""Characters of a split id in a file name; file systems allow 255 bytes in all."""


def check_directory(path: str, project: Path, access: StorageAccess = BY_ITSELF) -> None:
    """Make the directory of the option, so that a mistake in it shows before a letter is to be written.

    Raises ConfigError for a file system that cannot be opened, SinkError where nothing can be made.
    """
    directory = _opened(path, project, access)
    with _explained(directory.shown):
        directory.system.create_dir(directory.path, recursive=True)


class DeadLetterDirectory:
    """The dead letters of one task, by the ranges in `splits`. `table` is the table's full name. One thread."""

    def __init__(
        self,
        path: str,
        project: Path,
        table: str,
        splits: Sequence[Split],
        *,
        access: StorageAccess = BY_ITSELF,
    ) -> None:
        """Open nothing yet: a task without dead letters costs nothing."""
        self._option = path
        self._project = project
        self._access = access
        self._table = table
        self._splits = {split.split_id: split for split in splits}
        self._directory: Folder | None = None
        self._open: dict[str, AttemptFile] = {}

    def write(
        self,
        split_id: str,
        records: Sequence[RawRecord],
        watermarks_ms: Sequence[int],
        not_after_ms: int,
    ) -> None:
        """Add records with their watermarks (epoch ms) to the file of their range. Raises SinkError."""
        if self._directory is None:
            self._directory = _opened(self._option, self._project, self._access)
        directory = self._directory
        lines = [
            _line(self._table, split_id, record, watermark_ms, not_after_ms)
            for record, watermark_ms in zip(records, watermarks_ms, strict=True)
        ]
        with _explained(directory.shown):
            if split_id not in self._open:
                folder = directory.below(_shortened(quote(self._table, safe="")))
                folder.system.create_dir(folder.path, recursive=True)
                self._open[split_id] = AttemptFile(folder)
            self._open[split_id].write(b"".join(lines))

    def finish(self, split_ids: Collection[str]) -> None:
        """Publish the files of ranges that were read to their end, replacing those of earlier attempts."""
        for split_id in sorted(split_ids & self._open.keys()):
            assert self._directory is not None, "a file was opened in it"
            written = self._open.pop(split_id)
            with _explained(self._directory.shown):
                written.publish(_file_name(self._splits[split_id]))

    def close(self) -> None:
        """Drop what was not finished: the range is read again."""
        while self._open:
            self._open.popitem()[1].drop()


def _file_name(split: Split) -> str:
    end = "" if split.stop is None else split.stop
    return f"{_shortened(quote(split.split_id, safe=''))}.{split.start}-{end}.jsonl"


def _shortened(name: str) -> str:
    if len(name) <= LONGEST_JSON_NAME:
        return name
    return f"{name[:LONGEST_JSON_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _line(
    table: str, split_id: str, record: RawRecord, watermark_ms: int, not_after_ms: int
) -> bytes:
    letter = {
        "table": table,
        "split": split_id,
        "position": record.position,
        "watermark": instant_text(watermark_ms),
        "not_after": instant_text(not_after_ms),
        "reason": TOO_FAR,
        **_text_or_base64("key", record.key),
        **_text_or_base64("value", record.value),
    }
    return json.dumps(letter, ensure_ascii=False).encode() + b"\n"


def _text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def _opened(path: str, project: Path, access: StorageAccess) -> Folder:
    shown = redact({OPTION: path})[OPTION]
    return open_folder(
        resolve_path(path, project),
        access=access,
        shown=f"'{OPTION}' = '{shown}'",
        hint="a path relative to the project, or a URL that pyarrow knows: file, s3, gs, abfss, hdfs",
    )


@contextmanager
def _explained(shown: str) -> Iterator[None]:
    """Turn errors of the file system into the product's."""
    try:
        yield
    except OSError as error:
        raise SinkError(
            f"dead letters cannot be written to {shown}: {error}",
            hint="allow the user that runs the query to write there, or choose another directory",
        ) from error


MARK = "_driver"
"""Name of the file by which a task knows that it sees the driver's storage."""

_DAY_MS = 86_400_000
EARLIEST_MS = MIN_INSTANT_MS + 2 * _DAY_MS
LATEST_MS = MAX_WATERMARK_MS - 2 * _DAY_MS
"""Years 1 to 9999, in every time zone."""

DEAD_LETTER_SCHEMA = pa.schema(
    [
        pa.field("table", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("path", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field(
            "headers",
            pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
        ),
        pa.field("stage", pa.string()),
        pa.field("error", pa.string()),
    ]
)
"""Columns of a dead letter as a task knows them; the driver adds the pipeline's."""

LONGEST_NAME = 120
"""Characters of a split id in a file name; file systems allow 255 bytes in all."""

_NAME = re.compile(
    r"range-(?P<split>.+)\.(?P<start>\d+)-(?P<stop>\d*)\.(?P<read>\d+)-(?P<bad>\d+)\.(?P<kind>parquet|tally)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeFile:
    """What a name says. `split` is the split's id as names have it; positions are [`start`, `stop`), None: no end."""

    split: str
    start: int
    stop: int | None
    tally: Tally
    has_letters: bool

    @property
    def name(self) -> str:
        """The file's name."""
        stop = "" if self.stop is None else self.stop
        kind = "parquet" if self.has_letters else "tally"
        # no name begins with "_" or ".", which Spark takes for hidden
        return f"range-{self.split}.{self.start}-{stop}.{self.tally.read}-{self.tally.bad}.{kind}"

    def overlaps(self, other: RangeFile) -> bool:
        """Return whether both are of the same records, in part at least."""
        if self.split != other.split:
            return False
        before_end = other.stop is None or self.start < other.stop
        after_start = self.stop is None or other.start < self.stop
        return before_end and after_start


def range_file(split: Split, tally: Tally, *, has_letters: bool) -> RangeFile:
    """Name the file of a range."""
    return RangeFile(
        split=split_name(split.split_id),
        start=split.start,
        stop=split.stop,
        tally=tally,
        has_letters=has_letters,
    )


def parse_name(name: str) -> RangeFile | None:
    """Read a file's name; None for one that is not of a range, such as a file that is being written."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return RangeFile(
        split=found["split"],
        start=int(found["start"]),
        stop=int(found["stop"]) if found["stop"] else None,
        tally=Tally(read=int(found["read"]), bad=int(found["bad"])),
        has_letters=found["kind"] == "parquet",
    )


def _microseconds(timestamp_ms: int | None) -> int | None:
    """Return a record's timestamp within the years that readers of dead letters can represent; a
    broker accepts any number.
    """
    return None if timestamp_ms is None else min(max(timestamp_ms, EARLIEST_MS), LATEST_MS) * 1000


def dead_letter_batch(table: str, bad: Iterable[BadRecord]) -> pa.RecordBatch:
    """Write bad records as dead letters. `table` is the table's full name."""
    rows = list(bad)
    records = [item.record for item in rows]
    is_file = [record.path is not None for record in records]
    columns = {
        "table": [table] * len(rows),
        "topic": [record.topic for record in records],
        "partition": [record.partition for record in records],
        "offset": [None if file else r.position for r, file in zip(records, is_file, strict=True)],
        "path": [record.path for record in records],
        "position": [
            r.position if file else None for r, file in zip(records, is_file, strict=True)
        ],
        "timestamp": [_microseconds(record.timestamp_ms) for record in records],
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "headers": [
            [{"key": name, "value": value} for name, value in record.headers] for record in records
        ],
        "stage": [item.stage.value for item in rows],
        "error": [item.error for item in rows],
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in DEAD_LETTER_SCHEMA],
        schema=DEAD_LETTER_SCHEMA,
    )


def split_name(split_id: str) -> str:
    """Write a split's id as a part of a file's name: one id, one name."""
    name = quote(split_id, safe="")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
