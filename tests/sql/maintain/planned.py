"""What the tests of planning share: a query over tables of every kind, planned."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.catalog.model.table import Table
from penstock.connector.changelog import ChangelogMode
from penstock.sql.binding.binder import annotate
from penstock.sql.dialect import to_spark_query
from penstock.sql.dialect.rewrites.unfold_grouping_sets import unfold_grouping_sets
from penstock.sql.incremental.planning.incremental_plan import plan_incremental
from penstock.sql.incremental.stages import Calc, ChangelogNormalize, RecomputeOperator
from penstock.sql.plan.builder.builder import build
from penstock.sql.plan.logical.plan import Plan
from penstock.sql.plan.placement.blocks import IncrementalPlan, StageOptions
from penstock.sql.plan.placement.place import PlacementOptions, plan_on_stages
from penstock.sql.plan.placement.spark import SparkTraits
from penstock.sql.plan.rules.flow import Arrival, ScanFlow
from penstock.sql.plan.rules.inline import find_relations, number_scans
from penstock.sql.plan.rules.prune_columns import narrowed_input, wanted_columns
from penstock.sql.statements.statement import Select
from penstock.sql.syntax.refusal import Refusal
from tests.sql.plan.changing import CHANGES, NAMESPACE
from tests.sql.sql_objects import run


@dataclass(frozen=True)
class Planned:
    """A planned query, and the names of its tables in the order of their leaves."""

    plan: IncrementalPlan
    tables: tuple[str, ...]

    @property
    def stages(self) -> list[str]:
        """Its stages, each in a line: what it reads by which key, and its SQL."""
        return [_line(stage) for stage in self.plan.maintained.stages]


def plan(sql: str, arrival: Arrival = Arrival.OPEN, *, lists_apart: bool = False) -> Planned:
    """Plan a query over the tables of tests/sql/plan/changing.py; `lists_apart` as `StageOptions` has it."""
    (statement,) = run(sql, NAMESPACE)
    assert isinstance(statement, Select)
    relations = find_relations(statement.query, NAMESPACE)
    annotate(relations.query, NAMESPACE)
    unfold_grouping_sets(relations.query)
    number_scans(relations)
    whole = [replace(_input(leaf.table), arrival=arrival) for leaf in relations.leaves]
    keys = frozenset[str]().union(*(table.key or () for table in whole))
    wanted = wanted_columns(relations.query, whole, keys)
    inputs = list(map(narrowed_input, whole, wanted))
    logical = build(relations.query, inputs)
    spark = SparkTraits(logical.scans)

    def planner(of: Plan, traits: SparkTraits, stages: StageOptions) -> IncrementalPlan | Refusal:
        return plan_incremental(of, traits, replace(stages, lists_apart=lists_apart), inputs)

    placed = plan_on_stages(logical, spark, PlacementOptions(sink=None), planner)
    if isinstance(placed, Refusal):
        raise placed.error()
    assert placed.stages is not None
    return Planned(plan=placed.stages, tables=tuple(t.name for t in inputs))


def _input(table: Table) -> ScanFlow:
    key = table.schema.primary_key
    name = table.identifier.name
    return ScanFlow(
        name=name,
        columns=table.schema.names,
        changes=CHANGES.get(name, ChangelogMode.INSERT_ONLY),
        key=key.columns if key is not None else None,
        rowtime=table.schema.watermark.column if table.schema.watermark is not None else None,
    )


def _line(stage: ChangelogNormalize | Calc | RecomputeOperator) -> str:
    match stage:
        case ChangelogNormalize(name=name, input=given, key=key):
            return f"{name} = {given} by {', '.join(key)}"
        case Calc(name=name, query=query):
            return f"{name} = {_text(query)}"
        case RecomputeOperator(name=name, inputs=inputs, query=query):
            read = ", ".join(
                f"{i.name} by ({', '.join(i.key)})"
                + (f" as {len(i.measures)} sums" if i.measures else f" {i.keeps}")
                for i in inputs
            )
            return f"{name} = {read}: {_text(query)}"


def _text(query: object) -> str:
    return to_spark_query(query).replace("`", "")  # type: ignore[arg-type]
