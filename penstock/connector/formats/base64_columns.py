"""A column of base64 texts as a column of bytes: whole arrays at a time, as a lookup in numpy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.connector.formats.json_lines import Mask

__all__ = ["read_base64"]

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BAD = 64
_SIXES = np.full(256, _BAD, np.uint8)
_SIXES[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64)


def read_base64(texts: pa.StringArray) -> tuple[pa.Array, Mask]:
    """Decode texts of whole groups of four, padded at the end only; others are marked (and NULL)."""
    null = np.asarray(texts.is_null())
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    padding = _padding(data, offsets, lengths)
    usual = (lengths % 4 == 0) & ~null
    usual[usual] = ~_has_other_characters(data, offsets, padding, usual)
    # characters of the usual texts, one after the other: their groups of four stay aligned
    chosen = np.repeat(usual, lengths)
    sixes = _SIXES[data[offsets[0] : offsets[-1]][chosen]].astype(np.uint32) & 63
    groups = sixes.reshape(-1, 4)
    packed = (groups[:, 0] << 18) | (groups[:, 1] << 12) | (groups[:, 2] << 6) | groups[:, 3]
    octets = np.stack([packed >> 16, packed >> 8, packed], axis=1).astype(np.uint8).reshape(-1)
    sizes = np.where(usual, lengths // 4 * 3, 0)
    ends = np.cumsum(sizes)
    keep = np.ones(len(octets), np.bool_)
    for count in (1, 2):
        keep[ends[usual & (padding >= count)] - count] = False
    results = np.concatenate(([0], np.cumsum(sizes - np.where(usual, padding, 0))))
    column = pa.BinaryArray.from_buffers(
        pa.binary(),
        len(texts),
        [
            pa.py_buffer(np.packbits(usual, bitorder="little").tobytes()),
            pa.py_buffer(results.astype(np.int32).tobytes()),
            pa.py_buffer(octets[keep].tobytes()),
        ],
    )
    return column, ~usual & ~null


def _padding(data: np.ndarray, offsets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Count the `=` at the end of each text: 0, 1 or 2."""
    padding = np.zeros(len(lengths), np.int64)
    for count in (1, 2):
        at = np.where(lengths >= count, offsets[1:] - count, 0)
        is_pad = (lengths >= 4) & (padding == count - 1)
        if len(data):
            padding += is_pad & (data[at] == ord("="))
    return padding


def _has_other_characters(
    data: np.ndarray, offsets: np.ndarray, padding: np.ndarray, usual: np.ndarray
) -> Mask:
    """Tell which of the usual texts hold, padding aside, a character that is not base64's."""
    counts = np.concatenate(([0], np.cumsum(_SIXES[data] == _BAD)))
    begin, end = offsets[:-1][usual], offsets[1:][usual] - padding[usual]
    return np.asarray(counts[end] > counts[begin])
