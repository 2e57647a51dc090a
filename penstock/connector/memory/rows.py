"""What tables in memory hold: Arrow tables by name, with the last batch of each query that wrote them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["clear", "held"]

_POSITION = "__position"


@dataclass(slots=True)
class Held:
    """The rows of one name; any thread. `batches`: the last micro-batch of each application id that is in them."""

    rows: pa.Table | None = None
    batches: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def has(self, application_id: str, batch_id: int) -> bool:
        """Tell whether a batch was written already."""
        return self.batches.get(application_id, -1) >= batch_id

    def append(self, rows: pa.Table) -> None:
        """Add rows behind those that are there."""
        self.rows = rows if self.rows is None else pa.concat_tables([self.rows, rows])

    def replace(self, touched: pa.Table, rows: pa.Table) -> None:
        """Take away the rows whose key is in `touched`, which has the columns of the key alone, and add `rows`."""
        if self.rows is not None and touched.num_rows:
            # Acero joins no nested columns, so the positions of what stays are joined
            keys: Sequence[str] = touched.column_names
            numbers = pa.array(range(self.rows.num_rows), pa.int64())
            numbered = self.rows.select(keys).append_column(_POSITION, numbers)
            stays = numbered.join(touched, list(keys), join_type="left anti")
            self.rows = self.rows.take(stays.sort_by(_POSITION).column(_POSITION))
        self.append(rows)


_HELD: dict[str, Held] = {}
_LOCK = threading.Lock()


def held(name: str) -> Held:
    """Give the rows under a name; nothing yet where none were written."""
    with _LOCK:
        return _HELD.setdefault(name, Held())


def clear() -> None:
    """Forget all tables in memory."""
    with _LOCK:
        _HELD.clear()
