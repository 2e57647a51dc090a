"""What a format is: its options, its checks, and a decoder of batches. Protocols and values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.options import Option, Resolved
from penstock.catalog.types import LogicalType

__all__ = ["Decoded", "Decoder", "Fields", "Format", "Where"]

Fields: TypeAlias = Sequence[tuple[str, LogicalType]]
"""Names and types of columns, in order."""

Where: TypeAlias = Callable[[int], str]
"""Names a record, by its position in the batch, for people: "topic orders, partition 3, offset 1234"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The rows of some records.

    `kept[i]` is the position, among the values given, of the record that row `i` came from; it never falls, and
    repeats where one record holds several rows. None: row `i` is record `i`. `skipped` counts the records that
    gave less than they should: tombstones, empty values, and bad records that the options told to leave out.
    """

    batch: pa.RecordBatch
    kept: npt.NDArray[np.int64] | None = None
    skipped: int = 0


class Decoder(Protocol):
    """Decodes batches of one format into fixed columns. Made once a reader; not for several threads at a time."""

    def decode(self, values: Sequence[bytes | None], where: Where) -> Decoded:
        """Decode one batch; a bad record never costs a good one its row.

        Raises BadRecordError for the first bad record, unless the format's options say to skip them.
        """


class Format(Protocol):
    """A kind of bytes, found by name. `prefix` is "" for `format`, else "key." or "value."."""

    @property
    def identifier(self) -> str:
        """The name in the options `format`, `key.format` and `value.format`."""

    def options(self, prefix: str = "") -> tuple[Option[Any], ...]:
        """Give the descriptors of the format's options, with full keys ("value.json.ignore-parse-errors")."""

    def check(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> None:
        """Check options and all the columns that the format is to fill. Raises OptionError or DefinitionError."""

    def skips_bad_records(self, resolved: Resolved, *, prefix: str = "") -> bool:
        """Tell whether the options say to leave out bad records."""

    def decoder(self, fields: Fields, resolved: Resolved, *, prefix: str = "") -> Decoder:
        """Make a decoder of `fields`: the columns asked for, which may be fewer than were checked, or none.

        With no columns nothing is decoded: every value that is there gives a row, even one that is no valid
        record (a COUNT(*) must not pay for columns that nobody reads).
        """
