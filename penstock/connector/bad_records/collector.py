"""Collect the bad records of one task: count them by range, keep them if the table asks for it, enforce limits.

Records that cannot be decoded, and records whose watermark is too far in the future.
`files.py` describes the files for the driver. Without a staging folder (a SELECT has no checkpoint) bad records
are skipped and counted only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from penstock.catalog.errors import SinkError
from penstock.connector.bad_records.files import (
    MARK,
    TOO_FAR,
    AttemptFile,
    DeadLetterDirectory,
    RangeFile,
    dead_letter_batch,
    parse_name,
    range_file,
)
from penstock.connector.bad_records.limits import Tally, check_task
from penstock.connector.options.bad_records import BadRecordSettings
from penstock.connector.source.records import BadRecord, RawRecord, RecordsWithSplitIds, Stage
from penstock.connector.source.split import Split
from penstock.connector.source.state import instant_text
from penstock.connector.storage import BY_ITSELF, Folder, StorageAccess, open_folder

GROUP_BYTES = 64 << 20
"""Bytes of keys and values that are put into one group of a file: what a task holds in memory beside a fetch."""


@dataclass(slots=True, kw_only=True)
class _Range:
    """A range that is being read: the bad records so far, and the file of its dead letters."""

    split: Split
    tally: Tally = field(default_factory=Tally)
    file: AttemptFile | None = None


class BadRecordCollector:
    """Stands beside a task's reader. The task's thread; `close` drops the files of unfinished ranges.

    `table` is the table's full name. `staging` is the folder of the query's checkpoint that the scan was given,
    `batch_id` the batch that the task works for; without both nothing is written. `directory` takes the records with
    future timestamps of a table with the deprecated option for it, with or without a checkpoint. `access` is how the
    checkpoint's store is opened.
    """

    def __init__(
        self,
        settings: BadRecordSettings,
        table: str,
        splits: Sequence[Split],
        *,
        batch_positions: int | None,
        staging: str | None,
        batch_id: int | None,
        directory: DeadLetterDirectory | None = None,
        access: StorageAccess = BY_ITSELF,
    ) -> None:
        """Touch nothing yet."""
        assert staging is None or batch_id is not None, "a staging folder is a streaming query's"
        self._settings = settings
        self._table = table
        self._directory = directory
        self._access = access
        self._batch_positions = batch_positions
        self._staged_batch = None if staging is None else (staging, str(batch_id))
        self._ranges = {split.split_id: _Range(split=split) for split in splits}
        self._total = Tally()
        self._folder: Folder | None = None
        self._earlier: tuple[RangeFile, ...] = ()

    def take(self, records: RecordsWithSplitIds) -> None:
        """Add the bad records that a fetch reports. Raises BadRecordError for too many, SinkError."""
        if not self._settings.leaves_out:
            return
        for split_id, count in records.read.items():
            bad = records.bad.get(split_id, ())
            self._count(self._ranges[split_id], Tally(read=count))
            if bad:
                self.add(split_id, bad)

    def add(self, split_id: str, bad: Sequence[BadRecord]) -> None:
        """Add bad records among those that were read. Raises BadRecordError for too many, SinkError."""
        self._count(self._ranges[split_id], Tally(bad=len(bad)))
        check_task(self._settings, self._total, self._table, batch_positions=self._batch_positions)
        if self._settings.keeps and self._staged_batch is not None:
            self._write(self._ranges[split_id], bad)

    def add_future(
        self,
        split_id: str,
        records: Sequence[RawRecord],
        watermarks_ms: Sequence[int],
        not_after_ms: int,
    ) -> None:
        """Add records whose watermarks (epoch ms) are above `not_after_ms`. Raises as `add`.

        Those of a table with a directory of its own for them are no part of its counts and limits.
        """
        if self._directory is not None:
            self._directory.write(split_id, records, watermarks_ms, not_after_ms)
            return
        accepted = instant_text(not_after_ms)
        self.add(
            split_id,
            [
                BadRecord(
                    record=record,
                    stage=Stage.ROWTIME,
                    error=f"{TOO_FAR}: {instant_text(at_ms)}, accepted up to {accepted}",
                )
                for record, at_ms in zip(records, watermarks_ms, strict=True)
            ],
        )

    def close(self) -> None:
        """Drop what was not finished: the range is read again."""
        for found in self._ranges.values():
            if found.file is not None:
                found.file.drop()
        if self._directory is not None:
            self._directory.close()

    def _count(self, found: _Range, tally: Tally) -> None:
        found.tally += tally
        self._total += tally

    def _write(self, found: _Range, bad: Sequence[BadRecord]) -> None:
        with self._opened() as folder:
            found.file = found.file or AttemptFile(folder)
            for group in _groups(bad):
                found.file.write_rows(dead_letter_batch(self._table, group))

    def finish(self, split_ids: Collection[str]) -> None:
        """Publish the files of ranges that were read to their end, replacing those of earlier attempts."""
        if self._directory is not None:
            self._directory.finish(split_ids)
        if self._staged_batch is None:
            return
        for split_id in sorted(split_ids & self._ranges.keys()):
            found = self._ranges.pop(split_id)
            with self._opened() as folder:
                self._show(found, folder)

    def _show(self, found: _Range, folder: Folder) -> None:
        named = range_file(found.split, found.tally, has_letters=found.file is not None)
        if found.file is None:
            folder.system.open_output_stream(f"{folder.path}/{named.name}").close()
        else:
            found.file.publish(named.name)
        for earlier in self._earlier:
            if earlier.overlaps(named) and earlier != named:
                with suppress(FileNotFoundError):
                    folder.system.delete_file(f"{folder.path}/{earlier.name}")

    @contextmanager
    def _opened(self) -> Iterator[Folder]:
        """Return the batch's folder, made and looked through at the first use. Errors become SinkError."""
        assert self._staged_batch is not None, "asked before"
        staging, batch_id = self._staged_batch
        root = open_folder(staging, access=self._access)
        try:
            if self._folder is None:
                self._check_sees(root)
                folder = root.below(batch_id)
                folder.system.create_dir(folder.path, recursive=True)
                self._earlier = tuple(filter(None, map(parse_name, folder.names())))
                self._folder = folder
            yield self._folder
        except OSError as error:
            raise SinkError(
                f"table {self._table}: what is known of bad records cannot be written to {root.shown}: {error}",
                hint="tasks write into the query's checkpoint directory: they need permission and space to",
            ) from error

    def _check_sees(self, root: Folder) -> None:
        """Refuse to write where the driver does not look, such as a worker's own disk."""
        if not root.system.get_file_info(f"{root.path}/{MARK}").is_file:
            raise SinkError(
                f"table {self._table}: a task does not see {root.shown}, which the driver has made",
                hint="'execution.checkpointing.dir' has to be on storage that the driver and all workers share",
            )


def _groups(bad: Sequence[BadRecord]) -> Iterator[Sequence[BadRecord]]:
    """Cut records into groups of bounded size; a record that is larger is a group of its own."""
    group: list[BadRecord] = []
    size = 0
    for item in bad:
        own = len(item.record.key or b"") + len(item.record.value or b"")
        if group and size + own > GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(item)
        size += own
    if group:
        yield group
