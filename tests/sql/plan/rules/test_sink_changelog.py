"""ON CONFLICT: which rows a table with a PRIMARY KEY keeps of several with one key, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog.errors import DefinitionError, InputErrors, UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_text
from penstock.sql.incremental.stages import InputState, RecomputeOperator
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.rules.sink_changelog import SinkTable, sink_refusal
from penstock.sql.statements.dml import InsertInto
from penstock.sql.syntax.refusal import Refusal
from tests.sql.plan.changing import plan
from tests.sql.plan.explained import operator_lines
from tests.sql.plan.test_analysis import TABLES
from tests.sql.sql_objects import new_namespace, run

PER_WINDOW = (
    "SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
    "GROUP BY window_start, window_end, k"
)
UPSERTS = """;
CREATE TABLE log (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = 'log', 'format' = 'json')
"""


def analysed(sql: str) -> AnalysedQuery:
    """The query of an INSERT."""
    namespace = new_namespace(TABLES + UPSERTS)
    (statement,) = run(f"INSERT INTO {sql}", namespace)
    assert isinstance(statement, InsertInto)
    return Planner(namespace=namespace, project=Path("/nowhere")).analyse_insert(statement).query


def told(sql: str) -> tuple[str, list[str]]:
    """What an INSERT does: its query, and what is kept for it."""
    query = analysed(sql)
    return to_text(query.query), operator_lines(query)


@pytest.mark.parametrize(
    "insert",
    [
        "counts SELECT k, id FROM events",
        "counts (n, k) SELECT id, k FROM events WHERE id > 3",
        f"counts {PER_WINDOW}",
        "counts (SELECT k, id FROM events) UNION ALL (SELECT region, 1 FROM names)",
        "counts WITH e AS (SELECT k, id FROM events) SELECT k, id FROM e",
    ],
)
def test_nothing_keeps_the_first_row_that_comes_of_each_key(insert: str) -> None:
    """What was kept is never updated; the state has one row of each key, whatever the columns are called."""
    query = analysed(f"{insert} ON CONFLICT DO NOTHING")

    assert query.maintained is not None
    assert query.flow.changes is ChangelogMode.INSERT_ONLY
    assert query.flow.key == ("k",)
    stage = next(s for s in query.maintained.stages if isinstance(s, RecomputeOperator))
    (kept,) = stage.inputs
    assert (kept.key, kept.keeps) == (("k",), InputState.RESULT)
    assert kept.arrival is not None


@pytest.mark.parametrize("action", ["NOTHING", "ERROR", "DEDUPLICATE"])
@pytest.mark.parametrize(
    "insert",
    [
        "counts SELECT k, COUNT(*) FROM events GROUP BY k",
        "copy (name, id) SELECT region, id FROM cdc",
    ],
)
def test_rows_that_have_the_key_themselves_are_never_in_conflict(insert: str, action: str) -> None:
    """The clause changes nothing, as in Flink."""
    assert told(f"{insert} ON CONFLICT DO {action}") == told(insert)


def test_deduplicate_is_what_a_table_with_a_key_does() -> None:
    """Of rows that stay the last one."""
    insert = "counts SELECT k, id FROM events"

    assert told(f"{insert} ON CONFLICT DO DEDUPLICATE") == told(insert)


@pytest.mark.parametrize(
    ("insert", "message"),
    [
        ("appended SELECT k, id FROM events ON CONFLICT DO NOTHING", "appended has no PRIMARY KEY"),
        ("log SELECT k, id FROM events ON CONFLICT DO NOTHING", "log only takes rows that stay"),
        ("counts SELECT k, id FROM events ON CONFLICT DO ERROR", "no batch is failed for the keys of its rows"),
        ("counts VALUES ('a', 1), ('a', 2) ON CONFLICT DO NOTHING", "they are read once"),
        (
            "counts SELECT r, 1 FROM (SELECT MAX(region) AS r FROM cdc GROUP BY id % 2) ON CONFLICT DO NOTHING",
            "they are updated and deleted",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_at_the_clause(insert: str, message: str) -> None:
    """With the reason."""
    with pytest.raises((UnsupportedError, DefinitionError, InputErrors)) as caught:
        analysed(insert)
    error = caught.value.errors[0] if isinstance(caught.value, InputErrors) else caught.value

    assert message in error.message
    assert error.hint is not None
    assert error.span is not None
    assert error.span.column == f"INSERT INTO {insert}".index("ON CONFLICT") + 1


# --- which changes a sink takes, and by which key ---


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
