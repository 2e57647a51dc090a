"""Random values as functions of a row's number: NumPy columns that any process generates again alike."""

from __future__ import annotations

import zlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

RowNumbers: TypeAlias = npt.NDArray[np.int64]

Bits: TypeAlias = npt.NDArray[np.uint64]


def bits_of(purpose: str, rows: RowNumbers) -> Bits:
    """Return 64 random bits for each row; those of another purpose are others."""
    seed = zlib.crc32(purpose.encode())
    return mixed(rows.astype(np.uint64) ^ np.uint64(seed << 32 | seed))


def mixed(numbers: Bits) -> Bits:
    """Spread numbers over 64 bits."""
    with np.errstate(over="ignore"):
        spread = numbers * np.uint64(0x9E3779B97F4A7C15)
        spread = (spread ^ (spread >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        spread = (spread ^ (spread >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return spread ^ (spread >> np.uint64(31))


def share(bits: Bits) -> npt.NDArray[np.float64]:
    """Make shares in [0, 1) of bits."""
    return (bits >> np.uint64(11)).astype(np.float64) * np.float64(2.0**-53)


def within(bits: Bits, low: int, high: int) -> RowNumbers:
    """Make integers of [low, high], which fit 64 bits."""
    span = high - low + 1
    bounded = bits if span == 1 << 64 else bits % np.uint64(span)
    with np.errstate(over="ignore"):
        return (bounded + np.uint64(low & (1 << 64) - 1)).view(np.int64)
