"""The marker of a slot: the last batch it wrote, as a committed offset; and the slot's transactional id (rule 5)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from penstock.catalog.errors import StateMismatchError

__all__ = ["BatchCommit", "Marker", "SlotNames", "may_write"]

SCOPE_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotNames:
    """The names of a sink's slots. `scope` identifies query and sink, in hex."""

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


VERSION = "v1"

_START_ANEW = "to start over, SET another 'pipeline.name'; rows that are in the topic stay there"

_REPAIR = (
    "`penstock kafka transactions repair` sets it again (docs/exactly-once.md says when it may)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A slot's marker: every batch before `next_batch` is written; `digest` and `rows` are those of the last one.

    `digest` is None for a marker that was set by hand: it names the next batch, and nothing about the last one.
    """

    next_batch: int
    rows: int = 0
    digest: str | None = None

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> Marker:
        """Read a committed offset and its metadata."""
        parts = (metadata or "").split(";")
        if len(parts) == 4 and parts[0] == VERSION and parts[2].isdigit():
            return cls(next_batch=offset, rows=int(parts[2]), digest=parts[3])
        return cls(next_batch=offset)

    @property
    def metadata(self) -> str:
        """The text beside the offset, far below the broker's limit of 4096 bytes."""
        return f"{VERSION};{self.next_batch - 1};{self.rows};{self.digest or ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommit:
    """A slot's part of a batch that is to be written. `first_batch` is the first that this sink ever had.

    `sparse`: the sink is not given every batch, and whether a marker that is missing may have been forgotten was
    decided before (`gapped_batches.py`).
    """

    slot: str
    batch_id: int
    first_batch: int
    digest: str
    sparse: bool = False


def may_write(claim: BatchCommit, found: Marker | None) -> bool:
    """Return whether the slot's rows have to be written; False: they are written already.

    Raises StateMismatchError where the marker fits no batch that this query could be at.
    """
    what = f"slot '{claim.slot}', batch {claim.batch_id}"
    if found is None:
        if claim.sparse or claim.batch_id == claim.first_batch:
            return True
        raise StateMismatchError(
            f"{what}: the marker of the batch before is lost, so it is unknown whether this batch is in the topic",
            hint="the consumer group of that name was deleted, its topic was made again, or the pipeline was "
            f"stopped for longer than the broker's offsets.retention.minutes; {_REPAIR}; or {_START_ANEW}",
        )
    if found.next_batch == claim.batch_id or (claim.sparse and found.next_batch < claim.batch_id):
        return True
    if found.next_batch == claim.batch_id + 1:
        if found.digest == claim.digest:
            return False
        raise StateMismatchError(
            f"{what}: another batch of this number is in the topic (its digest is {found.digest}, this one's "
            f"{claim.digest}): the checkpoint was copied or restored, or the query was changed before it went on",
            hint=f"continue with the checkpoint and the query that wrote it; or {_START_ANEW}",
        )
    if found.next_batch > claim.batch_id:
        raise StateMismatchError(
            f"{what}: the topic has batch {found.next_batch - 1} of this query already: another runner is ahead, "
            "or the checkpoint is an older copy",
            hint=f"stop the other runner, or continue with its checkpoint; or {_START_ANEW}",
        )
    raise StateMismatchError(
        f"{what}: the topic's last batch in this slot is {found.next_batch - 1}, and batch {claim.batch_id - 1} is "
        "missing there: the number of slots or the prefix was changed, or the marker was set back",
        hint=f"{_REPAIR}; or {_START_ANEW}",
    )
