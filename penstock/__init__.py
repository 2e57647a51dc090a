"""Penstock: Flink-style SQL tables and SQL files on Spark.

The life of a statement, folder by folder: `sql` turns text into typed statements and plans, `connector`
reads and writes tables, `catalog` keeps their definitions. Dependencies point in that order, never back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.sql.session.session import Session

__version__ = "0.1.0"

__all__ = ["__version__", "connect"]


def connect(
    spark: Any = None,
    catalog: str | None = None,
    *,
    publish: str | None = None,
    **conf: str,
) -> Session:
    """Open a session: the catalog's tables and Flink SQL on `spark` (a new local Spark when None).

    `catalog` is a SQLAlchemy URL (default: `.penstock/catalog.db` of the project); `conf` are Spark settings.
    `publish` says how long `spark.sql` finds the catalog's tables: 'session' until the session stops ('tables': without
    options and operations in `information_schema`), 'durable' for good (Delta tables, in a Hive metastore), 'off'
    never. Without it: 'session' without `information_schema`, but 'off' on a Hive metastore.
    """
    from penstock.sql.session.session import connect as open_session

    return open_session(spark, catalog, publish=publish, **conf)
