"""How a physical plan is shown: lines and JSON of plans that are made by hand."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import parse_query
from penstock.sql.incremental.stages import (
    Calc,
    ChangelogNormalize,
    IncrementalQuery,
    RecomputeOperator,
    StageInput,
    StreamInput,
)
from penstock.sql.plan.explain.document import ExplainedOperator
from penstock.sql.plan.explain.operators import operator_words
from penstock.sql.plan.explain.scans import ExplainedScan
from penstock.sql.plan.explain.stages import (
    OperatorState,
    StageNames,
    state_in_spark,
    state_of_stages,
)
from penstock.sql.plan.explain.statements import plan_lines
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.logical.facts import Column, Facts, GroupKey
from penstock.sql.plan.logical.nodes import Block
from penstock.sql.plan.placement.place import Engine, PhysicalNode
from penstock.sql.plan.rules.flow import Flow, OperatorKind, UpdatingOperator

SELECT = parse_query("SELECT k, COUNT(*) AS n FROM t WHERE k > 1 GROUP BY k")
assert isinstance(SELECT, exp.Select)
BLOCK = Block(select=SELECT, relations=("t",))


def facts(*names: str) -> Facts:
    """Columns without types."""
    return Facts(columns=tuple(Column(name=name) for name in names))


def scan(index: int = 0, **more: object) -> nodes.Scan:
    """A table."""
    return nodes.Scan(facts=facts("k"), index=index, table=f"c.d.t{index}", **more)  # type: ignore[arg-type]


def counted(given: nodes.Node, *, windowed: bool = False) -> nodes.Aggregate:
    """COUNT(*) of each k."""
    return nodes.Aggregate(
        facts=facts("k", "n"),
        input=given,
        keys=(GroupKey(value=exp.column("k"), text="k"),),
        items=(("k", exp.column("k")), ("n", exp.Count(this=exp.Star()))),
        windowed=windowed,
        block=BLOCK,
    )


def native(node: nodes.Node, *given: PhysicalNode) -> PhysicalNode:
    """An operator that Spark streams."""
    return PhysicalNode(
        logical=node, engine=Engine.NATIVE, trait=Flow(columns=node.facts.names), inputs=given
    )


def staged(node: nodes.Node, *given: PhysicalNode) -> PhysicalNode:
    """An operator that is a stage, of any changes."""
    trait = Flow(columns=node.facts.names, changes=ChangelogMode.ALL, key=("k",))
    return PhysicalNode(logical=node, engine=Engine.INCREMENTAL, trait=trait, inputs=given)


def recompute(
    name: str, *given: str, way: OperatorKind = OperatorKind.AGGREGATE
) -> RecomputeOperator:
    """A stage over others."""
    return RecomputeOperator(
        name=name,
        inputs=tuple(StageInput(name=one, key=("k",)) for one in given),
        query=SELECT,
        key=("k",),
        mechanism=UpdatingOperator(way=way, key=("k",), state="COUNT(*)"),
    )


def calc(name: str, *given: str) -> Calc:
    """A stage without state over others."""
    return Calc(name=name, inputs=given, query=SELECT)


def query(*stages: RecomputeOperator | Calc | ChangelogNormalize, feeds: int) -> IncrementalQuery:
    """An incremental query."""
    inputs = tuple(StreamInput(name=f"feed_{n}", columns=("k",)) for n in range(feeds))
    return IncrementalQuery(feeds=inputs, stages=stages, columns=("k",), key=None)


def test_an_operator_is_a_line_and_its_facts_begin_with_a_dash() -> None:
    """Its inputs are below it; a table that is read twice is told once."""
    table = ExplainedOperator(
        operator="Scan",
        line="Scan t (kafka)",
        details={"table": "c.d.t"},
        runs="spark",
        stage="feed_0",
        scan=ExplainedScan(
            table="c.d.t", connector="kafka", columns=("k",), facts={"end": ["none"]}
        ),
        number=0,
    )
    group = ExplainedOperator(
        operator="Aggregate",
        line="Aggregate by k: COUNT(*)",
        details={"by": ("k",)},
        runs="stage",
        stage="group_0",
        changes=("I", "UB", "UA", "D"),
        key=("k",),
        state=OperatorState(keeps="COUNT(*)"),
        inputs=(table, replace(table, stage=None)),
    )

    assert plan_lines(group) == [
        "Aggregate by k: COUNT(*) [stage group_0] [I,UB,UA,D]",
        "- key: k",
        "- state: COUNT(*)",
        "- bound: none",
        "  Scan t (kafka) [spark, feed_0] [I]",
        "  - columns: k",
        "  - end: none",
        "  Scan t (kafka), as above [spark] [I]",
    ]
    assert plan_lines(table, keys=True)[1] == "- key: none"
    document = group.document
    assert document["state"] == {"keeps": "COUNT(*)", "bound": None, "by": None}
    assert document["inputs"][0]["details"] == {
        "table": "c.d.t",
        "connector": "kafka",
        "reads": ["k"],
        "end": "none",
    }


def test_stages_are_found_below_those_that_compute_row_by_row() -> None:
    """A chain of aggregations, with a projection between them and one above."""
    table = native(scan())
    lower = staged(counted(table.logical), table)
    upper = staged(counted(lower.logical), lower)
    found = StageNames.of(
        upper,
        query(
            recompute("group_0", "feed_0"),
            calc("rows_1", "group_0"),
            recompute("group_2", "rows_1"),
            calc("rows_3", "group_2"),
            feeds=1,
        ),
    )

    assert found.names == {(): "group_2", (0,): "group_0", (0, 0): "feed_0"}


def test_both_sides_of_a_join_and_of_a_union_are_found() -> None:
    """The rows before upserts are a stage of the table itself."""
    one, two = native(scan()), staged(scan(1))
    join = staged(
        nodes.Join(
            facts=facts("k"),
            left=one.logical,
            right=two.logical,
            kind=nodes.JoinType.INNER,
            block=BLOCK,
        ),
        one,
        two,
    )
    union = staged(
        nodes.SetOp(
            facts=facts("k"),
            left=join.logical,
            right=one.logical,
            kind=nodes.SetKind.UNION,
            all=True,
        ),
        join,
        one,
    )
    found = StageNames.of(
        union,
        query(
            ChangelogNormalize(name="normalize_0", input="feed_1", key=("k",)),
            recompute("join_1", "feed_0", "normalize_0", way=OperatorKind.JOIN),
            calc("rows_2", "join_1"),
            calc("rows_3", "rows_2", "feed_2"),
            calc("rows_4", "rows_3"),
            feeds=3,
        ),
    )

    assert found.names == {
        (): "rows_3",
        (0,): "join_1",
        (0, 0): "feed_0",
        (0, 1): "normalize_0",
        (1,): "feed_2",
    }


def test_the_state_of_spark_is_bounded_by_the_watermarks_below() -> None:
    """A join without a bound in time keeps all rows, whatever watermarks there are."""
    table = native(scan())
    group = native(counted(table.logical, windowed=True), table)
    both = nodes.Join(
        facts=facts("k"),
        left=table.logical,
        right=scan(1),
        kind=nodes.JoinType.INNER,
        bound=nodes.JoinBound.WINDOW,
        block=replace(BLOCK, bound=nodes.JoinBound.WINDOW),
    )
    watermarks = {0: "t0", 1: "t1"}

    assert state_in_spark(group, watermarks) == OperatorState(
        keeps="groups of open windows", bound="the watermark of t0"
    )
    assert state_in_spark(native(both), watermarks) == OperatorState(
        keeps="rows of open windows of both sides", bound="the lowest watermark of t0, t1"
    )
    assert state_in_spark(
        native(replace(both, bound=nodes.JoinBound.NONE)), watermarks
    ) == OperatorState(keeps="the rows of both sides")
    assert state_in_spark(table, watermarks) is None


def test_a_time_to_live_bounds_the_state_of_a_stage() -> None:
    """A stage that computes row by row has none."""
    bounded = state_of_stages([recompute("group_0", "feed_0")], 60_000)

    assert bounded is not None
    assert bounded.bound == "table.exec.state.ttl, 60 s after the last change"
    assert state_of_stages([calc("rows_0", "feed_0")], 60_000) is None


def test_operators_are_written_in_the_words_of_the_query() -> None:
    """Values, conditions, lengths of windows."""
    table = scan()
    window = nodes.WindowAssign(
        facts=facts("k"),
        input=table,
        kind=nodes.WindowKind.HOP,
        time_column="at",
        size_ms=10_000,
        slide_ms=1_500,
    )
    project = nodes.Project(
        facts=facts("k", "m"),
        input=table,
        items=(("k", exp.column("k")), ("m", exp.column("n"))),
        block=replace(BLOCK, select=exp.select("*")),
    )

    assert operator_words(window).line == "WindowAssign HOP at, size 10 s, slide 1500 ms"
    assert operator_words(project).line == "Project *"
    assert operator_words(project).details == {"values": ("k", "n AS m")}
    assert operator_words(counted(table)).line == "Aggregate by k: COUNT(*)"
    assert operator_words(replace(counted(table), keys=())).line == "Aggregate: COUNT(*)"
