"""The directory of records with future timestamps, as JSON lines: the deprecated option `scan.dead-letter.path`.

A task writes one file for each range of a split, named after table, split and range: a range that is read
again, after a crash or a failed task, replaces its file, so that no record is written twice. Needs no checkpoint, so
queries without one write there, too.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from penstock.catalog.errors import SinkError
from penstock.catalog.options.redaction import redact
from penstock.connector.bad_records.attempt_file import AttemptFile
from penstock.connector.source.records import RawRecord
from penstock.connector.source.split import Split
from penstock.connector.source.state import instant_text
from penstock.connector.storage import Folder, open_folder
from penstock.connector.urls import resolve_path

__all__ = ["TOO_FAR", "DeadLetterDirectory", "check_directory"]

OPTION = "scan.dead-letter.path"
TOO_FAR = "the watermark is too far in the future"
LONGEST_NAME = 150
"""Characters of a split id in a file name; file systems allow 255 bytes in all."""


def check_directory(path: str, project: Path) -> None:
    """Make the directory of the option, so that a mistake in it shows before a letter is to be written.

    Raises ConfigError for a file system that cannot be opened, SinkError where nothing can be made.
    """
    directory = _opened(path, project)
    with _explained(directory.shown):
        directory.system.create_dir(directory.path, recursive=True)


class DeadLetterDirectory:
    """The dead letters of one task, by the ranges in `splits`. `table` is the table's full name. One thread."""

    def __init__(self, path: str, project: Path, table: str, splits: Sequence[Split]) -> None:
        """Open nothing yet: a task without dead letters costs nothing."""
        self._option = path
        self._project = project
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
        directory = self._directory = self._directory or _opened(self._option, self._project)
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
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


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


def _opened(path: str, project: Path) -> Folder:
    shown = redact({OPTION: path})[OPTION]
    return open_folder(
        resolve_path(path, project),
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
