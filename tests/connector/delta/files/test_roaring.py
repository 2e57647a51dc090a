"""Sets of positions as bytes, in the form that Delta's readers take."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.delta.files.roaring import MAGIC, decode_positions, encode_positions

SOME = st.sets(st.integers(0, 1 << 34), max_size=300)
RUNS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 9_000)), max_size=6)


@given(SOME, RUNS)
def test_what_is_written_is_read_again(single: set[int], runs: list[tuple[int, int]]) -> None:
    """Few, many, beyond 32 bits, and next to each other: containers of both kinds."""
    parts = [np.array(sorted(single), np.int64), *(np.arange(a, a + n) for a, n in runs)]
    positions = np.unique(np.concatenate(parts))

    assert decode_positions(encode_positions(positions)).tolist() == positions.tolist()


def test_the_form_is_the_portable_one() -> None:
    """Delta's number, one bitmap, its cookie, the header of a container, its offset, its values."""
    written = encode_positions(np.array([1, 70_000, 70_001]))

    assert written == b"".join(
        [
            struct.pack("<iqI", MAGIC, 1, 0),
            struct.pack("<II", 12_346, 2),
            struct.pack("<HHHH", 0, 0, 1, 1),
            struct.pack("<II", 24, 26),
            struct.pack("<HHH", 1, 4_464, 4_465),
        ]
    )


def test_runs_of_other_writers_are_read() -> None:
    """Spark writes runs where they are shorter; offsets stand in front of four containers or more."""
    three = struct.pack("<IBHHHH", 12_347 | 1 << 16, 0b01, 0, 9, 2, 0)
    three += struct.pack("<HHHHH", 2, 5, 3, 100, 5) + struct.pack("<H", 7)
    head = struct.pack("<iqI", MAGIC, 1, 0)

    expected = [5, 6, 7, 8, *range(100, 106), (2 << 16) + 7]
    assert decode_positions(head + three).tolist() == expected

    four = struct.pack("<IB", 12_347 | 3 << 16, 0b1000)
    four += b"".join(struct.pack("<HH", key, 0) for key in range(3)) + struct.pack("<HH", 3, 2)
    four += struct.pack("<IIII", 0, 0, 0, 0) + struct.pack("<HHH", 1, 2, 3)
    four += struct.pack("<HHH", 1, 10, 2)
    found = decode_positions(head + four)
    assert found.tolist() == [1, 65_538, 131_075, *range(196_618, 196_621)]


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 12, encode_positions(np.array([1, 2]))[:-1], struct.pack("<iqI", MAGIC, 1, 0)],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    """What is cut off or of another form is no set."""
    with pytest.raises(ValueError, match=r"begins with|cut off"):
        decode_positions(data)
