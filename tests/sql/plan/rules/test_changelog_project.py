"""Projection and filter over changes: kinds go with the rows, and what leaves a filter is deleted."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from tests.sql.plan.changing import plan, spark_sql


def test_a_projection_carries_the_kind_as_its_last_column() -> None:
    """The names before it are the query's own."""
    query = "SELECT id AS i, upper(region) AS r FROM cdc"

    assert (
        spark_sql(query) == "SELECT id AS i, upper(region) AS r, __row_kind AS __row_kind FROM cdc"
    )
    assert plan(query).flow.columns == ("i", "r")
    assert plan(query).flow.key == ("i",)


def test_a_star_leaves_the_hidden_column_last() -> None:
    """It is written out."""
    assert spark_sql("SELECT * FROM latest") == (
        "SELECT latest.id, latest.region, latest.amount, __row_kind AS __row_kind FROM latest"
    )


def test_a_filter_over_rows_before_and_after_drops_either() -> None:
    """A row that leaves the filter comes with its row before, which passes."""
    assert spark_sql("SELECT id FROM cdc WHERE amount > 3") == (
        "SELECT id, __row_kind AS __row_kind FROM cdc WHERE amount > 3"
    )


def test_an_upsert_that_does_not_pass_deletes_its_key() -> None:
    """The row that it replaces may have passed; columns of a row that does not pass are not computed."""
    assert spark_sql("SELECT id, 10 / amount AS share FROM latest WHERE amount <> 0") == (
        "SELECT id, CASE WHEN amount <> 0 THEN CAST(10 DIV amount AS INT) END AS share, "
        "CASE WHEN amount <> 0 AND NOT __row_kind IN (3) THEN __row_kind ELSE CAST(3 AS TINYINT) END AS __row_kind "
        "FROM latest"
    )


def test_a_filter_by_the_key_keeps_or_drops_all_rows_of_a_key() -> None:
    """No delete is needed."""
    assert spark_sql("SELECT id, amount FROM latest WHERE id > 3") == (
        "SELECT id, amount, __row_kind AS __row_kind FROM latest WHERE id > 3"
    )


def test_the_key_of_upserts_has_to_be_selected() -> None:
    """Without it no sink can tell which row is replaced."""
    with pytest.raises(
        UnsupportedError, match="'id', by which the rows are told apart, is not selected"
    ):
        plan("SELECT region FROM latest")


def test_changes_with_the_row_before_may_lose_their_key() -> None:
    """They take away what they brought."""
    flow = plan("SELECT region FROM cdc").flow

    assert flow.changes is ChangelogMode.ALL
    assert flow.key is None
