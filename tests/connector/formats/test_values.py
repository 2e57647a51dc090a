"""Values in an Arrow array are a sequence of bytes, whatever they came as."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.formats.json.lines import to_lines
from penstock.connector.formats.values import ArrowValues, filled, present, take

some_values = st.lists(st.none() | st.binary(max_size=4), max_size=20)


def both(values: list[bytes | None]) -> list[ArrowValues]:
    """As an array, and as one of lines."""
    lines = [None if value is None else value + b"\n" for value in values]
    return [
        ArrowValues(pa.array(values, pa.binary())),
        ArrowValues.of_lines(pa.array(lines, pa.binary())),
    ]


@given(values=some_values, begin=st.integers(-5, 25), end=st.integers(-5, 25))
def test_they_are_a_sequence(values: list[bytes | None], begin: int, end: int) -> None:
    """Items, slices, and what decoders ask of them."""
    for found in both(values):
        assert list(found) == values
        assert [found[i] for i in range(len(found))] == values
        assert list(found[begin:end]) == values[begin:end]
        assert list(present(found)) == list(present(values))
        assert list(filled(found)) == list(filled(values))
        assert pa.array(found, pa.binary()).to_pylist() == values
        assert to_lines(found).equals(to_lines(values))


@given(values=some_values, data=st.data())
def test_rows_of_them_begin_where_their_buffers_do(
    values: list[bytes | None], data: st.DataObject
) -> None:
    """The decoder of `raw` takes the bytes of numbers from the buffer."""
    rows = data.draw(st.lists(st.integers(0, len(values) - 1))) if values else []
    indexes = np.array(rows, np.int64)
    for found in both(values):
        taken = take(found, indexes)
        array = pa.array(taken, pa.binary())

        assert list(taken) == take(values, indexes) == [values[row] for row in rows]
        assert array.offset == 0
        assert (array.buffers()[2] or b"")[: sum(map(len, filter(None, taken)))] == b"".join(
            filter(None, taken)
        )
        assert to_lines(taken).equals(to_lines([values[row] for row in rows]))
