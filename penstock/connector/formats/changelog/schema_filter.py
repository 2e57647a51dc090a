"""Filter records by two or three of their fields (schema, table) before anything else is decoded.

A topic may hold the changes of many tables: the columns of the others need not match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connector.formats.changelog.envelopes import STRING
from penstock.connector.formats.contract import Decoded, Decoder, Where
from penstock.connector.formats.error_collecting import collecting_errors
from penstock.connector.formats.json.decoder import JsonDecoder
from penstock.connector.formats.json.lines import Mask
from penstock.connector.formats.json.options import JsonSettings

__all__ = ["SchemaFilterDecoder"]


class SchemaFilterDecoder:
    """A Decoder of the records in which every field of `included` matches its pattern as a whole."""

    def __init__(self, decoder: Decoder, included: Mapping[str, re.Pattern[str]]) -> None:
        """`decoder` gets those records, and what is no record at all, which is for it to tell."""
        self._decoder = decoder
        self._included = included
        self._fields = JsonDecoder(
            [(field, STRING) for field in included],
            JsonSettings(ignore_parse_errors=True, explode_arrays=False),
        )

    def gathering(self) -> SchemaFilterDecoder:
        """Return a decoder that lists bad records and raises for none (`CollectsErrors`)."""
        return SchemaFilterDecoder(collecting_errors(self._decoder), self._included)

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch, see Decoder. Records that are not included are not counted."""
        chosen = np.flatnonzero(~self._of_others(values, where))
        if len(chosen) == len(values):
            return self._decoder.decode(values, where)
        decoded = self._decoder.decode(
            [values[index] for index in chosen.tolist()], lambda index: where(int(chosen[index]))
        )
        return replace(
            decoded,
            kept=chosen if decoded.kept is None else chosen[decoded.kept],
            bad=tuple(replace(bad, index=int(chosen[bad.index])) for bad in decoded.bad),
        )

    def _of_others(self, values: Sequence[bytes | None], where: Where) -> Mask:
        decoded = self._fields.decode(values, where)
        rows = np.arange(len(values)) if decoded.kept is None else decoded.kept
        fits = np.ones(len(rows), np.bool_)
        for column, pattern in zip(decoded.batch.columns, self._included.values(), strict=True):
            fits &= _matches(column, pattern)
        others = np.zeros(len(values), np.bool_)
        others[rows[~fits]] = True
        return others


def _matches(column: pa.Array, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Match each text once."""
    texts = column.dictionary_encode()
    found = [pattern.fullmatch(text) is not None for text in texts.dictionary.to_pylist()]
    return np.asarray(pa.array(found, pa.bool_()).take(texts.indices).fill_null(False))
