"""Values of records in one Arrow array: a sequence whose items become Python objects only when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class ArrowValues(Sequence[bytes | None]):
    """Values, of which `lines` are the same with a newline behind each, if they came so."""

    def __init__(
        self, array: pa.BinaryArray | None = None, *, lines: pa.BinaryArray | None = None
    ) -> None:
        """Take the values, or lines alone: their values are copied when one is asked for."""
        there = lines if array is None else array
        assert there is not None, "values, or the lines of them"
        self._there: pa.BinaryArray = there
        self._given = array
        self.lines = lines

    @classmethod
    def of_lines(cls, lines: pa.BinaryArray) -> ArrowValues:
        """Return the values of lines, each of which ends with a newline."""
        return cls(lines=lines)

    @property
    def _array(self) -> pa.BinaryArray:
        if self._given is None:
            self._given = pc.binary_slice(self.lines, 0, -1)
        return self._given

    def __len__(self) -> int:
        return len(self._there)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> ArrowValues: ...
    def __getitem__(self, index: int | slice) -> bytes | ArrowValues | None:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        value: bytes | None = self._array[index].as_py()
        return value

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self._array.to_pylist())

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:  # noqa: A002  of pyarrow
        """Return the values; the array begins where its buffers do."""
        return self._array if type is None else self._array.cast(type)

    def present(self) -> Mask:
        """Return which values are there."""
        return np.asarray(self._there.is_valid())

    def filled(self) -> Mask:
        """Return which values have a byte."""
        return np.asarray(pc.fill_null(pc.binary_length(self._array), 0)) > 0

    def take(self, rows: Rows) -> ArrowValues:
        """Return the values of rows, copied: decoders rely on arrays that begin where their buffers do."""
        lines = None if self.lines is None else self.lines.take(pa.array(rows))
        return ArrowValues(self._array.take(pa.array(rows)), lines=lines)


def present(values: Sequence[bytes | None]) -> Mask:
    """Return which values are there."""
    if isinstance(values, ArrowValues):
        return values.present()
    return np.fromiter((value is not None for value in values), np.bool_, len(values))


def filled(values: Sequence[bytes | None]) -> Mask:
    """Return which values are there and not empty."""
    if isinstance(values, ArrowValues):
        return values.filled()
    return np.fromiter(map(bool, values), np.bool_, len(values))


def take(values: Sequence[bytes | None], rows: Rows) -> Sequence[bytes | None]:
    """Return the values of rows."""
    if isinstance(values, ArrowValues):
        return values.take(rows)
    return [values[row] for row in rows.tolist()]
