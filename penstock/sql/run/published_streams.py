"""Lets `spark.readStream.table("orders")` follow a published table with its watermark.

Spark refuses to stream a view, and would know no watermark of Flink's. Its Python reader is therefore asked first
whether the name is one that a session has published; every other name, and every reader with options, goes its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from penstock.sql.run.publishing import Published

__all__ = ["follow_published"]

_Followed = tuple[SparkSession, Callable[[str], DataFrame]]
"""Spark's session that a catalog was published to, and what follows a table by its whole name."""

_followed: WeakKeyDictionary[Published, _Followed] = WeakKeyDictionary()
_plain_table = DataStreamReader.table


def follow_published(
    spark: SparkSession, published: Published, stream: Callable[[str], DataFrame]
) -> None:
    """Have Spark's stream readers find what is published, until that is closed; `stream` follows a table by name."""
    _followed[published] = (spark, stream)
    DataStreamReader.table = _table  # type: ignore[method-assign]


def _table(self: Any, tableName: str) -> DataFrame:  # noqa: N803  Spark's name, which may be used as a keyword
    found = _find(self._spark, tableName) if isinstance(tableName, str) else None
    if found is None:
        return _plain_table(self, tableName)
    stream, name = found
    return stream(name)


def _find(spark: SparkSession, name: str) -> tuple[Callable[[str], DataFrame], str] | None:
    for published, (other, stream) in list(_followed.items()):
        if other is spark or _jvm_session(other) == _jvm_session(spark):
            identifier = published.find(name)
            if identifier is not None:
                return stream, str(identifier)
    return None


def _jvm_session(spark: SparkSession) -> Any:
    """Give the session that a Python object stands for; there may be several objects for one."""
    return spark._jsparkSession  # noqa: SLF001
