"""Decide whether and how a session publishes its catalog (argument `publish`), and start it; called by `connect`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, did_you_mean
from penstock.sql.publish.entries import is_durable
from penstock.sql.publish.publisher import CatalogPublisher

__all__ = ["Publishing", "read_publishing", "start_publishing"]

log = logging.getLogger(__name__)


class Publishing(StrEnum):
    """What is published, and for how long.

    SESSION: everything, `information_schema` too, until the session stops. TABLES: the same, but of
    `information_schema` nothing about operations: options, functions, pipelines, checkpoints. DURABLE: what others can
    read too, permanently; for a Hive metastore. OFF: nothing.
    """

    SESSION = "session"
    TABLES = "tables"
    DURABLE = "durable"
    OFF = "off"


_INFORMATION: Mapping[Publishing | None, frozenset[str]] = {
    Publishing.SESSION: frozenset(),
    Publishing.TABLES: frozenset({"options", "functions", "pipelines", "checkpoints"}),
}
"""The tables of `information_schema` that are not published, where it is published at all."""


def read_publishing(text: str | None) -> Publishing | None:
    """Read the argument `publish`. Raises ConfigError."""
    if text is None:
        return None
    try:
        return Publishing(text)
    except ValueError:
        known = [choice.value for choice in Publishing]
        raise ConfigError(
            f"publish = {text!r}: it is one of {', '.join(map(repr, known))}",
            hint=did_you_mean(text, known),
        ) from None


def start_publishing(
    spark: SparkSession,
    namespace: Namespace,
    choice: Publishing | None,
    *,
    project: Path,
    catalog: str,
) -> CatalogPublisher | None:
    """Publish as asked; without a choice for the session, but not into a metastore that others share.

    There, names would come and go before everybody's eyes, for tables that only this process can read. `catalog` is
    the URL of the store. Raises CatalogError when the catalog cannot be read.
    """
    if choice is None and is_durable(spark):
        log.info(
            "this Spark keeps its catalog in a Hive metastore, so spark.sql does not see Penstock's tables; "
            "penstock.connect(spark, publish='session') shows them there until the session stops, "
            "publish='durable' shows Delta tables for good"
        )
        return None
    if choice is Publishing.OFF:
        return None
    # nine more tables for each session: for those that ask
    published = CatalogPublisher(
        spark,
        namespace,
        project,
        catalog=catalog,
        durable=choice is Publishing.DURABLE,
        information=choice in _INFORMATION,
        hidden=_INFORMATION.get(choice, frozenset()),
    )
    published.refresh()
    return published
