"""Settings that a Delta command takes from its session alone: set while it runs (`configured`), gone afterwards.

MERGE knows no options: the `txn` pair that makes it exactly once, and what goes into its commit, are session-wide
(DeltaSQLConf). So they are set on the session of the one query that runs the command, and unset whatever happens.
"""

from __future__ import annotations

__all__ = ["transaction_settings"]

APPLICATION = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def transaction_settings(application_id: str, version: int, note: str) -> dict[str, str]:
    """Give the settings by which the next command commits `txn(application_id, version)`, or does nothing if the table
    has that version or a later one; `note` becomes the commit's userMetadata.
    """
    return {APPLICATION: application_id, VERSION: str(version), USER_METADATA: note}
