"""Settings that a Delta command takes from its session alone, set while it runs and gone afterwards.

MERGE knows no options: the `txn` pair that makes it exactly once, and what goes into its commit, are session-wide
(DeltaSQLConf). So they are set on the session of the one query that runs the command, and unset whatever happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

__all__ = ["session_settings", "transaction_settings"]

APPLICATION = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def transaction_settings(application_id: str, version: int, note: str) -> dict[str, str]:
    """Give the settings by which the next command commits `txn(application_id, version)`, or does nothing if the table
    has that version or a later one; `note` becomes the commit's userMetadata.
    """
    return {APPLICATION: application_id, VERSION: str(version), USER_METADATA: note}


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set what `settings` says, for a while; then everything is as it was."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, was in before.items():
            if was is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, was)
