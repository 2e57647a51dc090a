"""Which releases of Spark and Delta Penstock runs on: those that its tests ran on, and others when told to.

Guards, published names and exactly-once rest on what these releases do inside; another one may differ without a word.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError

__all__ = ["OVERRIDE", "TESTED_DELTA", "TESTED_SPARK", "check_releases", "check_versions"]

TESTED_SPARK = ("4.2.0",)
TESTED_DELTA = ("4.4.0",)

OVERRIDE = "PENSTOCK_UNTESTED_VERSIONS"
"""The variable that lets other releases pass when it is 1; each start says so."""

logger = logging.getLogger(__name__)


def check_versions(spark: SparkSession) -> None:
    """Check the releases behind a session. Raises ConfigError for one that was not tested, without the override."""
    check_releases(spark.version, _delta_version(spark))


def check_releases(spark: str, delta: str | None) -> None:
    """Check releases by name; None is a Delta that does not tell its own. Raises ConfigError."""
    untested = [
        f"{product} {found or 'of an unknown version'} (tested: {', '.join(tested)})"
        for product, found, tested in (
            ("Spark", spark, TESTED_SPARK),
            ("Delta", delta, TESTED_DELTA),
        )
        if found not in tested
    ]
    if not untested:
        return
    named = " and ".join(untested)
    if os.environ.get(OVERRIDE) == "1":
        logger.warning(
            "%s: Penstock was not tested with it, and %s=1 lets it pass", named, OVERRIDE
        )
        return
    raise ConfigError(
        f"Penstock was not tested with {named}",
        hint=f"install pyspark=={TESTED_SPARK[-1]} and Delta {TESTED_DELTA[-1]}; or set {OVERRIDE}=1: what Penstock "
        "promises (exactly once, read-only serving) is then not promised",
    )


def _delta_version(spark: SparkSession) -> str | None:
    """Ask Delta for its release; its package object has it since 3.0."""
    jvm: Any = spark._jvm  # noqa: SLF001  PySpark has no public way to its JVM
    try:
        return str(jvm.io.delta.package.VERSION())
    except Exception:  # noqa: BLE001  py4j has its own errors for a class that is not there
        return None
