"""From operations on rows to changes of rows: an insert or delete is one row, an update two, in the order of events.

What all formats of changes do with the operations they found; no JSON here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.changelog import RowKind

__all__ = ["ChangeRows", "Operation", "Operations", "change_rows", "images", "operations_of"]


class Operation(IntEnum):
    """What an event says happened to a row. UNKNOWN: not said, or nothing that is known; NOTHING: to no row."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    UNKNOWN = 3
    NOTHING = 4


Operations = npt.NDArray[np.int8]
"""Values of Operation, one an event."""

# by operation: how many rows it gives, and the kind of the first of them
_ROWS = np.array([1, 2, 1, 0, 0])
_FIRST = np.array([RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE, 0, 0], np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRows:
    """Rows to make: of which event each is, whether it is the image after the event or before, and its RowKind."""

    events: npt.NDArray[np.int64]
    after: npt.NDArray[np.bool_]
    kinds: npt.NDArray[np.int8]


def operations_of(texts: pa.Array, names: Mapping[str, Operation]) -> Operations:
    """Read operations by their names; what has no name there is UNKNOWN."""
    codes = np.array([*names.values(), Operation.UNKNOWN], np.int8)
    found = pc.index_in(texts, pa.array(list(names), pa.string()))
    indexes: npt.NDArray[np.int32] = np.asarray(found.fill_null(len(names)))
    return codes[indexes]


def change_rows(operations: Operations) -> ChangeRows:
    """Tell the rows of events, in their order; the row before an update comes before the row after it."""
    events = np.repeat(np.arange(len(operations)), _ROWS[operations])
    second = np.zeros(len(events), np.bool_)
    second[1:] = events[1:] == events[:-1]
    of_rows = operations[events]
    kinds = np.where(second, np.int8(RowKind.UPDATE_AFTER), _FIRST[of_rows])
    return ChangeRows(events=events, after=second | (of_rows == Operation.INSERT), kinds=kinds)


def images(before: pa.Array, after: pa.Array, rows: ChangeRows) -> pa.Array:
    """Make a column of the rows from its values before and after each event."""
    if len(rows.events) == len(after) and rows.after.all():  # a snapshot: inserts only
        return after
    chosen = rows.events + len(before) * rows.after
    return pa.concat_arrays([before, after]).take(pa.array(chosen))
