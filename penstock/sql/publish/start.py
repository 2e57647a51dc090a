"""Decide whether and how a session publishes its catalog (argument `publish`), and start it.

Spark refuses to stream a view and knows no watermark of Flink's. Its Python stream reader therefore first asks
whether a session has published the name; every other name, and every reader with options, is left to Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, did_you_mean
from penstock.connector.spark.internals import java_session, reader_session
from penstock.sql.publish.entries import is_durable
from penstock.sql.publish.publisher import CatalogPublisher

__all__ = ["Publishing", "follow_published", "read_publishing", "start_publishing"]

_Followed = tuple[SparkSession, Callable[[str], DataFrame]]
"""Spark's session that a catalog was published to, and what follows a table by its whole name."""

_followed: WeakKeyDictionary[CatalogPublisher, _Followed] = WeakKeyDictionary()

_plain_table = DataStreamReader.table


def follow_published(
    spark: SparkSession, published: CatalogPublisher, stream: Callable[[str], DataFrame]
) -> None:
    """Make published names visible to Spark's stream readers until closed; `stream` follows a table by name."""
    _followed[published] = (spark, stream)
    DataStreamReader.table = _table  # type: ignore[method-assign]


def _table(self: Any, tableName: str) -> DataFrame:  # noqa: N803  Spark's name, which may be used as a keyword
    found = _find(reader_session(self), tableName) if isinstance(tableName, str) else None
    if found is None:
        return _plain_table(self, tableName)
    stream, name = found
    return stream(name)


def _find(spark: SparkSession, name: str) -> tuple[Callable[[str], DataFrame], str] | None:
    for published, (other, stream) in list(_followed.items()):
        if other is spark or java_session(other) == java_session(spark):
            identifier = published.find(name)
            if identifier is not None:
                return stream, str(identifier)
    return None


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
    stream: Callable[[str], DataFrame],
) -> CatalogPublisher | None:
    """Publish as asked; without a choice for the session, but not into a metastore that others share.

    There, names would come and go before everybody's eyes, for tables that only this process can read. `catalog` is
    the URL of the store, `stream` follows a table by its name. Raises CatalogError when the catalog cannot be read.
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
    follow_published(spark, published, stream)
    return published
