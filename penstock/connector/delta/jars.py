"""The pinned jars that make Spark read and write Delta tables, as local files: Spark then starts without Ivy.

Only what Spark does not ship itself; its own Hadoop, Parquet and Jackson serve Delta too.
"""

from __future__ import annotations

from pathlib import Path

from penstock.connector.jvm.jars import JarSet, fetch_jars, read_jar_set

__all__ = ["delta_jar_set", "delta_jars"]


def delta_jar_set() -> JarSet:
    """Delta 4.4.0 for Spark 4.2."""
    return read_jar_set(Path(__file__).with_name("delta-spark.jars"))


def delta_jars() -> list[Path]:
    """Files for `spark.jars`, fetched on the first call on a machine. Raises RunError when they cannot be had."""
    return fetch_jars(delta_jar_set())
