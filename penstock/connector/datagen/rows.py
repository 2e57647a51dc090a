"""Makes ranges of datagen rows as Arrow batches, with the columns asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.connector.arrow import arrow_field
from penstock.connector.datagen.generators import make_column
from penstock.connector.datagen.settings import DatagenSettings
from penstock.connector.formats.without_columns import batch_of

__all__ = ["RowMaker"]


class RowMaker:
    """Makes rows with `columns`, in this order."""

    def __init__(self, columns: Sequence[str], settings: DatagenSettings) -> None:
        fields = {field.name: field for field in settings.fields}
        self._fields = [fields[name] for name in columns]
        self._schema = pa.schema([arrow_field(field.name, field.type) for field in self._fields])
        self._settings = settings

    def make(self, start: int, stop: int) -> pa.RecordBatch:
        """Make the rows numbered [`start`, `stop`)."""
        rows = np.arange(start, stop, dtype=np.int64)
        arrays = [
            make_column(
                field,
                rows,
                rows_per_second=self._settings.rows_per_second,
                number_of_rows=self._settings.number_of_rows,
            )
            for field in self._fields
        ]
        return batch_of(arrays, self._schema, len(rows))
