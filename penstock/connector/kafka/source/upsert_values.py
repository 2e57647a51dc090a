"""Decode the values of an upsert topic: a value replaces the row of its key, a tombstone deletes it.

Wraps the decoder of the value format. Flink's DynamicKafkaDeserializationSchema in upsert mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connector.changelog import RowKind
from penstock.connector.formats import Decoded, Decoder
from penstock.connector.formats.contract import Where
from penstock.connector.formats.count_only import batch_of
from penstock.connector.formats.error_collecting import collecting_errors

__all__ = ["Tombstones", "UpsertDecoder"]

Rows: TypeAlias = npt.NDArray[np.int64]


class Tombstones(Enum):
    """The row of a record without a value: one that deletes its key, or none."""

    DELETE = auto()
    LEAVE_OUT = auto()


class UpsertDecoder:
    """A Decoder of UPDATE_AFTER rows, and of DELETE rows in which every column is NULL."""

    def __init__(self, decoder: Decoder, tombstones: Tombstones) -> None:
        """`decoder` never sees a tombstone: of some formats that would be a row."""
        self._decoder = decoder
        self._tombstones = tombstones

    def gathering(self) -> UpsertDecoder:
        """Return a decoder that lists bad records and raises for none (`CollectsErrors`)."""
        return UpsertDecoder(collecting_errors(self._decoder), self._tombstones)

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch, see Decoder."""
        there = np.fromiter((value is not None for value in values), np.bool_, len(values))
        if there.all():
            decoded = self._decoder.decode(values, where)
            kinds = np.full(decoded.batch.num_rows, RowKind.UPDATE_AFTER, np.int8)
            return replace(decoded, kinds=kinds)
        present, gone = np.flatnonzero(there), np.flatnonzero(~there)
        decoded = self._decoder.decode(
            [values[index] for index in present.tolist()], lambda index: where(int(present[index]))
        )
        deleted = gone if self._tombstones is Tombstones.DELETE else gone[:0]
        return _among(decoded, present, deleted)


def _among(decoded: Decoded, present: Rows, deleted: Rows) -> Decoded:
    """Insert a row for each deletion among the rows of the values that are `present`, in the order of the records."""
    count = decoded.batch.num_rows
    kept = present if decoded.kept is None else present[decoded.kept]
    records = np.concatenate([kept, deleted])
    order = np.argsort(records, kind="stable")
    is_deletion = order >= count
    rows = pa.array(np.where(is_deletion, 0, order), mask=is_deletion)
    schema = pa.schema([field.with_nullable(True) for field in decoded.batch.schema])
    arrays = [column.take(rows) for column in decoded.batch.columns]
    kinds = np.where(is_deletion, RowKind.DELETE, RowKind.UPDATE_AFTER).astype(np.int8)
    return Decoded(
        batch=batch_of(arrays, schema, len(order)),
        kept=records[order],
        skipped=decoded.skipped,
        kinds=kinds,
        bad=tuple(replace(bad, index=int(present[bad.index])) for bad in decoded.bad),
    )
