"""Which changes a sink takes, and by which key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.rules.sink_changelog import SinkTable, sink_refusal
from penstock.sql.syntax.refusal import Refusal
from tests.sql.plan.changing import plan

GROUPED = "SELECT k, COUNT(*) AS n FROM events GROUP BY k"


def sink(*key: str, accepts: ChangelogMode = ChangelogMode.ALL, columns: str = "a b") -> SinkTable:
    """Make a sink of two columns."""
    return SinkTable(name="db.t", accepts=accepts, columns=tuple(columns.split()), key=key)


def refused(query: str, into: SinkTable) -> Refusal:
    """Why a sink does not take what a query gives."""
    found = sink_refusal(plan(query).flow, into)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (GROUPED, "this aggregation updates its results"),
        ("SELECT id, amount FROM cdc", "the rows read here are updated and deleted"),
    ],
)
def test_an_append_only_sink_takes_no_changes(query: str, what: str) -> None:
    """The place is the operator's, or the table's."""
    found = refused(query, sink(accepts=ChangelogMode.INSERT_ONLY))

    assert what in found.message
    assert found.span is not None
    assert "PRIMARY KEY" in (found.hint or "")


@pytest.mark.parametrize("query", [GROUPED, "SELECT id, amount FROM latest"])
def test_upserts_are_not_enough_for_a_format_that_writes_the_row_before(query: str) -> None:
    """Changes with that row are."""
    wants = replace(sink(), wants_rows_before=True)
    found = refused(query, wants)

    assert "each row here replaces the one before" in found.message
    assert found.span is not None
    assert "upsert-kafka" in (found.hint or "")
    assert sink_refusal(plan("SELECT id, amount FROM cdc").flow, wants) is None


@pytest.mark.parametrize(
    ("query", "key"),
    [
        (GROUPED, ("a",)),
        (GROUPED, ()),
        ("SELECT 'all' AS name, COUNT(*) AS n FROM events", ("a",)),
        ("SELECT id, amount FROM latest", ("a",)),
        ("SELECT id, amount FROM cdc", ("a", "b")),
        ("SELECT id, x FROM events", ("b",)),
    ],
)
def test_the_key_of_the_query_is_that_of_the_sink(query: str, key: tuple[str, ...]) -> None:
    """Constants may be part of it; so may other columns, where the row before an update is told."""
    assert sink_refusal(plan(query).flow, sink(*key)) is None


@pytest.mark.parametrize(
    ("query", "key", "what"),
    [
        (GROUPED, ("b",), "one row for each (k), and db.t keeps one for each (b)"),
        (GROUPED, ("a", "b"), "fills with (k, n)"),
        ("SELECT COUNT(*) AS n, MAX(x) AS m FROM events", ("a",), "one row in all"),
        ("SELECT id, amount FROM cdc", ("b",), "one row for each (id)"),
        ("SELECT region, amount FROM cdc", ("a",), "several may have one (region)"),
        (GROUPED, ("c",), "fills no c"),
    ],
)
def test_another_key_is_refused_with_both(query: str, key: tuple[str, ...], what: str) -> None:
    """Rows of one key of the query would be left over under another of the sink."""
    found = refused(query, sink(*key))

    assert what in found.message
    assert found.hint


def test_another_key_is_refused_with_the_query_that_would_fit() -> None:
    """One row for each key of the sink, chosen by the query."""
    hint = refused("SELECT id, amount FROM cdc", sink("b")).hint

    assert hint is not None
    assert "ROW_NUMBER() OVER (PARTITION BY amount ORDER BY ...)" in hint
