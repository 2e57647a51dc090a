"""What runs each stage of an incremental query, as far as that is known before it starts: a keyed operator, or Spark.

What decides is what decides at the start (`incremental/keyed/choose.py`), over the types that the text and the tables
give. Where one stage has no keyed operator Spark runs all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.sql.incremental.stages import IncrementalQuery, RecomputeOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.sql.incremental.keyed.choose import AddedColumn, ChosenOperators
    from penstock.sql.plan.analysed import AnalysedQuery


class StageRunner(StrEnum):
    """What runs a stage."""

    KEYED = "keyed operator"
    SPARK = "spark"
    OPEN = "decided at the start"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """What runs a stage. `shares` are the other stages of its task.

    `reason` is what a keyed operator does not compute, or what the start decides by, and `instead` what to write then.
    `follows`: the reason is that of this other stage. `begun`: the reason is that the checkpoint began so.
    """

    stage: str
    by: StageRunner
    shares: tuple[str, ...] = ()
    reason: str | None = None
    instead: str | None = None
    follows: str | None = None
    begun: bool = False

    @property
    def lines(self) -> list[str]:
        """Write it as facts of the operator."""
        match self.by:
            case StageRunner.KEYED:
                shares = f", in one task with {', '.join(self.shares)}" if self.shares else ""
                return [f"run by a keyed operator{shares}"]
            case StageRunner.SPARK if self.follows is not None:
                return [f"run by Spark, as {self.follows} is"]
            case StageRunner.SPARK:
                instead = [] if self.instead is None else [f"instead: {self.instead}"]
                why = "its checkpoint began so" if self.begun else f"it computes {self.reason}"
                return [f"run by Spark, several jobs a batch, as {why}", *instead]
            case StageRunner.OPEN if self.follows is not None:
                return [f"run by a keyed operator or by Spark, as {self.follows} is"]
            case StageRunner.OPEN:
                return [f"run by a keyed operator or by Spark: the start decides, by {self.reason}"]

    @property
    def document(self) -> dict[str, Any]:
        """The value as JSON."""
        return {
            "stage": self.stage,
            "by": str(self.by),
            "shares": list(self.shares),
            "reason": self.reason,
            "instead": self.instead,
            "follows": self.follows,
        }


def stage_runs(query: AnalysedQuery, state_ttl_ms: int) -> dict[str, StageRun]:
    """Tell what runs the stages of a query that keep state, by their names; none where it has none.

    `state_ttl_ms` is `table.exec.state.ttl`, 0 is none.
    """
    if query.maintained is None:
        return {}
    chosen = _chosen(query, query.maintained, 0 if query.bounded else state_ttl_ms)
    by_spark = chosen.by_spark
    if not by_spark:
        return {
            stage.name: StageRun(
                stage=stage.name,
                by=StageRunner.KEYED,
                shares=tuple(other.name for other in together if other is not stage),
            )
            for together in chosen.steps
            for stage in together
            if stage.name in chosen.found
        }
    decisive, first = next(iter(by_spark.items()))
    by = StageRunner.OPEN if first.is_open else StageRunner.SPARK
    found = {}
    for name in chosen.found:
        own = by_spark.get(name)
        if own is None or own.is_open is not first.is_open:
            found[name] = StageRun(stage=name, by=by, follows=decisive)
        else:
            found[name] = StageRun(stage=name, by=by, reason=own.reason, instead=own.hint)
    return found


def is_run_by_spark(query: AnalysedQuery, state_ttl_ms: int) -> bool:
    """Return whether it is known before the start that no keyed operators run the stages of a query.

    An outer join that ends has to be one: whether its start finds none is as if it did.
    """
    stages = () if query.maintained is None else query.maintained.stages
    left = {StageRunner.SPARK}
    if any(isinstance(stage, RecomputeOperator) and stage.is_padded for stage in stages):
        left.add(StageRunner.OPEN)
    return any(run.by in left for run in stage_runs(query, state_ttl_ms).values())


def is_run_keyed(query: AnalysedQuery, state_ttl_ms: int) -> bool:
    """Return whether it is known before the start that keyed operators run all stages of a query."""
    return all(run.by is StageRunner.KEYED for run in stage_runs(query, state_ttl_ms).values())


def _chosen(query: AnalysedQuery, maintained: IncrementalQuery, ttl_ms: int) -> ChosenOperators:
    # few queries are incremental, and DuckDB is loaded for these
    from penstock.sql.incremental.keyed.choose import choose_operators
    from penstock.sql.incremental.planning.relation_types import added_schema

    schemas = typed_relations(query, maintained)

    def with_added(name: str, columns: Sequence[AddedColumn]) -> pa.Schema:
        return added_schema(schemas[name], [(one.name, one.value) for one in columns])

    return choose_operators(maintained, schemas, ttl_ms, with_added)


def typed_relations(query: AnalysedQuery, maintained: IncrementalQuery) -> Mapping[str, pa.Schema]:
    """Return the columns of a query's relations with the types that are known without Spark."""
    from penstock.sql.incremental.planning.relation_types import relation_types

    tables = {index: leaf.read_table.schema for index, leaf in enumerate(query.leaves)}
    return relation_types(maintained, dict(_inputs(query.query, maintained)), tables)


def _inputs(node: exp.Expr, maintained: IncrementalQuery) -> Iterator[tuple[str, exp.Query]]:
    """Return the queries of the inputs by their names: the parts of the query that gives them all."""
    names = {feed.name for feed in maintained.feeds}
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.SetOperation):
            pending += [part.this, part.expression]
        elif isinstance(part, exp.Select) and part.args.get("from_"):
            source = part.args["from_"].this
            if isinstance(source, exp.Subquery) and source.alias in names:
                yield source.alias, source.this
