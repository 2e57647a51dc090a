"""The records of one fetch as columns: what `Records` are without an object for each record."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.formats.values import ArrowValues
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.client.draining import HeaderColumns, RecordColumns
from penstock.connector.source.records import RawRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRecords:
    """Records of a fetch, those of one partition in a run: `runs` are (partition, number of records)."""

    runs: tuple[tuple[TopicPartition, int], ...]
    parts: tuple[RecordColumns, ...]
    all_values: ArrowValues

    @classmethod
    def of(cls, drained: Mapping[TopicPartition, RecordColumns], *, lines: bool) -> ColumnRecords:
        """Concatenate the records of several partitions; each has some. `lines`: their values are lines."""
        parts = tuple(drained.values())
        values = _joined([columns.values for columns in parts])
        return cls(
            runs=tuple((partition, len(columns.values)) for partition, columns in drained.items()),
            parts=parts,
            all_values=ArrowValues.of_lines(values) if lines else ArrowValues(values),
        )

    def __len__(self) -> int:
        return len(self.all_values)

    def values(self) -> Sequence[bytes | None]:
        """Return the values."""
        return self.all_values

    def keys(self) -> Sequence[bytes | None]:
        """Return the keys, which were asked for."""
        return ArrowValues(_joined([part.keys for part in self.parts]))

    def offsets(self) -> pa.Array:
        """Return the offsets."""
        return _joined([part.offsets for part in self.parts])

    def timestamps(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Return (type, ms) of each record; they were asked for."""
        kinds = _joined([part.timestamp_types for part in self.parts])
        times = _joined([part.timestamps for part in self.parts])
        return np.column_stack((np.asarray(kinds).astype(np.int64), np.asarray(times)))

    def leader_epochs(self) -> pa.Array:
        """Return the leader epochs; they were asked for."""
        epochs = _joined([part.leader_epochs for part in self.parts])
        return pc.if_else(pc.less(epochs, 0), pa.scalar(None, pa.int32()), epochs)

    def headers(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return where each record's headers begin, their names and values; they were asked for."""
        found = [_headers(part) for part in self.parts]
        begins = accumulate((len(headers.names) for headers in found), initial=0)
        ends = [np.zeros(1, np.int32)]
        ends += [
            np.asarray(headers.ends)[1:] + np.int32(begin)
            for headers, begin in zip(found, begins, strict=False)
        ]
        names = _texts(_joined([headers.names for headers in found]))
        values = _joined([headers.values for headers in found])
        return pa.array(np.concatenate(ends)), names, values

    def where(self, index: int) -> str:
        """Name a record in an error."""
        partition, part, row = self._at(index)
        offset = part.offsets[row].as_py()
        return f"topic {partition.topic}, partition {partition.partition}, offset {offset}"

    def raw(self, index: int) -> RawRecord:
        """Return a record as the broker has it; all of it was asked for."""
        partition, part, row = self._at(index)
        assert part.keys is not None, "a record as a whole has its key"
        assert part.timestamps is not None, "and its time"
        assert part.timestamp_types is not None, "with the type of that"
        headers = _headers(part)
        begin, end = headers.ends[row].as_py(), headers.ends[row + 1].as_py()
        names = _texts(headers.names.slice(begin, end - begin)).to_pylist()
        values = headers.values.slice(begin, end - begin).to_pylist()
        timed = part.timestamp_types[row].as_py() != 0
        return RawRecord(
            position=part.offsets[row].as_py(),
            key=part.keys[row].as_py(),
            value=self.all_values[index],
            where=self.where(index),
            topic=partition.topic,
            partition=partition.partition,
            timestamp_ms=part.timestamps[row].as_py() if timed else None,
            headers=tuple(zip(names, values, strict=True)),
        )

    def _at(self, index: int) -> tuple[TopicPartition, RecordColumns, int]:
        """Return the partition of a record, its columns, and its row there."""
        begins = list(accumulate((count for _, count in self.runs), initial=0))
        run = bisect_right(begins, index) - 1
        return self.runs[run][0], self.parts[run], index - begins[run]


def _headers(part: RecordColumns) -> HeaderColumns:
    assert part.headers is not None, "headers were asked for"
    return part.headers


def _texts(names: pa.BinaryArray) -> pa.StringArray:
    """Return names of headers; what is not UTF-8 in them is U+FFFD, as with Java's client."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [name.decode("utf-8", "replace") for name in names.to_pylist()]
        return pa.array(texts, pa.string())


def _joined(arrays: Sequence[pa.Array | None]) -> pa.Array:
    """Concatenate; one array alone is not copied."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
