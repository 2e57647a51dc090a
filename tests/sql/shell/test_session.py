"""Tests for the shell's statements that need no Spark."""

from __future__ import annotations

from pathlib import Path

from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.execution.context import SessionContext, open_names
from penstock.sql.runner.summary import StatementResult
from penstock.sql.script.project import Project
from penstock.sql.shell.session import Screen, ShellSession


def test_information_schema_is_looked_at_without_spark(project: Path) -> None:
    """Tables are created and listed in a shell that never started it."""
    ended: list[StatementResult] = []
    session = ShellSession(
        project=Project(root=project),
        context=SessionContext(
            namespace=open_names(SqlCatalog(f"sqlite:///{project}/catalog.db"), project),
            project=project,
        ),
        variables={},
        spark_conf={},
        master="nowhere",  # which Spark would refuse
        screen=Screen(say=lambda _: None, ended=ended.append, rows=lambda *_: None),
    )

    session.run("CREATE TABLE orders (id BIGINT) WITH ('connector' = 'delta', 'path' = 'orders')")
    session.run("SELECT table_name, connector FROM information_schema.tables")
    session.close()

    assert ended[-1].rows is not None
    assert ended[-1].rows.columns == ("table_name", "connector")
    assert ended[-1].rows.rows == (("orders", "delta"),)
