"""The metadata client of a folder of files, on the driver: lists files, their sizes, and peeks at their last
lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from penstock.connector.contract import Accept
from penstock.connector.filesystem.source.peek import last_lines, last_lines_of_stream, peek
from penstock.connector.filesystem.source.reader import LineDecoder, open_lines
from penstock.connector.filesystem.table.errors import shortened, vanished
from penstock.connector.filesystem.table.location import FoundFile, TableFolder
from penstock.connector.filesystem.table.split import (
    COMPRESSED_STOP,
    FileSplit,
    codec_of,
    positions_in,
)
from penstock.connector.filesystem.table.table import FilesystemTable
from penstock.connector.source.split import Discovery, SplitOffsets

__all__ = ["FileMetadataClient"]

_GONE = SplitOffsets(first=1 << 62, end=0)
"""The offsets of a file that differs from its listing: it is empty. Once read to its end it is not missed."""


class FileMetadataClient:
    """A SplitMetadataClient over a folder. Driver only, one thread; every method may block on I/O.

    A file is the one that was seen first under its name: what is appended later is not read. That is known as long as
    the planner exists; a start from a checkpoint sees files as they are then.
    """

    def __init__(self, table: FilesystemTable, decoder: LineDecoder) -> None:
        """Open without reading. `decoder` makes the columns that peeks return."""
        settings = table.settings
        self._settings = settings
        self._partitioning = table.partitioning
        self._decoder = decoder
        self._folder = TableFolder(settings.location)
        self._pattern = settings.path_pattern
        # never forgotten: a file that is removed and made again is not the one that was listed
        self._files: dict[str, FoundFile] = {}

    def list_splits(self) -> Discovery:
        """List the files, in reading order: by modification time, then by name.

        Empty files are left out until there is something in them. Raises UnknownObjectError where there is no
        such folder, UnsupportedError for a compression that is not known here, BadRecordError for a folder that
        names no partition.
        """
        found = sorted(filter(self._is_read, self._folder.files()), key=_reading_order)
        for file in found:
            self._files.setdefault(file.name, file)
        owner = self._settings.location.shown
        return Discovery(owners={file.name: owner for file in found}, source_ids={})

    def start_positions(
        self,
        split_ids: Sequence[str],
        *,
        first_listing: bool,  # noqa: ARG002  every file is read from its beginning
    ) -> Mapping[str, int]:
        """Return the beginning of each file."""
        return dict.fromkeys(split_ids, 0)

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the end that each file had when it was listed: a monitored folder has no end, its files have."""
        files = self._known(split_ids)
        return {split_id: _positions(file) for split_id, file in files.items()}

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, SplitOffsets]:
        """Return how far each file can be read; one that differs from its listing holds nothing any more."""
        found: dict[str, SplitOffsets] = {}
        for split_id, now in self._look_at(split_ids):
            if now is None:
                found[split_id] = _GONE
                continue
            known = self._files.setdefault(split_id, now)
            change = now.change_since(known.size, known.modified_ms)
            found[split_id] = (
                SplitOffsets(first=0, end=_positions(known)) if change is None else _GONE
            )
        return found

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Read the last decodable line of each range; see SplitMetadataClient. Raises DataLossError
        for a changed file.
        """
        splits = [self.split(split_id, *positions) for split_id, positions in ranges.items()]
        return peek(self._decoder, splits, self._candidates, accept)

    def split(self, split_id: str, start: int, stop: int | None) -> FileSplit:
        """Make a task's split. Raises DataLossError for a file that is gone, or became too short for the range."""
        file = self._known([split_id])[split_id]
        if codec_of(file.path) is not None:
            stop = COMPRESSED_STOP if stop is None or start < stop else stop
        elif stop is not None and stop > file.size:
            raise shortened(file.path, stop, file.size)
        return FileSplit(
            split_id=split_id,
            start=start,
            stop=stop,
            path=file.path,
            size=file.size,
            modified_ms=file.modified_ms,
        )

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:  # noqa: ARG002  of the contract
        """Make the error for a file that is not as it was listed."""
        ((_, now),) = self._look_at([split_id])
        known = self._files.get(split_id)
        change = now.change_since(known.size, known.modified_ms) if now and known else None
        return change or vanished(self._folder.path_of(split_id))

    def changed(self, owner: str, known: str, found: str | None) -> Exception:  # noqa: ARG002  of the contract
        """Make the error for a missing folder; folders are not compared, files are."""
        return vanished(owner)

    def commit(self, positions: Mapping[str, int]) -> None:
        """Nothing: files are left as they are."""

    def close(self) -> None:
        """Nothing: files are open only while they are looked at."""

    def _is_read(self, file: FoundFile) -> bool:
        if self._pattern is not None and self._pattern.fullmatch(file.path) is None:
            return False
        if not (file.size and self._partitioning.holds(file.name)):
            return False
        codec_of(file.path)  # refuses a compression whose bytes would be taken for text
        return True

    def _look_at(self, split_ids: Sequence[str]) -> Iterator[tuple[str, FoundFile | None]]:
        return zip(split_ids, self._folder.look_at(split_ids), strict=True)

    def _known(self, split_ids: Sequence[str]) -> dict[str, FoundFile]:
        """Return files as they were seen first; those of an earlier process as they are now."""
        for split_id, now in self._look_at([i for i in split_ids if i not in self._files]):
            if now is None:
                raise vanished(self._folder.path_of(split_id))
            self._files[split_id] = now
        return {split_id: self._files[split_id] for split_id in split_ids}

    def _candidates(self, split: FileSplit) -> Iterator[tuple[int, bytes]]:
        if split.codec is None:
            file = self._folder.open_file(split.path)
            try:
                yield from last_lines(file, split)
            finally:
                file.close()
        else:
            lines = open_lines(self._folder, split)
            try:
                yield from last_lines_of_stream(lines)
            finally:
                lines.close()


def _reading_order(file: FoundFile) -> tuple[int, str]:
    return file.modified_ms, file.name


def _positions(file: FoundFile) -> int:
    return positions_in(file.path, file.size)
