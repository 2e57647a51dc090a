"""Decoders around those of formats: batches without columns, as for COUNT(*), and decoding past bad records.

A bad record returns no row and is listed, so that each record fails alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from penstock.catalog.errors import BadRecordError
from penstock.connector.formats.contract import BadValue, Decoded, Decoder, Where
from penstock.connector.formats.values import filled


def batch_of(arrays: Sequence[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Make a batch of columns, which there may be none of, with `count` rows."""
    if not len(schema):
        return rows_without_columns(count)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_without_columns(count: int) -> pa.RecordBatch:
    """Return `count` rows of no columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def count_values(values: Sequence[bytes | None]) -> Decoded:
    """Return a row for each value; tombstones and empty values have none, and are counted.

    A value that the format could not decode, or that holds several rows, counts as one row all the same.
    """
    there = filled(values)
    if there.all():
        return Decoded(batch=rows_without_columns(len(values)))
    kept = np.flatnonzero(there)
    batch = rows_without_columns(len(kept))
    return Decoded(batch=batch, kept=kept, skipped=len(values) - len(kept))


@runtime_checkable
class CollectsErrors(Protocol):
    """A decoder that can skip bad records by itself."""

    def gathering(self) -> Decoder:
        """Return a decoder of the same records that lists bad ones in `Decoded.bad` and raises for none."""


@runtime_checkable
class ReadsNatively(Protocol):
    """A decoder that can read by the optional package `penstock-native`."""

    def natively(self, package: ModuleType) -> Decoder:
        """Return a decoder of the same records that does, as far as the package reads them alike."""


@runtime_checkable
class TakesValues(Protocol):
    """A decoder that may take values as they are; all others read lines (`ArrowValues.lines`)."""

    @property
    def takes_values(self) -> bool:
        """Whether it does: then a newline behind each value would have to be cut off again."""


def takes_lines(decoder: Decoder) -> bool:
    """Return whether values are to come with a newline behind each."""
    return not (isinstance(decoder, TakesValues) and decoder.takes_values)


def collecting_errors(decoder: Decoder) -> Decoder:
    """Return a decoder that lists bad records in `Decoded.bad` and raises for none; `skipped` counts them too."""
    return (
        decoder.gathering()
        if isinstance(decoder, CollectsErrors)
        else BisectingDecoder(decoder=decoder)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectingDecoder:
    """Decodes with a decoder that raises for a bad record. One among n costs about 2 log n calls."""

    decoder: Decoder

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch; a record that cannot be decoded alone is listed."""
        try:
            return self.decoder.decode(values, where)
        except BadRecordError as error:
            if len(values) == 1:
                return self._left_out(_reason(error, where(0)))
        middle = len(values) // 2
        first = self.decode(values[:middle], where)
        second = self.decode(values[middle:], lambda index: where(middle + index))
        return _joined(first, second, middle)

    def _left_out(self, reason: str) -> Decoded:
        return Decoded(
            batch=self.decoder.decode([], lambda _: "").batch,
            kept=np.empty(0, np.int64),
            skipped=1,
            bad=(BadValue(index=0, error=reason),),
        )


def _reason(error: BadRecordError, where: str) -> str:
    """Return an error's text without the record's place and its beginning, which are kept beside it."""
    return error.message.removeprefix(f"{where}: ").partition("; the record is ")[0]


def _joined(first: Decoded, second: Decoded, middle: int) -> Decoded:
    """Concatenate the rows of two halves; the second begins with record `middle`."""
    kinds = None
    if first.kinds is not None or second.kinds is not None:
        kinds = np.concatenate([_kinds(first), _kinds(second)])
    return Decoded(
        batch=pa.concat_batches([first.batch, second.batch]),
        kept=np.concatenate([_kept(first), _kept(second) + middle]),
        skipped=first.skipped + second.skipped,
        kinds=kinds,
        bad=(*first.bad, *(replace(bad, index=bad.index + middle) for bad in second.bad)),
    )


def _kept(decoded: Decoded) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(decoded.batch.num_rows) if decoded.kept is None else decoded.kept


def _kinds(decoded: Decoded) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.zeros(decoded.batch.num_rows, np.int8) if decoded.kinds is None else decoded.kinds
