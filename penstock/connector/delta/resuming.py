"""Asks Spark whether a Delta table goes with a checkpoint, and notes in the checkpoint which table it is.

The rule is `resumed.py`'s.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from penstock.connector.delta.failure import explained
from penstock.connector.delta.resumed import Found, Progress, judge, newest, note_of, note_path
from penstock.connector.delta.target import Target
from penstock.connector.spark.hadoop_files import list_names, read_text, replace_text
from penstock.connector.spark.micro_batch import saved_query_id

__all__ = ["check_resumes"]


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
    path = f"{checkpoint}/{note_path(target, sink)}"
    progress = Progress(
        planned=newest(list_names(spark, f"{checkpoint}/offsets")),
        committed=newest(list_names(spark, f"{checkpoint}/commits")),
    )
    known = note_of(read_text(spark, path), path)
    judge(known, found, progress, target.shown, commits_empty=commits_empty)
    if notes:
        replace_text(spark, path, json.dumps({"id": found.id, "version": found.version}))


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
