"""Which batches of a query a Delta table holds, and with what content: told by the notes in its commits.

Delta passes over a batch that it has (`txn`), whatever the batch's rows are now. A checkpoint that was restored from
an older copy, or lost its newest files, plans other offsets under the same batch id, and their rows would vanish
without a word. So each commit notes the batch's digest, and a batch that comes again has to have the same one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from penstock.catalog.errors import StateMismatchError
from penstock.connector.delta.failure import explained
from penstock.connector.delta.table import Target
from penstock.connector.spark.hadoop_files import list_names, read_text
from penstock.connector.spark.micro_batch import MicroBatch

__all__ = ["WrittenBatches", "check_goes_on", "note_of", "noted_batches"]

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
class WrittenBatches:
    """The batches of this process's queries that one table is known to hold: digests by application id and batch."""

    _known: dict[str, dict[int, str]] = field(default_factory=dict)

    @contextmanager
    def writing(self, target: Target, batch: MicroBatch) -> Iterator[str | None]:
        """Frame the writing of a batch: gives its digest, or None if the table has the batch.

        Raises StateMismatchError when the table has it with another content.
        """
        digest = batch.digest()
        # what a failure leaves behind is in the table or not: look again
        known = self._known.pop(batch.application_id, None)
        if known is None:
            known = _in_history(target, batch)
        there = known.get(batch.batch_id)
        if there not in (None, digest):
            raise StateMismatchError(
                f"the Delta table at {target.shown} has batch {batch.batch_id} of this query, with other rows than "
                "the checkpoint has for it now",
                hint="put the newest checkpoint and the former query back, or begin anew with another checkpoint",
            )
        yield None if there is not None else digest
        known[batch.batch_id] = digest
        self._known[batch.application_id] = {
            number: of for number, of in known.items() if number >= batch.batch_id
        }


def check_goes_on(spark: SparkSession, target: Target, checkpoint: str) -> None:
    """Check that a table holds what a checkpoint says was appended to it, and nothing that comes later.

    For appends by Spark's own sink, which note no digest. Raises StateMismatchError for a table that was made anew,
    and for one that has a batch of this query which the checkpoint has not planned: Delta would pass over that batch,
    whatever its rows are now. Spark plans a batch before it writes it, so neither can come of a crash.
    """
    metadata = read_text(spark, f"{checkpoint}/metadata")
    planned = _newest(list_names(spark, f"{checkpoint}/offsets"))
    if metadata is None or planned is None:
        return
    jvm = spark._jvm  # noqa: SLF001  Delta has no other way to ask for a table's transactions
    assert jvm is not None, "Delta needs a classic Spark session"
    with explained(target.shown):
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
            spark._jsparkSession,  # noqa: SLF001
            target.location,
        )
        snapshot = log.unsafeVolatileSnapshot()
        written = snapshot.transactions().get(json.loads(metadata)["id"])
    committed = _newest(list_names(spark, f"{checkpoint}/commits"))
    if committed is not None and snapshot.version() == 0:
        raise StateMismatchError(
            f"the Delta table at {target.shown} is empty, but its pipeline has written {committed + 1} batches to it: "
            "it was removed, or is another one",
            hint=f"restore it; or begin anew, with --from-scratch or without the checkpoint {checkpoint}",
        )
    if written.isDefined() and written.get() > planned:
        raise StateMismatchError(
            f"the Delta table at {target.shown} has batch {written.get()} of this query, and the checkpoint "
            f"{checkpoint} is only at batch {planned}: it is an older copy, or was restored from one",
            hint="go on with the newest checkpoint; or begin anew, with --from-scratch or another pipeline.name",
        )


def _newest(names: Iterable[str]) -> int | None:
    return max((int(name) for name in names if name.isdigit()), default=None)


def _in_history(target: Target, batch: MicroBatch) -> dict[int, str]:
    with explained(target.shown):
        history = DeltaTable.forPath(batch.spark, target.location).history(LOOK_BACK)
        notes = [row["userMetadata"] for row in history.select("userMetadata").collect()]
    return noted_batches(notes, batch.application_id)
