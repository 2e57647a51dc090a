"""Check that a Delta table is the one that a checkpoint was written with: the rule, and its local inputs.

A table that was dropped and created again lacks what was written before; one restored from an older copy lacks
the last part. A batch shows neither: the query would continue after missing rows. So the first start notes the
table in the checkpoint (Delta's id of it, which a copy keeps), and each start notes its version and the query's last
batch in it, of upserts a run does, too. Of appends each batch is in the table, also one without rows; from which batch
on is noted, as a PRIMARY KEY may be dropped. `writer.py` asks Spark, which reads every file system, and writes the
notes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.definitions.federated import NotReachedError
from penstock.catalog.errors import StateMismatchError
from penstock.connector.delta.log import read_standing
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.storage import open_folder
from penstock.connector.urls import is_remote

FOLDER = "delta-sinks"
"""In the checkpoint, beside Spark's own: a file for each Delta table that is written."""

START_OVER = "start over, with --from-scratch or another 'pipeline.name'"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProgress:
    """How far a checkpoint is: the last batch whose offsets are written, the last that is done; None where none is."""

    planned: int | None
    committed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """What a table says of itself: Delta's id and version, and the query's last batch in it (`txn`), None for none."""

    id: str
    version: int
    written: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedTable(StoredTable):
    """What a checkpoint notes of a table. From the batch `each_from` on each one is a commit, also one without rows.

    None: none is, as of upserts. Notes of earlier releases do not say it, nor what was `written`.
    """

    each_from: int | None = 0


def check_resumes_here(
    target: DeltaTarget, checkpoint: Path, query: str | None, sink: str, *, commits_empty: bool
) -> None:
    """Check a table and a checkpoint in folders of this machine; writes nothing.

    `query` is the checkpoint's id, `sink` distinguishes the sinks of a query that has several. Raises
    StateMismatchError; NotReachedError for a table in an object store.
    """
    if is_remote(target.location):
        raise NotReachedError(f"only Spark reaches {target.shown}")
    found = read_standing(open_folder(target.location))
    if found is None:
        raise lost_table(target)
    application = f"{query}/{sink}" if sink else query
    written = None if application is None else found.transactions.get(application)
    note = note_path(target, sink)
    try:
        text = (checkpoint / note).read_text(encoding="utf-8")
    except FileNotFoundError:
        text = None
    compare_with_checkpoint(
        read_note(text, f"{checkpoint}/{note}"),
        StoredTable(id=found.id, version=found.version, written=written),
        CheckpointProgress(
            planned=newest_batch(_names(checkpoint / "offsets")),
            committed=newest_batch(_names(checkpoint / "commits")),
        ),
        target.shown,
        commits_empty=commits_empty,
    )


def compare_with_checkpoint(
    known: NotedTable | None,
    found: StoredTable,
    progress: CheckpointProgress,
    shown: str,
    *,
    commits_empty: bool,
) -> None:
    """Compare a table with what the checkpoint knows of it. Raises StateMismatchError.

    A batch of this query which the checkpoint has not planned would be passed over by Delta, whatever its rows are
    now. Spark plans a batch before it writes it, so none of this can come of a crash. `commits_empty`: a batch without
    rows is a commit, too.
    """
    since = first_of_each(known, progress, commits_empty=commits_empty)
    committed = -1 if progress.committed is None else progress.committed
    has_last = since is not None and committed >= since
    recreated = has_last and found.version == 0
    another = known is not None and known.id != found.id
    if progress.committed is not None and (recreated or another):
        what = "is empty" if recreated else "is not the one that the checkpoint knows"
        raise StateMismatchError(
            f"the Delta table at {shown} {what}, but its pipeline has written {progress.committed + 1} batches to it: "
            "it was removed, or is another one",
            hint=f"restore it; or {START_OVER}",
        )
    if known is not None and not another and found.version < known.version:
        raise StateMismatchError(
            f"the Delta table at {shown} is at version {found.version}, and was at {known.version} when its pipeline "
            "last noted it: it is an older copy",
            hint=f"put the newest one back; or {START_OVER}",
        )
    if has_last and found.written is not None and found.written < committed:
        raise StateMismatchError(
            f"the Delta table at {shown} has batch {found.written} of this query as its last one, but its pipeline has "
            f"committed batch {progress.committed}: it is an older copy",
            hint=f"put the newest one back; or {START_OVER}",
        )
    noted = None if known is None or another else known.written
    if noted is not None and found.written is not None and found.written < noted:
        raise StateMismatchError(
            f"the Delta table at {shown} has batch {found.written} of this query as its last one, and had batch "
            f"{noted} when its pipeline last noted it: it is an older copy, or was restored from one",
            hint=f"put the newest one back; or {START_OVER}",
        )
    planned = -1 if progress.planned is None else progress.planned
    if found.written is not None and found.written > planned:
        at = "has planned none" if progress.planned is None else f"is only at batch {planned}"
        raise StateMismatchError(
            f"the Delta table at {shown} has batch {found.written} of this query, and its checkpoint {at}: it is an "
            "older copy, or was restored from one",
            hint=f"continue with the newest checkpoint; or {START_OVER}",
        )


def first_of_each(
    known: NotedTable | None, progress: CheckpointProgress, *, commits_empty: bool
) -> int | None:
    """Return the batch from which on each one is a commit; None where none without rows is (`commits_empty`).

    Behind upserts that is the first batch which a start adds.
    """
    if not commits_empty:
        return None
    if known is None:
        return 0
    if known.each_from is not None:
        return known.each_from
    return 0 if progress.committed is None else progress.committed + 1


def lost_table(target: DeltaTarget) -> StateMismatchError:
    """Make the error for a table that is not there.

    Delta would make a new one, without NOT NULL, partitions and all rows before the checkpoint.
    """
    return StateMismatchError(
        f"the Delta table at {target.shown} is gone",
        hint="restore it; or start over with --from-scratch, which sets the checkpoint aside",
    )


def replaced_table(target: DeltaTarget) -> StateMismatchError:
    """Make the error for a table that was removed and made again while its pipeline was running."""
    return StateMismatchError(
        f"the Delta table at {target.shown} is another one than when its pipeline was started: it was removed and "
        "created again, without the rows that were written before",
        hint=f"restore it; or {START_OVER}",
    )


def note_path(target: DeltaTarget, sink: str) -> str:
    """Name the file in the checkpoint that says which table is written."""
    name = hashlib.sha256(f"{sink}\n{target.table.identifier}".encode()).hexdigest()[:16]
    return f"{FOLDER}/{name}"


def read_note(text: str | None, path: str) -> NotedTable | None:
    """Read what was noted; None where nothing was, as before the first start and in earlier releases."""
    try:
        return None if text is None else NotedTable(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise StateMismatchError(
            f"the file {path} does not say which Delta table was written",
            hint=f"restore the checkpoint from a backup; or {START_OVER}",
        ) from error


def newest_batch(names: Iterable[str]) -> int | None:
    """Return the last batch of a log by the names of its files."""
    return max((int(name) for name in names if name.isdigit()), default=None)


def _names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()] if folder.is_dir() else []
