"""What decoders of changes have in common: envelopes are read, sorted out by their operations, and made rows of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connector.arrow import arrow_schema
from penstock.connector.formats.change_rows import Operation, Operations, operations_of
from penstock.connector.formats.contract import Decoded, Fields, Where
from penstock.connector.formats.envelopes import EnvelopeReader, Envelopes, Fact, Fault
from penstock.connector.formats.without_columns import batch_of

__all__ = ["EnvelopeDecoder", "EnvelopeRows", "Indexes"]

Indexes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeRows:
    """The rows of a batch: the envelope that each is of, its RowKind, and the columns of the fields."""

    envelopes: Indexes
    kinds: npt.NDArray[np.int8]
    columns: Sequence[pa.Array]


class EnvelopeDecoder(ABC):
    """A Decoder of changes. What tells nothing of a row, such as a tombstone or DDL, gives none and is not counted."""

    def __init__(
        self,
        reader: EnvelopeReader,
        fields: Fields,
        facts: Mapping[str, Fact],
        operation: str,
        operations: Mapping[str, Operation],
    ) -> None:
        """`facts` are the metadata columns behind those of `fields`, `operations` the values of field `operation`."""
        self._reader = reader
        self._facts = tuple(facts.values())
        self._operation = operation
        self._operations = operations
        self._schema = arrow_schema([*fields, *((name, fact.type) for name, fact in facts.items())])

    def gathering(self) -> Self:
        """Give a decoder that lists bad records and raises for none (`Gathers`)."""
        gathers = copy(self)
        gathers._reader = self._reader.gathering()  # noqa: SLF001  of this class
        return gathers

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch, see Decoder."""
        envelopes = self._reader.read(values, where)
        operations = operations_of(envelopes.columns[self._operation], self._operations)
        faults = self._faults(envelopes, operations, values)
        found = self._reader.sort_out(envelopes, faults, values, where)
        good = np.where(found.good, operations, np.int8(Operation.NOTHING))
        rows = self._rows(envelopes, good, values)
        taken = pa.array(rows.envelopes)
        facts = [envelopes.fact(fact).take(taken) for fact in self._facts]
        return Decoded(
            batch=batch_of([*rows.columns, *facts], self._schema, len(rows.envelopes)),
            kept=envelopes.records[rows.envelopes],
            skipped=found.skipped,
            kinds=rows.kinds,
            bad=found.bad,
        )

    @abstractmethod
    def _faults(
        self, envelopes: Envelopes, operations: Operations, values: Sequence[bytes | None]
    ) -> list[Fault]:
        """Tell what is wrong with envelopes, the gravest first."""

    @abstractmethod
    def _rows(
        self, envelopes: Envelopes, operations: Operations, values: Sequence[bytes | None]
    ) -> EnvelopeRows:
        """Make the rows of the operations; NOTHING gives none."""
