"""Spark Connect: why a session over it is refused, and what to do instead (docs/notebooks.md)."""

from __future__ import annotations

from penstock.catalog.errors import UnsupportedError

__all__ = ["refuse_connect"]

_MODULE = "pyspark.sql.connect."


def refuse_connect(spark: object) -> None:
    """Refuse a Spark Connect session. Raises UnsupportedError.

    Its Java process is elsewhere: no catalog can be published there, no checkpoint be read, no sink be prepared.
    """
    if type(spark).__module__.startswith(_MODULE):
        raise UnsupportedError(
            "this is a Spark Connect session, and Penstock needs the Spark that runs in its own process",
            hint="run penstock.connect() in the server's process: its Connect clients then read the published tables "
            "with spark.sql and spark.table; pipelines run with `penstock run`",
        )
