"""Decide what a sink that remembers its last batch does with the next: write, skip, or refuse it.

Spark runs the batches of a checkpoint in order, and repeats only the last one, with the same offsets. A sink that
writes the number of the batch together with its rows can tell a replay from an inconsistency: a checkpoint or a target
that was restored or copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError

if TYPE_CHECKING:
    from penstock.connector.contract import MicroBatch


_START_OVER = (
    "to start over, empty the target and run with --from-scratch, or SET another 'pipeline.name'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The newest batch of a writer that a target holds; `digest` is `MicroBatch.digest`."""

    batch_id: int
    digest: str


def is_written(last: LastBatch | None, batch: MicroBatch, digest: str, *, target: str) -> bool:
    """Return whether `target` holds the batch already.

    Raises StateMismatchError where going on would lose or double rows.
    """
    if last is None:
        # a sink among several may have come later
        if batch.batch_id > 0 and not batch.sink:
            raise StateMismatchError(
                f"{target} holds nothing of this pipeline, whose checkpoint is at batch {batch.batch_id}: "
                "it was emptied, or is another one",
                hint=f"restore it; or {_START_OVER}",
            )
        return False
    if last.batch_id > batch.batch_id:
        raise StateMismatchError(
            f"{target} holds batch {last.batch_id} of this pipeline, whose checkpoint is only at batch "
            f"{batch.batch_id}: it was restored from an older copy, or runs twice",
            hint=f"continue with the newer checkpoint; or {_START_OVER}",
        )
    if last.batch_id < batch.batch_id - 1:
        raise StateMismatchError(
            f"{target} holds this pipeline's batches to {last.batch_id}, and its checkpoint is at batch "
            f"{batch.batch_id}: it was restored from an older copy, and rows in between are gone",
            hint=f"restore target and checkpoint of the same time; or {_START_OVER}",
        )
    if last.batch_id < batch.batch_id:
        return False
    if last.digest != digest:
        raise StateMismatchError(
            f"{target} holds batch {batch.batch_id} of this pipeline with other offsets or of another query: the "
            "checkpoint was changed after the batch was written, or is a copy",
            hint=f"continue with the checkpoint that wrote it; or {_START_OVER}",
        )
    return True
