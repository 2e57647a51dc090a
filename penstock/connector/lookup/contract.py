"""The contract of lookup sources, for lookup joins (Flink's LookupTableSource).

The rows of a key are a function of the key: Spark calls it in its tasks, for an Arrow batch at a time, and
unnests the result (connector/spark/lookup.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.catalog.model.table import PhysicalColumn
from penstock.catalog.model.types import LogicalType

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupKey:
    """A column that is compared with a value of the other side, and the type in which both are compared."""

    column: str
    type: LogicalType


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimits:
    """What bounds a cache of lookups: rows, and times since a key's rows were fetched or last used; None is no bound.

    A key without rows counts as one row, if `missing` ones are remembered. (Flink's `max-rows` counts keys.)
    """

    max_rows: int | None = None
    after_write_ms: int | None = None
    after_access_ms: int | None = None
    missing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MissRetry:
    """Asking again for keys that no row has: `delay_ms` after each answer, `attempts` times at most.

    (Flink: RetryableLookupFunctionDelegator, with the hint LOOKUP.)
    """

    delay_ms: int
    attempts: int


class Lookup(Protocol):
    """Gives the rows of keys. It travels to the tasks as a value."""

    @property
    def columns(self) -> tuple[PhysicalColumn, ...]:
        """The columns of its rows."""

    def rows(self, parts: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Return the rows of each key, a list of structs: none where no row has the key, or a part of it is NULL.

        A tuple has an array for each part of the key. May block on I/O. Raises QueryFailedError, ConfigError.
        """


class LookupSource(Protocol):
    """An engine source that can be asked for the rows of keys, and need not be read whole."""

    def key_type(self, column: str, given: LogicalType) -> LogicalType | None:
        """Return the type in which a column is compared with a value of type `given`; None where it cannot be."""

    def lookup(
        self, keys: Sequence[LookupKey], columns: Sequence[str], retry: MissRetry | None = None
    ) -> Lookup:
        """Describe asking for rows by `keys`, and for these columns of them; `retry` is for keys without rows."""

    @property
    def lookup_cache(self) -> str:
        """Describe the cache of answers, for EXPLAIN."""
