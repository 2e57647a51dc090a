"""A physical plan as EXPLAIN shows it: a tree of values, which text and JSON are written from.

It has no object of an engine, no path and no clock: the same statement over the same catalog gives the same document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import Span
from penstock.connector.changelog import ChangelogMode, RowKind
from penstock.sql.dialect.rewrites.unfold_grouping_sets import described_sets
from penstock.sql.incremental.stages import (
    ChangelogNormalize,
    RecomputeOperator,
    Stage,
    TemporalJoin,
    WindowAggregate,
)
from penstock.sql.plan.explain.operators import Detail, operator_words
from penstock.sql.plan.explain.scans import ExplainedScan, explain_scan
from penstock.sql.plan.explain.stages import (
    OperatorState,
    StageNames,
    rereading,
    state_in_spark,
    state_of_stages,
)
from penstock.sql.plan.logical import nodes
from penstock.sql.plan.lookup_keys import lookups_in
from penstock.sql.plan.placement.place import Engine, PhysicalNode
from penstock.sql.plan.stage_runs import StageRun, stage_runs

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.sql.plan.analysed import AnalysedQuery, TableScan

_RUNS = {
    Engine.NATIVE: "spark",
    Engine.UPDATE: "spark update mode",
    Engine.INCREMENTAL: "stage",
}

_IN_TASKS = "in the reading tasks"

_LETTERS = {
    RowKind.INSERT: "I",
    RowKind.UPDATE_BEFORE: "UB",
    RowKind.UPDATE_AFTER: "UA",
    RowKind.DELETE: "D",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedOperator:
    """An operator of a plan.

    `line` is the operator with its expressions, `runs` where it runs. `stage` is the name of the stage that gives its
    rows, or, where Spark runs it, of the input of stages that it is. `changes` are the kinds of its rows. `key` is
    None where no columns are known to identify a row. `scan` is how a table is read, and `number` that of the table.
    `stage_runs` say what runs the stages of an operator with state. `rereads` are the aggregates for which it reads all
    rows of a key again.
    """

    operator: str
    line: str
    details: Mapping[str, Detail]
    runs: str
    stage: str | None = None
    columns: tuple[tuple[str, str | None], ...] | None = None
    changes: tuple[str, ...] = ("I",)
    key: tuple[str, ...] | None = None
    state: OperatorState | None = None
    scan: ExplainedScan | None = None
    number: int | None = None
    span: Span | None = None
    inputs: tuple[ExplainedOperator, ...] = ()
    stage_runs: tuple[StageRun, ...] = ()
    rereads: tuple[str, ...] = ()

    @property
    def reread(self) -> str | None:
        """What a change reads again, and for which aggregates; None: nothing."""
        if not self.rereads:
            return None
        of_key = self.state is not None and self.state.by
        what = (
            "of a key reads all of its rows again"
            if of_key
            else "reads all rows again, in one task"
        )
        return f"each change {what}, for {', '.join(self.rereads)}"

    def walk(self) -> Iterator[ExplainedOperator]:
        """Iterate over the operator and those below it."""
        yield self
        for child in self.inputs:
            yield from child.walk()

    @property
    def document(self) -> dict[str, Any]:
        """The operator, and those below it, as JSON."""
        details = {name: _plain(value) for name, value in self.details.items()}
        if self.scan is not None:
            details |= self.scan.document
        watermark = None if self.scan is None else self.scan.watermark
        state = self.state
        return {
            "operator": self.operator,
            "runs": self.runs,
            "stage": self.stage,
            "details": {name: value for name, value in details.items() if value is not None},
            "columns": None
            if self.columns is None
            else [{"name": name, "type": kind} for name, kind in self.columns],
            "changes": list(self.changes),
            "key": None if self.key is None else list(self.key),
            "state": None
            if state is None
            else {"keeps": state.keeps, "bound": state.bound, "by": _plain(state.by)},
            "stage_runs": [run.document for run in self.stage_runs],
            "watermark": None if watermark is None else dict(watermark),
            "span": None
            if self.span is None
            else {"line": self.span.line, "column": self.span.column},
            "inputs": [child.document for child in self.inputs],
        }


def _plain(value: Detail) -> Any:
    return value if value is None or isinstance(value, str | int) else list(value)


def flink_letters(changes: ChangelogMode) -> tuple[str, ...]:
    """Write a changelog mode as Flink does: I, UB, UA, D."""
    return tuple(_LETTERS[kind] for kind in sorted(changes.kinds))


def explain_query(
    query: AnalysedQuery,
    project: Path | None,
    *,
    state_ttl_ms: int,
    shared: TableScan | None = None,
) -> ExplainedOperator:
    """Explain a query. `state_ttl_ms` is `table.exec.state.ttl`, 0 is none.

    Without a `project` connectors are not asked how they read a table. `shared` is the read that the
    query has in common with others.
    """
    assert query.plan is not None, "an analysed query has a plan"
    numbers = query.scan_order or tuple(range(len(query.leaves)))
    leaves = dict(zip(numbers, query.leaves, strict=True))
    builder = _Builder(
        names=StageNames.of(query.plan.root, query.maintained),
        scans=_scans(query, leaves, project, shared),
        watermarks={
            n: leaf.table.identifier.name for n, leaf in leaves.items() if leaf.rowtime is not None
        },
        grouped=frozenset(n for n, leaf in leaves.items() if leaf.grouped is not None),
        runs=stage_runs(query, state_ttl_ms),
        ttl=state_ttl_ms,
        streams=not query.bounded,
    )
    return builder.build(query.plan.root, ())


def _scans(
    query: AnalysedQuery,
    leaves: Mapping[int, TableScan],
    project: Path | None,
    shared: TableScan | None,
) -> dict[int, ExplainedScan]:
    lookups = lookups_in(query.query)
    return {
        number: explain_scan(
            shared or leaf, project, [join for index, join in lookups if index == path]
        )
        for path, (number, leaf) in enumerate(leaves.items())
    }


_PASSING = (nodes.SubqueryAlias, nodes.WindowAssign, nodes.Unnest, nodes.Filter, nodes.Project)
"""Operators whose rows have the kinds of the rows that they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    """Builds the document; `streams`: operators of Spark keep state, too. Of tables that are `grouped` reading tasks
    give groups.
    """

    names: StageNames
    scans: Mapping[int, ExplainedScan]
    watermarks: Mapping[int, str]
    grouped: frozenset[int]
    runs: Mapping[str, StageRun]
    ttl: int
    streams: bool

    def build(self, node: PhysicalNode, path: tuple[int, ...]) -> ExplainedOperator:
        """Explain an operator at a place of the tree."""
        words = operator_words(node.logical)
        children = tuple(
            self.build(below, (*path, number)) for number, below in enumerate(node.inputs)
        )
        in_tasks = isinstance(node.logical, nodes.Aggregate) and self._is_grouped(node)
        found = ExplainedOperator(
            operator=words.name,
            line=words.line,
            details={**words.details, "first_phase": _IN_TASKS} if in_tasks else words.details,
            runs=_RUNS[Engine.NATIVE if self.names.is_input(path) else node.engine],
            stage=self.names.name(path),
            columns=_columns(node),
            changes=self._changes(node, path, children),
            key=self._key(node, path),
            state=self._state(node, path),
            span=node.logical.span,
            inputs=children,
            stage_runs=self._stage_runs(node, path),
            rereads=rereading(self._stages(node, path), node.logical),
        )
        match node.logical:
            case nodes.Scan():
                return self._scan(found, node.logical, path)
            case nodes.SubqueryAlias(alias=alias, names=()) if not alias or alias.startswith("__"):
                return _passed(found)  # no name that the query gave it
            case nodes.SubqueryAlias(alias=alias, names=()):
                return _aliased(found, alias)
            case nodes.Unnest(call=call) if described_sets(call):
                return _passed(found)  # the aggregation above tells its grouping sets
            case _:
                return found

    def _is_grouped(self, node: PhysicalNode) -> bool:
        """Return whether the rows of an aggregation come as groups that reading tasks made for it."""
        below = node
        while len(below.inputs) == 1:
            (below,) = below.inputs
            if isinstance(below.logical, nodes.Aggregate):
                return False
        return isinstance(below.logical, nodes.Scan) and below.logical.index in self.grouped

    def _changes(
        self, node: PhysicalNode, path: tuple[int, ...], children: Sequence[ExplainedOperator]
    ) -> tuple[str, ...]:
        """Return the kinds of changes of an operator; within a SELECT they follow from those of its inputs."""
        letters = flink_letters(node.trait.changes)
        if node.engine is not Engine.INCREMENTAL:
            return letters
        if isinstance(node.logical, _PASSING):
            kinds = {kind for one in children for kind in one.changes}
            return tuple(one for one in flink_letters(ChangelogMode.ALL) if one in kinds)
        stage = self.names.stage(path)
        if isinstance(stage, RecomputeOperator) and letters != ("I",) and not stage.key:
            return ("I", "D")  # without a key nothing says which row another one replaces
        return letters

    def _key(self, node: PhysicalNode, path: tuple[int, ...]) -> tuple[str, ...] | None:
        stage = self.names.stage(path)
        if node.engine is not Engine.INCREMENTAL or not path:
            return node.trait.key
        match stage:
            case RecomputeOperator(key=key) | TemporalJoin(key=key) | WindowAggregate(key=key):
                return key
            case _:
                return node.trait.key

    def _state(self, node: PhysicalNode, path: tuple[int, ...]) -> OperatorState | None:
        if node.engine is not Engine.INCREMENTAL:
            return state_in_spark(node, self.watermarks) if self.streams else None
        if isinstance(node.logical, nodes.Scan):
            return None
        return state_of_stages(self._stages(node, path), self.ttl)

    def _stages(self, node: PhysicalNode, path: tuple[int, ...]) -> list[Stage]:
        below = [self.names.name((*path, number)) for number in range(len(node.inputs))]
        return self.names.stages_of(path, below)

    def _stage_runs(self, node: PhysicalNode, path: tuple[int, ...]) -> tuple[StageRun, ...]:
        """Tell what runs the stages of an operator that keep state."""
        if node.engine is not Engine.INCREMENTAL or isinstance(node.logical, nodes.Scan):
            return ()
        names = (stage.name for stage in self._stages(node, path))
        return tuple(self.runs[name] for name in names if name in self.runs)

    def _scan(
        self, found: ExplainedOperator, node: nodes.Scan, path: tuple[int, ...]
    ) -> ExplainedOperator:
        scan, stage = self.scans[node.index], self.names.stage(path)
        table = replace(
            found,
            line=f"{found.line} ({scan.connector})",
            runs=_RUNS[Engine.NATIVE],
            columns=scan.types,
            changes=flink_letters(node.changes),
            key=node.key,
            scan=scan,
            number=node.index,
        )
        if not isinstance(stage, ChangelogNormalize):
            return table
        return replace(
            found,
            operator="ChangelogNormalize",
            line=f"ChangelogNormalize by {', '.join(stage.key)}",
            details={"by": stage.key},
            runs=_RUNS[Engine.INCREMENTAL],
            columns=scan.types,
            changes=flink_letters(ChangelogMode.ALL),
            key=stage.key,
            state=state_of_stages([stage], self.ttl),
            stage_runs=(self.runs[stage.name],),
            inputs=(replace(table, stage=stage.input),),
        )


