"""Retry lookups of keys without rows, since a dimension row may arrive after its reference (hint LOOKUP).

A batch waits once for all of its keys, so a retry costs one delay and one query however many keys have no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from penstock.connector.lookup.contract import MissRetry
from penstock.connector.lookup.keyed_rows import NONE, Numbers

__all__ = ["Ask", "Wait", "rows_with_retry"]

Ask = Callable[[Sequence[pa.Array]], tuple[pa.Table, Numbers]]
"""Gives the rows of distinct keys, an array for each of their parts, and the number of each row's key, or NONE."""

Wait = Callable[[float], None]
"""Waits for so many seconds."""


def rows_with_retry(
    ask: Ask, keys: Sequence[pa.Array], *, retry: MissRetry | None, wait: Wait
) -> tuple[pa.Table, Numbers]:
    """Return the rows of keys as `ask` does; it is asked again for those without rows,
    `retry.attempts` times at most.
    """
    rows, numbers = ask(keys)
    if retry is None:
        return rows, numbers
    count = len(keys[0])
    for _ in range(retry.attempts):
        missing = np.setdiff1d(np.arange(count), numbers)
        if not len(missing):
            break
        wait(retry.delay_ms / 1000)
        more, found = ask([part.take(pa.array(missing)) for part in keys])
        among = found != NONE
        found[among] = missing[found[among]]
        rows, numbers = pa.concat_tables([rows, more]), np.concatenate([numbers, found])
    return rows, numbers
