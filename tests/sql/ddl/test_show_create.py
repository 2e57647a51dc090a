"""SHOW CREATE writes what CREATE reads, for every table there can be."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from penstock.catalog.model.table import Table, View
from penstock.sql.ddl.show_create import show_create
from tests.catalog.definition_strategies import tables
from tests.sql.sql_objects import define


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_what_show_writes_is_read_back_as_the_same_table(table: Table) -> None:
    """Names, types, comments, keys and options of any shape."""
    assert define(show_create(table, redacted=False)) == table


def test_secrets_are_hidden_unless_asked_for() -> None:
    """What is shown by default goes to screens and logs."""
    sql = "CREATE TABLE t (a INT) WITH ('sasl.password' = 'hunter2', 'topic' = 'x')"
    table = define(sql)

    assert "hunter2" not in show_create(table)
    assert "'topic' = 'x'" in show_create(table)
    assert "hunter2" in show_create(table, redacted=False)


def test_a_view_reads_back_as_the_same_view() -> None:
    """With its columns and comment."""
    view = define("CREATE TEMPORARY VIEW `v w` (`a b`, c) COMMENT 'it''s' AS SELECT 1, 'x' || 'y'")

    assert isinstance(view, View)
    assert view.columns == ("a b", "c")
    assert define(show_create(view)) == view