def _columns(node: PhysicalNode) -> tuple[tuple[str, str | None], ...] | None:
    logical = node.logical
    known = logical.facts.columns
    if known is None:
        return None
    names = [column.name for column in known]
    if isinstance(logical, nodes.Project | nodes.Aggregate | nodes.Over):
        names = [
            name for name, _ in logical.items
        ]  # columns without a name of their own have one here
    types = (None if column.type is None else column.type.sql("flink") for column in known)
    return tuple(zip(names, types, strict=True))


def _passed(found: ExplainedOperator) -> ExplainedOperator:
    """Return the input of an operator that says nothing by itself."""
    (below,) = found.inputs
    return below if below.stage is not None else replace(below, stage=found.stage)


def _aliased(found: ExplainedOperator, alias: str) -> ExplainedOperator:
    """Return a table under its alias as one operator, which says the alias where it is another name."""
    (below,) = found.inputs
    target = below.inputs[0] if below.operator == "ChangelogNormalize" else below
    if target.operator != "Scan":
        return found
    table = str(target.details["table"]).rpartition(".")[2]
    below = _passed(found)
    if alias == table:
        return below
    named = replace(
        target,
        line=target.line.replace(" (", f" AS {alias} (", 1),
        details={**target.details, "alias": alias},
        stage=target.stage or below.stage,
    )
    return named if below.operator == "Scan" else replace(below, inputs=(named,))
