"""Whether a Delta table is the one that a checkpoint was written with, asked before a query goes on.

A table that was removed and made anew lacks what was written before; one that was put back from an older copy lacks
the last of it. Neither shows in a batch: the query would go on behind rows that are gone. So the first start notes in
the checkpoint which table it is (Delta's id of it, which a copy keeps), and each start how far the table had come.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from penstock.catalog.errors import StateMismatchError
from penstock.connector.delta.failure import explained
from penstock.connector.delta.target import Target
from penstock.connector.spark.hadoop_files import list_names, read_text, replace_text
from penstock.connector.spark.micro_batch import saved_query_id

__all__ = ["FOLDER", "Found", "Progress", "check_resumes", "judge"]

FOLDER = "delta-sinks"
"""In the checkpoint, beside Spark's own: a file for each Delta table that is written."""

_ANEW = "begin anew, with --from-scratch or another 'pipeline.name'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a checkpoint is: the last batch whose offsets are written, the last that is done; None where none is."""

    planned: int | None
    committed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a table says of itself: Delta's id and version, and the query's last batch in it (`txn`), None for none."""

    id: str
    version: int
    written: int | None = None


def check_resumes(
    spark: SparkSession,
    target: Target,
    checkpoint: str,
    sink: str,
    *,
    commits_empty: bool,
    notes: bool = True,
) -> None:
    """Check that a table goes with a checkpoint. Raises StateMismatchError.

    `sink` tells the sinks of a query that has several apart. `commits_empty`: a batch without rows is a commit, too.
    `notes`: the checkpoint is told which table it is.
    """
    query = saved_query_id(spark, checkpoint)
    application = f"{query}/{sink}" if sink else query
    found = _found(spark, target, application)
    name = hashlib.sha256(f"{sink}\n{target.table.identifier}".encode()).hexdigest()[:16]
    path = f"{checkpoint}/{FOLDER}/{name}"
    progress = Progress(
        planned=_newest(list_names(spark, f"{checkpoint}/offsets")),
        committed=_newest(list_names(spark, f"{checkpoint}/commits")),
    )
    judge(_known(spark, path), found, progress, target.shown, commits_empty=commits_empty)
    if notes:
        replace_text(spark, path, json.dumps({"id": found.id, "version": found.version}))


def judge(
    known: Found | None, found: Found, progress: Progress, shown: str, *, commits_empty: bool
) -> None:
    """Compare a table with what the checkpoint knows of it. Raises StateMismatchError.

    A batch of this query which the checkpoint has not planned would be passed over by Delta, whatever its rows are
    now. Spark plans a batch before it writes it, so none of this can come of a crash.
    """
    anew = commits_empty and found.version == 0
    another = known is not None and known.id != found.id
    if progress.committed is not None and (anew or another):
        what = "is empty" if anew else "is not the one that the checkpoint knows"
        raise StateMismatchError(
            f"the Delta table at {shown} {what}, but its pipeline has written {progress.committed + 1} batches to it: "
            "it was removed, or is another one",
            hint=f"restore it; or {_ANEW}",
        )
    if known is not None and not another and found.version < known.version:
        raise StateMismatchError(
            f"the Delta table at {shown} is at version {found.version}, and was at {known.version} when its pipeline "
            "was last started: it is an older copy",
            hint=f"put the newest one back; or {_ANEW}",
        )
    planned = -1 if progress.planned is None else progress.planned
    if found.written is not None and found.written > planned:
        at = "has planned none" if progress.planned is None else f"is only at batch {planned}"
        raise StateMismatchError(
            f"the Delta table at {shown} has batch {found.written} of this query, and its checkpoint {at}: it is an "
            "older copy, or was restored from one",
            hint=f"go on with the newest checkpoint; or {_ANEW}",
        )


def _found(spark: SparkSession, target: Target, application: str | None) -> Found:
    jvm = spark._jvm  # noqa: SLF001  Delta has no other way to ask for a table's transactions
    assert jvm is not None, "Delta needs a classic Spark session"
    with explained(target.shown):
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
            spark._jsparkSession,  # noqa: SLF001
            target.location,
        )
        none = jvm.scala.Option.empty()
        # what is in memory may be older than what other processes wrote
        snapshot = log.update(False, none, none)
        written = None
        if application is not None:
            version = snapshot.transactions().get(application)
            written = version.get() if version.isDefined() else None
        return Found(id=snapshot.metadata().id(), version=snapshot.version(), written=written)


def _known(spark: SparkSession, path: str) -> Found | None:
    """Read what an earlier start noted; None where there was none, as before this was noted."""
    text = read_text(spark, path)
    try:
        return None if text is None else Found(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise StateMismatchError(
            f"the file {path} does not say which Delta table was written",
            hint=f"restore the checkpoint from a backup; or {_ANEW}",
        ) from error


def _newest(names: Iterable[str]) -> int | None:
    return max((int(name) for name in names if name.isdigit()), default=None)
