"""The staging files of bad records: one file per range, in a folder of the batch, written by tasks for the driver.

A file's name holds the range, the number of records read and the number of bad ones; the file is empty if none
are kept, else a Parquet file of `DEAD_LETTER_SCHEMA`. A range that is read again (a failed task, a replayed
batch, a sink that reads twice) writes the same file, so the driver finds each bad record once. If the
definition changed between two attempts, overlapping files of the earlier one are removed when a range ends.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa

from penstock.connector.bad_records.limits import Tally
from penstock.connector.source.records import BadRecord
from penstock.connector.source.split import Split
from penstock.connector.source.state import MAX_WATERMARK_MS, MIN_INSTANT_MS

__all__ = [
    "DEAD_LETTER_SCHEMA",
    "MARK",
    "RangeFile",
    "dead_letter_batch",
    "parse_name",
    "range_file",
    "split_name",
]

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
