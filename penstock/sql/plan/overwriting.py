"""INSERT OVERWRITE: what may be overwritten, and by what. Bounded queries only, as in Flink."""

from __future__ import annotations

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.table import Table
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Connector
from penstock.connector.editing import Editor, EditorConnector
from penstock.sql.plan.analysed_query import AnalysedQuery
from penstock.sql.statements import InsertInto

__all__ = ["overwriting"]


def overwriting(
    statement: InsertInto, target: Table, query: AnalysedQuery, connector: Connector
) -> Editor:
    """Give what replaces the rows of the target. Raises UnsupportedError where rows only can be added."""
    if not isinstance(connector, EditorConnector):
        raise UnsupportedError(
            f"{target.identifier}: tables of the connector '{connector.name}' cannot be overwritten",
            hint="tables of delta and filesystem can; write INSERT INTO",
            span=statement.span,
        )
    what = "REPLACE TABLE ... AS" if statement.replaces else "INSERT OVERWRITE"
    endless = [str(leaf.table.identifier) for leaf in query.leaves if not leaf.bounded]
    if endless:
        raise UnsupportedError(
            f"{what} needs a query that ends, and {endless[0]} has no end",
            hint="give it one, FROM t /*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */; or add rows as "
            "they come: INSERT INTO, REFRESH_MODE = CONTINUOUS",
            span=statement.span,
        )
    if query.maintained is not None or query.changes is not ChangelogMode.INSERT_ONLY:
        raise UnsupportedError(
            f"{what} of a query whose rows are changes is not supported",
            hint="write INSERT INTO a table with a PRIMARY KEY",
            span=statement.span,
        )
    return connector.editor(target)
