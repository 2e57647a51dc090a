"""Spark's commands that clients may run, by their class, and what the guard has to check in each.

Nothing else is run. A new version of Spark or Delta may bring others: `tests/sql/serve/test_spark_commands.py` has a
list of all classes that begin like these, and fails when it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

__all__ = ["COMMANDS", "SETTINGS", "SHOWN_SETTINGS", "Target"]


class Target(Enum):
    """Where a command names its object."""

    NOTHING = auto()
    """It changes or shows nothing but its own session, or what everybody may see."""

    CHILD = auto()
    """In its children, resolved."""

    TABLE = auto()
    """In `table`, a name of the session catalog."""

    NAMED_TABLE = auto()
    """In `tableName`."""

    DATABASE = auto()
    """In `databaseName`."""

    SETTING = auto()
    RESET = auto()


COMMANDS: Mapping[str, Target] = {
    # queries that these explain or describe are analysed, and checked, when they run
    "ExplainCommand": Target.NOTHING,
    "DescribeQueryCommand": Target.NOTHING,
    "DescribeFunctionCommand": Target.NOTHING,
    "ShowFunctionsCommand": Target.NOTHING,
    "ShowCatalogsCommand": Target.NOTHING,
    "ShowCollationsCommand": Target.NOTHING,
    "ShowCurrentNamespaceCommand": Target.NOTHING,
    "ShowNamespacesCommand": Target.NOTHING,
    "SetCatalogAndNamespace": Target.CHILD,
    "SetNamespaceCommand": Target.NOTHING,
    "SetCatalogCommand": Target.NOTHING,
    "SetCommand": Target.SETTING,
    "ResetCommand": Target.RESET,
    "DescribeNamespace": Target.CHILD,
    "DescribeDatabaseCommand": Target.DATABASE,
    "ShowTables": Target.CHILD,
    "ShowTablesExtended": Target.CHILD,
    "ShowTablesCommand": Target.DATABASE,
    "ShowViews": Target.CHILD,
    "ShowViewsCommand": Target.DATABASE,
    "DescribeRelation": Target.CHILD,
    "DescribeRelationJsonCommand": Target.CHILD,
    "DescribeColumn": Target.CHILD,
    "DescribeTableCommand": Target.TABLE,
    "DescribeColumnCommand": Target.TABLE,
    "ShowColumns": Target.CHILD,
    "ShowColumnsCommand": Target.NAMED_TABLE,
    "ShowDeltaTableColumnsCommand": Target.CHILD,
    "ShowCreateTable": Target.CHILD,
    "ShowCreateTableCommand": Target.CHILD,
    "ShowPartitions": Target.CHILD,
    "ShowPartitionsCommand": Target.NAMED_TABLE,
    "ShowDeltaPartitionsCommand": Target.CHILD,
    "ShowTableProperties": Target.CHILD,
    "ShowTablePropertiesCommand": Target.TABLE,
}

SETTINGS = frozenset(
    {
        "spark.sql.adaptive.enabled",
        "spark.sql.ansi.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.crossJoin.enabled",
        "spark.sql.groupByOrdinal",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.mapKeyDedupPolicy",
        "spark.sql.orderByOrdinal",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
    }
)
"""What a client may SET: how its queries are read and run, nothing that names a class, a file or a catalog."""

SHOWN_SETTINGS = frozenset(
    {
        "-v",  # Spark's own settings alone, passwords masked
        "spark.sql.hive.metastore.version",
        "spark.sql.hive.version",
        "spark.sql.variable.substitute",
    }
)
"""What a client may ask for as well; other settings may hold passwords."""
