"""Lets `spark.readStream.table("orders")` follow a published table with its watermark.

Spark refuses to stream a view, and would know no watermark of Flink's. Its Python reader is therefore asked first
whether the name is one that a session has published; every other name, and every reader with options, goes its own way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sql.run.publishing import Published
    from penstock.sql.run.session import Session

__all__ = ["follow_published"]

_sessions: WeakKeyDictionary[Published, Session] = WeakKeyDictionary()
_plain_table = DataStreamReader.table


def follow_published(session: Session, published: Published) -> None:
    """Have the stream readers of the session's Spark find what is published, until that is closed."""
    _sessions[published] = session
    DataStreamReader.table = _table  # type: ignore[method-assign]


def _table(self: Any, tableName: str) -> DataFrame:  # noqa: N803  Spark's name, which may be used as a keyword
    found = _find(self._spark, tableName) if isinstance(tableName, str) else None
    if found is None:
        return _plain_table(self, tableName)
    session, name = found
    return session.stream(name)


def _find(spark: SparkSession, name: str) -> tuple[Session, str] | None:
    for published, session in list(_sessions.items()):
        if session.spark is spark or _jvm_session(session.spark) == _jvm_session(spark):
            identifier = published.find(name)
            if identifier is not None:
                return session, str(identifier)
    return None


def _jvm_session(spark: SparkSession) -> Any:
    """Give the session that a Python object stands for; there may be several objects for one."""
    return spark._jsparkSession  # noqa: SLF001
