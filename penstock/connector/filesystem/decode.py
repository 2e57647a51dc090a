"""Lines to Arrow batches: what the format decodes, beside the columns that a file has one value for."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.catalog.schema import ComputedColumn, MetadataColumn, PhysicalColumn
from penstock.connector.arrow import arrow_field
from penstock.connector.contract import ReadRequest
from penstock.connector.filesystem.metadata import metadata_value
from penstock.connector.filesystem.split import FileSplit
from penstock.connector.filesystem.table import FilesystemTable
from penstock.connector.formats import Decoded
from penstock.connector.formats.contract import Where
from penstock.connector.formats.gathering import gathering
from penstock.connector.formats.without_columns import rows_without_columns

__all__ = ["LineDecoder"]


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
        self._decoder = gathering(decoder) if table.settings.bad_records.leaves_out else decoder

    def decode(self, lines: Sequence[bytes], where: Where) -> Decoded:
        """Decode what the lines themselves hold. Raises BadRecordError naming the line by `where`.

        A table that leaves out bad records has them listed in `Decoded.bad` instead.
        """
        return self._decoder.decode(lines, where)

    def complete(self, rows: pa.RecordBatch, split: FileSplit) -> pa.RecordBatch:
        """Give decoded rows of one file all columns, in the order asked for. Raises BadRecordError."""
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
