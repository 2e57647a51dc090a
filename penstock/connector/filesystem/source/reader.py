"""Read ranges of files in a task: some megabytes of lines a fetch, decoded by the table's format."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.model.table import ComputedColumn, MetadataColumn, PhysicalColumn
from penstock.connector.arrow import arrow_field
from penstock.connector.contract import ReadRequest
from penstock.connector.filesystem.source.lines import (
    CompressedLines,
    LineSource,
    Piece,
    PlainLines,
    line_position,
    line_positions,
    split_lines,
)
from penstock.connector.filesystem.table.location import TableFolder, vanished
from penstock.connector.filesystem.table.split import FileSplit, metadata_value
from penstock.connector.filesystem.table.table import FilesystemTable
from penstock.connector.formats import Decoded
from penstock.connector.formats.contract import BadValue, Where
from penstock.connector.formats.decoders import collecting_errors, rows_without_columns
from penstock.connector.source.records import BadRecord, RawRecord, RecordsWithSplitIds, Stage
from penstock.connector.source.split import AssignedSplits, Split


class LineDecoder:
    """Decodes lines into the columns asked for, and nothing else."""

    def __init__(self, request: ReadRequest, table: FilesystemTable) -> None:
        wanted = [table.schema.column(name) for name in request.columns]
        keys = {column.name for column in table.partitioning.columns}
        in_lines = [c for c in wanted if isinstance(c, PhysicalColumn) and c.name not in keys]
        self._table = table
        self._time_zone = request.time_zone
        self._wanted = wanted
        self._in_lines = {column.name: index for index, column in enumerate(in_lines)}
        decoder = table.format.decoder(
            [(column.name, column.type) for column in in_lines], table.settings.resolved
        )
        self._decoder = (
            collecting_errors(decoder) if table.settings.bad_records.leaves_out else decoder
        )

    def decode(self, lines: Sequence[bytes], where: Where) -> Decoded:
        """Decode what the lines themselves hold. Raises BadRecordError naming the line by `where`.

        A table that leaves out bad records has them listed in `Decoded.bad` instead.
        """
        return self._decoder.decode(lines, where)

    def complete(self, rows: pa.RecordBatch, split: FileSplit) -> pa.RecordBatch:
        """Complete the decoded rows of one file with all columns, in the order asked for. Raises BadRecordError."""
        if not self._wanted:
            return rows_without_columns(rows.num_rows)
        arrays, fields = [], []
        for column in self._wanted:
            assert not isinstance(column, ComputedColumn), (
                "a computed column is not read from files"
            )
            index = self._in_lines.get(column.name)
            arrays.append(
                pa.repeat(self._value(column, split), rows.num_rows)
                if index is None
                else rows.column(index)
            )
            fields.append(arrow_field(column.name, column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _value(self, column: PhysicalColumn | MetadataColumn, split: FileSplit) -> pa.Scalar:
        if isinstance(column, MetadataColumn):
            return metadata_value(column, split, self._time_zone)
        return self._table.partitioning.value(column, split.split_id)


FETCH_S = 1.0
"""How long `fetch` waits for something to read before it comes back empty."""


def open_lines(folder: TableFolder, split: FileSplit) -> LineSource:
    """Open a range of a file. Raises DataLossError for a file that is not the one that was listed.

    A file that grew is read up to the size that it had (as in Flink).
    """
    (now,) = folder.look_at([split.split_id])
    if now is None:
        raise vanished(split.path)
    change = now.change_since(split.size, split.modified_ms)
    if change is not None:
        raise change
    if split.codec is not None:
        return CompressedLines(folder.open_stream(split.path, split.codec), split)
    return PlainLines(folder.open_file(split.path), split)


def _where(split: FileSplit, position: int) -> str:
    return f"file {split.path}, byte {position}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOrigins:
    """The RowOrigins of a piece of a file: `rows` are the lines of its rows, None where each line is a row."""

    piece: Piece
    split: FileSplit
    rows: npt.NDArray[np.int64] | None

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Return the lines of rows, by their index in the batch."""
        indices = rows if self.rows is None else [int(self.rows[row]) for row in rows]
        return _records(self.piece, self.split, indices)


def _records(piece: Piece, split: FileSplit, indices: Sequence[int]) -> list[RawRecord]:
    """Return lines of a piece as records."""
    lines = split_lines(piece.data)
    return [
        RawRecord(
            position=at, key=None, value=lines[index], where=_where(split, at), path=split.path
        )
        for index, at in zip(indices, line_positions(piece, indices), strict=True)
    ]


def _bad(piece: Piece, split: FileSplit, values: Sequence[BadValue]) -> list[BadRecord]:
    records = _records(piece, split, [value.index for value in values])
    return [
        BadRecord(record=record, stage=Stage.VALUE, error=value.error)
        for record, value in zip(records, values, strict=True)
    ]


class FileSplitReader:
    """A SplitReader over files. Used by one thread; only `wake_up` may come from another."""

    def __init__(self, folder: TableFolder, decoder: LineDecoder, *, origins: bool = False) -> None:
        """Open nothing yet. `origins`: fetches lead back to their lines."""
        self._folder = folder
        self._decoder = decoder
        self._origins = origins
        self._splits = AssignedSplits[FileSplit]()
        self._opened: dict[
            str, LineSource
        ] = {}  # the one under way; those that were paused on their way

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Append splits to those that are there."""
        for split in splits:
            assert isinstance(split, FileSplit), f"not a split of a file: {split}"
            self._splits.add(split)

    def fetch(self) -> RecordsWithSplitIds:
        """Read the next piece of the first split that is not paused; wait up to a second where there is none.

        Raises BadRecordError, DataLossError, and ConfigError or QueryFailedError of the file system.
        """
        active = self._splits.active()
        if active:
            return self._read(active[0])
        self._splits.wait(FETCH_S)
        return RecordsWithSplitIds()

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Pause or resume splits (FLIP-217); unknown ids are ignored."""
        self._splits.pause_or_resume(pause, resume)

    def wake_up(self) -> None:
        """End a `fetch` that waits."""
        self._splits.wake_up()

    def close(self) -> None:
        """Close what is open."""
        for lines in self._opened.values():
            lines.close()
        self._opened.clear()

    def _read(self, split: FileSplit) -> RecordsWithSplitIds:
        split_id = split.split_id
        if split.stop is not None and split.start >= split.stop:
            self._finish(split_id)
            return RecordsWithSplitIds(finished=frozenset({split_id}))
        lines = self._opened.get(split_id)
        if lines is None:
            lines = self._opened[split_id] = open_lines(self._folder, split)
        piece = lines.next_piece()
        where = lambda index: _where(split, line_position(piece, index))  # noqa: E731  of this piece
        lines_of_piece = split_lines(piece.data)
        decoded = self._decoder.decode(lines_of_piece, where)
        rows = self._decoder.complete(decoded.batch, split)
        if piece.last:
            self._finish(split_id)
        return RecordsWithSplitIds(
            batches=((split_id, rows),) if rows.num_rows else (),
            finished=frozenset({split_id}) if piece.last else frozenset(),
            positions={split_id: piece.end},
            skipped=decoded.skipped,
            read={split_id: len(lines_of_piece)},
            bad={split_id: _bad(piece, split, decoded.bad)} if decoded.bad else {},
            origins=(
                {split_id: LineOrigins(piece=piece, split=split, rows=decoded.kept)}
                if self._origins
                else {}
            ),
        )

    def _finish(self, split_id: str) -> None:
        self._splits.remove(split_id)
        lines = self._opened.pop(split_id, None)
        if lines is not None:
            lines.close()
