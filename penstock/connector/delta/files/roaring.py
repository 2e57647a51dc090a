"""Sets of row positions as bytes: Roaring bitmaps in the portable form, as deletion vectors hold them.

`deletion_vector.py` calls it. The form is that of RoaringFormatSpec, an array of 32-bit bitmaps behind Delta's number.
Whole containers are read and written by numpy; there is no Python for a position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
"""Row positions in a file, from 0, in ascending order without doubles."""

MAGIC = 1_681_511_377
"""What Delta writes in front of a set (RoaringBitmapArray, portable)."""

_PLAIN_COOKIE = 12_346
_RUNS_COOKIE = 12_347
_BLOCK_BITS = 16
_BLOCK = 1 << _BLOCK_BITS
_ARRAY_MOST = 4_096
"""Values of a block that are a list of 16-bit numbers; more are a bitmap of 8 KiB."""
_BITMAP_BYTES = _BLOCK // 8
_OFFSETS_FROM = 4
"""A bitmap with runs has offsets of its containers when there are so many."""


def encode_positions(positions: Positions) -> bytes:
    """Write a set of positions."""
    spans = _spans(positions >> 32)
    parts = [struct.pack("<iq", MAGIC, len(spans))]
    for key, start, end in spans:
        parts += [struct.pack("<I", key), _encode_bitmap(positions[start:end] & 0xFFFF_FFFF)]
    return b"".join(parts)


def decode_positions(data: bytes) -> Positions:
    """Read what any writer of Delta wrote. Raises ValueError for other bytes."""
    try:
        magic, count = struct.unpack_from("<iq", data)
        if magic != MAGIC:
            raise ValueError(f"a set of positions begins with {magic}, not with {MAGIC}")
        parts, at = [], 12
        for _ in range(count):
            (key,) = struct.unpack_from("<I", data, at)
            values, at = _decode_bitmap(data, at + 4)
            parts.append(values + (key << 32))
    except struct.error as error:
        raise ValueError(f"a set of positions is cut off: {error}") from error
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _spans(keys: Positions) -> list[tuple[int, int, int]]:
    """Return the distinct values of ascending keys, where each begins, and where it ends."""
    found, starts = np.unique(keys, return_index=True)
    ends = np.append(starts, len(keys))[1:]
    return list(zip(found.tolist(), starts.tolist(), ends.tolist(), strict=True))


def _encode_bitmap(values: Positions) -> bytes:
    """Write 32-bit values as containers of arrays and bitmaps, without runs."""
    spans = _spans(values >> _BLOCK_BITS)
    low = (values & (_BLOCK - 1)).astype("<u2")
    containers = [_encode_block(low[start:end]) for _, start, end in spans]
    header = np.array([(key, end - start - 1) for key, start, end in spans], "<u2")
    sizes = np.array([0, *(len(container) for container in containers[:-1])], np.int64)
    first = 8 + 8 * len(spans)
    offsets = (first + np.cumsum(sizes)).astype("<u4")
    head = struct.pack("<II", _PLAIN_COOKIE, len(spans))
    return b"".join([head, header.tobytes(), offsets.tobytes(), *containers])


def _encode_block(low: npt.NDArray[np.uint16]) -> bytes:
    if len(low) <= _ARRAY_MOST:
        return low.tobytes()
    bits = np.zeros(_BLOCK, np.uint8)
    bits[low] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _decode_bitmap(data: bytes, at: int) -> tuple[Positions, int]:
    """Read a 32-bit bitmap; returns its values, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    if cookie == _PLAIN_COOKIE:
        (count,) = struct.unpack_from("<I", data, at + 4)
        at, runs = at + 8, np.zeros(count, bool)
        offsets = True
    elif cookie & 0xFFFF == _RUNS_COOKIE:
        count = (cookie >> 16) + 1
        flags = _array(data, at + 4, (count + 7) // 8, "u1")
        at, runs = at + 4 + len(flags), _bits(flags)[:count].astype(bool)
        offsets = count >= _OFFSETS_FROM
    else:
        raise ValueError(f"a bitmap begins with {cookie}")
    header = _array(data, at, 2 * count, "<u2").reshape(count, 2)
    at += 4 * count + (4 * count if offsets else 0)
    parts = []
    for key, most, run in zip(header[:, 0].tolist(), header[:, 1].tolist(), runs, strict=True):
        low, at = _decode_block(data, at, most + 1, run=bool(run))
        parts.append(low.astype(np.int64) + (key << _BLOCK_BITS))
    return (np.concatenate(parts) if parts else np.empty(0, np.int64)), at


def _decode_block(
    data: bytes, at: int, count: int, *, run: bool
) -> tuple[npt.NDArray[np.integer], int]:
    if run:
        (number,) = struct.unpack_from("<H", data, at)
        pairs = _array(data, at + 2, 2 * number, "<u2").astype(np.int64).reshape(number, 2)
        return _expanded(pairs), at + 2 + 4 * number
    if count <= _ARRAY_MOST:
        return _array(data, at, count, "<u2"), at + 2 * count
    bits = _bits(_array(data, at, _BITMAP_BYTES, "u1"))
    return np.flatnonzero(bits), at + _BITMAP_BYTES


def _expanded(pairs: Positions) -> Positions:
    """Return the values of runs: pairs of the first value and the number of those behind it."""
    lengths = pairs[:, 1] + 1
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    values: Positions = np.arange(total) + np.repeat(pairs[:, 0] - (ends - lengths), lengths)
    return values


def _bits(flags: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    return np.unpackbits(flags.astype(np.uint8), bitorder="little")


def _array(data: bytes, at: int, count: int, kind: str) -> npt.NDArray[np.integer]:
    try:
        return np.frombuffer(data, kind, count, at)
    except ValueError as error:
        raise ValueError(f"a set of positions is cut off: {error}") from error


def sorted_positions(parts: Iterator[Positions]) -> Positions:
    """Return the union of sets."""
    held = list(parts)
    return np.unique(np.concatenate(held)) if held else np.empty(0, np.int64)
