"""What a pipeline's transactions are called: ids and marker groups of its slots (reliability rules of exactly-once).

A name holds the query's id and the sink's table, so that no other query, and no other checkpoint, has the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

__all__ = ["SlotNames"]

SCOPE_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotNames:
    """The names of a sink's slots. `scope` tells query and sink apart from all others, in hex."""

    prefix: str
    scope: str

    @classmethod
    def of(cls, prefix: str, query_id: str, sink: str) -> SlotNames:
        """Name the slots of the query `query_id` that write into `sink`."""
        digest = hashlib.sha256(f"{query_id}\n{sink}".encode()).hexdigest()
        return cls(prefix=prefix, scope=digest[:SCOPE_DIGITS])

    def slot(self, slot: int) -> str:
        """Name a slot: its transactional.id, and the consumer group that holds its marker."""
        return f"{self.prefix}-{self.scope}-{slot}"
