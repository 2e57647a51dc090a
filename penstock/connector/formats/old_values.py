"""Which columns an update changed, where the record lists the old values of those only (Canal, Maxwell).

A column that is not listed has its new value; one that is listed as null was NULL. Parsed JSON columns tell the two
apart nowhere, so that the texts of the records decide where it matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.formats.json_lines import Mask
from penstock.connector.formats.json_text import parse

__all__ = ["old_is_listed"]

FIELD = "old"


def old_is_listed(
    old: Sequence[pa.Array],
    new: Sequence[pa.Array],
    names: Sequence[str],
    updates: Mask,
    text: Callable[[int], bytes],
    place: Callable[[int], int | None],
) -> list[Mask]:
    """Tell for each column, and each event among `updates`, whether the record lists its old value.

    `old` and `new` are columns, `names` theirs in the records. `text(i)` is the record of event `i`, `place(i)` its
    place in the list of old values (None: there is one). Elsewhere than at updates the answer is no.
    """
    listed = [updates & np.asarray(column.is_valid()) for column in old]
    # NULL beside NULL is the same, listed or not
    unclear = [
        updates & ~known & np.asarray(column.is_valid())
        for known, column in zip(listed, new, strict=True)
    ]
    asked = np.flatnonzero(np.logical_or.reduce(unclear)) if unclear else np.empty(0, np.int64)
    for event in _with_null(asked, names, text).tolist():
        values = parse(text(event)).get(FIELD)
        at = place(event)
        found: dict[str, Any] = values if at is None else values[at]
        for known, name in zip(listed, names, strict=True):
            known[event] |= name in found
    return listed


def _with_null(
    events: npt.NDArray[np.int64], names: Sequence[str], text: Callable[[int], bytes]
) -> npt.NDArray[np.int64]:
    """Choose the events whose records may list one of the columns as null: some of them do not."""
    if not len(events):
        return events
    # behind the field, the column's name and null; or anything written as an escape, or in UTF-16
    null_in_old = rf'"{FIELD}"[\s\S]*"({"|".join(map(re.escape, names))})"\s*:\s*null|\\|\x00'
    texts = pa.array([text(event) for event in events.tolist()], pa.binary())
    may: Mask = np.asarray(pc.match_substring_regex(texts, null_in_old))
    return events[may]
