"""The engine of each operator of a plan, and which refusal a query is refused with. Golden files hold the decisions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.incremental.planning.incremental_plan import plan_incremental
from penstock.sql.plan.logical.nodes import Scan, SubqueryAlias
from penstock.sql.plan.placement.blocks import scan_flow
from penstock.sql.plan.placement.place import (
    Engine,
    PhysicalNode,
    PhysicalPlan,
    PlacementOptions,
    choose_engines,
)
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.syntax.refusal import Refusal
from tests.sql.plan.builder.plans import plan_of

ANYWHERE = SinkTable(name="anywhere", accepts=ChangelogMode.ALL, columns=())
APPENDS = replace(ANYWHERE, accepts=ChangelogMode.INSERT_ONLY)
LETTERS = {Engine.NATIVE: "native", Engine.UPDATE: "update", Engine.INCREMENTAL: "stage"}
TUMBLE = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
GROUPED = "SELECT auction, COUNT(*) AS n FROM bid GROUP BY auction"


def placed(sql: str, sink: SinkTable | None = ANYWHERE, **options: object) -> PhysicalPlan:
    """Place the operators of a query. Raises UnsupportedError."""
    plan = plan_of(sql)
    planner = partial(plan_incremental, tables=list(map(scan_flow, plan.scans)))
    found = choose_engines(plan, PlacementOptions(sink=sink, **options), planner)  # type: ignore[arg-type]
    if isinstance(found, Refusal):
        raise found.error()
    return found


def shape(node: PhysicalNode) -> str:
    """Write operators with their engines, without scans and names."""
    below = ", ".join(filter(None, map(shape, node.inputs)))
    if isinstance(node.logical, Scan | SubqueryAlias):
        return below
    words = f"{LETTERS[node.engine]} {type(node.logical).__name__}"
    return f"{words}({below})" if below else words


@pytest.mark.parametrize(
    ("sql", "engines"),
    [
        ("SELECT price FROM bid WHERE price > 1", "native Project(native Filter)"),
        (GROUPED, "update Aggregate"),
        (f"SELECT * FROM ({GROUPED}) WHERE n > 1", "update Project(update Filter(update Aggregate))"),
        (
            f"SELECT n, COUNT(*) FROM ({GROUPED}) GROUP BY n",
            "stage Aggregate(stage Aggregate)",
        ),
        (
            f"SELECT c, COUNT(*) FROM (SELECT COUNT(*) AS c FROM {TUMBLE} GROUP BY window_start, window_end) GROUP BY c",
            "stage Aggregate(native Aggregate(native WindowAssign))",
        ),
        (
            "SELECT b.price, a.seller FROM bid AS b LEFT JOIN auction AS a ON b.auction = a.id",
            "stage Project(stage Join)",
        ),
        (
            "SELECT b.price, a.seller FROM bid AS b LEFT JOIN auction AS a ON b.auction = a.id "
            "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR",
            "stage Project(stage Join)",
        ),
        (
            "SELECT DISTINCT price FROM bid WHERE price > 1",
            "stage Distinct(stage Project(native Filter))",
        ),
    ],
)  # fmt: skip
def test_what_spark_streams_is_left_to_it(sql: str, engines: str) -> None:
    """Stages run the rest; one operator is updated in Spark's update mode."""
    assert shape(placed(sql).root) == engines


def test_what_the_sink_does_not_take_from_spark_comes_from_stages() -> None:
    """The rows before updates, another key; and state with a time to live."""
    wants = replace(ANYWHERE, wants_rows_before=True)
    other = replace(ANYWHERE, columns=("a", "n"), key=("a", "n"))

    assert shape(placed(GROUPED, wants).root) == "stage Aggregate"
    assert shape(placed(GROUPED, other).root) == "stage Aggregate"
    assert shape(placed(GROUPED, state_ttl_ms=1).root) == "stage Aggregate"


def test_a_query_that_is_shown_is_not_checked() -> None:
    """Spark runs it as it is."""
    found = placed("SELECT auction FROM bid ORDER BY auction", None)

    assert (found.checked, found.root.engine) == (False, Engine.NATIVE)


def test_the_changes_and_the_key_stand_at_each_operator() -> None:
    """On the engine that was chosen: a stage gives the rows before, Spark upserts."""
    (inner,) = placed(f"SELECT n, COUNT(*) FROM ({GROUPED}) GROUP BY n").root.inputs
    root = placed(GROUPED).root

    assert (inner.trait.changes, inner.trait.key) == (ChangelogMode.ALL, ("auction",))
    assert (root.trait.changes, root.trait.key) == (ChangelogMode.UPSERT, ("auction",))


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT b.price FROM bid AS b JOIN auction AS a ON b.price > a.id", "without an equality"),
        ("SELECT DISTINCT price FROM bid ORDER BY price", "ORDER BY of a stream"),
        ("SELECT price FROM bid WHERE auction NOT IN (SELECT id FROM auction)", "NOT IN"),
        (GROUPED, "this aggregation updates its results"),
    ],
)
def test_what_no_engine_runs_is_refused(sql: str, what: str) -> None:
    """By the stages, or for the sink."""
    with pytest.raises(UnsupportedError, match=what):
        placed(sql, APPENDS)


def test_tables_at_rest_are_not_followed() -> None:
    """Stages follow their tables."""
    sql = "SELECT DISTINCT b.price FROM bid AS b JOIN countries AS c ON b.price = c.code"
    at_rest = {1: Refusal(message="countries cannot be followed")}

    with pytest.raises(UnsupportedError, match="countries cannot be followed"):
        placed(sql, at_rest=at_rest)


def test_a_long_chain_of_unions_is_placed() -> None:
    """It may be longer than the stack is deep."""
    chain = " UNION ALL ".join(["SELECT auction FROM bid"] * 300)

    assert placed(chain).root.engine is Engine.NATIVE
