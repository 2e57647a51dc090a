"""The batches of a query in a Delta table, with the digest of their content, from the notes in its commits.

Delta skips a batch that it has (`txn`), whatever its rows are now. A checkpoint that was restored from an older
copy, or lost its newest files, plans other offsets under the same batch id, and their rows would be lost
silently. So each commit notes the batch's digest, and a repeated batch must have the same one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from delta.tables import DeltaTable

from penstock.catalog.errors import StateMismatchError
from penstock.connector.contract import MicroBatch
from penstock.connector.delta.errors import translate_errors
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.spark.sink.micro_batch import batch_digest

__all__ = ["CommittedBatches", "note_of", "noted_batches"]

NOTE = "penstock"
LOOK_BACK = 100
"""So many commits are looked at when a query begins; a batch that lies further back is left to Delta's `txn`."""


def note_of(batch: MicroBatch, digest: str) -> str:
    """Write what a commit says of its batch (Delta's userMetadata)."""
    value = {"application": batch.application_id, "batch": batch.batch_id, "digest": digest}
    return json.dumps({NOTE: value})


def noted_batches(notes: Iterable[str | None], application_id: str) -> dict[int, str]:
    """Read the digests of a query's batches, by batch id, from the notes of commits; others' are passed over."""
    found: dict[int, str] = {}
    for text in notes:
        try:
            value = json.loads(text or "{}")[NOTE]
            if value["application"] == application_id:
                found[int(value["batch"])] = str(value["digest"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


@dataclass(slots=True)
class CommittedBatches:
    """The batches of this process's queries that one table is known to hold: digests by application id and batch."""

    _known: dict[str, dict[int, str]] = field(default_factory=dict)

    @contextmanager
    def writing(self, target: DeltaTarget, batch: MicroBatch) -> Iterator[str | None]:
        """Surround the writing of a batch: yields its digest, or None if the table has the batch.

        Raises StateMismatchError when the table has it with another content.
        """
        digest = batch_digest(batch)
        # what a failure leaves behind is in the table or not: look again
        known = self._known.pop(batch.application_id, None)
        if known is None:
            known = _in_history(target, batch)
        there = known.get(batch.batch_id)
        if there not in (None, digest):
            raise StateMismatchError(
                f"the Delta table at {target.shown} has batch {batch.batch_id} of this query, with other rows than "
                "the checkpoint has for it now",
                hint="put the newest checkpoint and the former query back, or start over with another checkpoint",
            )
        yield None if there is not None else digest
        known[batch.batch_id] = digest
        self._known[batch.application_id] = {
            number: of for number, of in known.items() if number >= batch.batch_id
        }


def _in_history(target: DeltaTarget, batch: MicroBatch) -> dict[int, str]:
    with translate_errors(target.shown):
        history = DeltaTable.forPath(batch.spark, target.location).history(LOOK_BACK)
        notes = [row["userMetadata"] for row in history.select("userMetadata").collect()]
    return noted_batches(notes, batch.application_id)
