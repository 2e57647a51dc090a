"""Collect the inputs and stages of a query during planning.

Names them, adds equal ones once, unions the inputs in one streaming query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.sql.dialect import to_text, window_tables
from penstock.sql.incremental.describe import describe_input
from penstock.sql.incremental.planning.relation import (
    ONE,
    AppendRelation,
    ChangelogRelation,
    Relation,
    column,
    written,
)
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    INPUT_TIME,
    Calc,
    ChangelogNormalize,
    JoinTimes,
    PaneAggregate,
    RecomputeOperator,
    Stage,
    StageInput,
    StreamInput,
    TemporalJoin,
    WindowAggregate,
    input_column,
)
from penstock.sql.plan.logical.facts import Item
from penstock.sql.plan.placement.blocks import StageOptions
from penstock.sql.plan.rules.flow import ScanFlow
from penstock.sql.plan.rules.inline import waits_for_time
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of


class StageList:
    """The inputs and stages of a query so far. `queries` are the SQL of the inputs, by index.

    `of_engine` are the tables, by their numbers, that Spark reads itself.
    """

    def __init__(self, options: StageOptions, of_engine: frozenset[int] = frozenset()) -> None:
        self.options = options
        self._of_engine = of_engine
        self.feeds: list[StreamInput] = []
        self.queries: list[exp.Query] = []
        self.stages: list[Stage] = []
        self._known: dict[str, ChangelogRelation] = {}

    @property
    def timed(self) -> frozenset[int]:
        """The tables whose watermark operators of Spark wait for."""
        timed = (query for query in self.queries if waits_for_time(query) or window_tables(query))
        return frozenset(node.scan for query in timed for node in query.find_all(ScanTable))

    @property
    def ends_with_join_in_time(self) -> bool:
        """Whether the last stage is a join whose rows end."""
        last = self.stages[-1] if self.stages else None
        return isinstance(last, RecomputeOperator) and last.times is not None

    @property
    def joins_in_time(self) -> bool:
        """Whether there is a join whose rows end: no checkpoint of an earlier form has these stages."""
        stages = (stage for stage in self.stages if isinstance(stage, RecomputeOperator))
        return any(stage.times is not None for stage in stages)

    def name(self, word: str) -> str:
        """Name a stage uniquely."""
        return f"{word}_{len(self.stages)}"

    def staged(self, relation: Relation) -> ChangelogRelation:
        """Return a relation as changes: rows that Spark streams become an input, equal ones only once."""
        if isinstance(relation, ChangelogRelation):
            return relation
        text = to_text(relation.query)
        if text not in self._known:
            feed = self._feed(relation.query, relation.columns)
            self._known[text] = ChangelogRelation(name=feed, columns=relation.columns, inserts=True)
        return self._known[text]

    def table(self, node: exp.Table, table: ScanFlow, needed: frozenset[str] | None) -> Relation:
        """Return the columns `needed` (None: all) of a table: append-only rows are left to Spark,
        changes are an input.
        """
        bare = node.copy()
        for part in ("alias", "joins", "laterals"):
            bare.set(part, None)  # under one name, what is read twice is one feed
        key = table.key if table.changes is ChangelogMode.UPSERT and table.key is not None else ()
        names = tuple(n for n in table.columns if needed is None or n in needed or n in key)
        if table.changes is ChangelogMode.INSERT_ONLY:
            query = exp.select(*written([(name, column(name)) for name in names]))
            return AppendRelation(query=query.from_(bare, copy=False), columns=names or (ONE,))
        query = exp.select(*(column(name) for name in (*names, ROW_KIND))).from_(bare, copy=False)
        text = to_text(query)
        if text not in self._known:
            self._known[text] = self._changes(query, replace(table, columns=names), node)
        return self._known[text]

    def renamed(self, rows: ChangelogRelation) -> ChangelogRelation:
        """Return the rows under another name, which identifies an input of a stage."""
        query = exp.select(*(column(name) for name in (*rows.columns, ROW_KIND)))
        query = query.from_(exp.to_table(rows.name, quoted=True), copy=False)
        return self.calc(query, (rows.name,), rows)

    def calc(
        self,
        query: exp.Query,
        inputs: Sequence[str],
        rows: ChangelogRelation,
        *,
        of_windows: bool = False,
    ) -> ChangelogRelation:
        """Add SQL over changes, equal SQL only once; it gives `rows`, under a name of its own.

        `of_windows`: it groups the rows of closed windows.
        """
        text = to_text(query)
        if text not in self._known:
            name = self.name("rows")
            stage = Calc(name=name, inputs=tuple(inputs), query=query, of_windows=of_windows)
            self.stages.append(stage)
            self._known[text] = replace(rows, name=name)
        return self._known[text]

    def panes(self, groups: PaneAggregate) -> str:
        """Add groups of panes, equal ones only once; returns the name of the stage."""
        text = f"PANES {replace(groups, name='')}"
        if text not in self._known:
            self.stages.append(groups)
            self._known[text] = ChangelogRelation(
                name=groups.name, columns=groups.columns, inserts=True
            )
        return self._known[text].name

    def recompute(
        self,
        rows: ChangelogRelation,
        inputs: Sequence[StageInput],
        query: exp.Query,
        *,
        joins: bool = False,
        times: JoinTimes | None = None,
    ) -> ChangelogRelation:
        """Add the stage with state that gives `rows`, equal ones only once."""
        times_to_live = ", ".join(str(stage_input.time_to_live_ms) for stage_input in inputs)
        text = (
            f"{'; '.join(map(describe_input, inputs))}: {to_text(query)} ({times_to_live}; {times})"
        )
        if text not in self._known:
            assert rows.mechanism is not None, "it keeps rows"
            stage = RecomputeOperator(
                name=rows.name,
                inputs=tuple(inputs),
                query=query,
                key=rows.key,
                joins=joins,
                times=times,
                inserts=rows.inserts,
                mechanism=rows.mechanism,
            )
            self.stages.append(stage)
            self._known[text] = rows
        return self._known[text]

    def narrow(self, rows: ChangelogRelation, names: tuple[str, ...]) -> ChangelogRelation:
        """Return the first columns of a relation, which are `names`; the relation itself where there are no others."""
        if rows.columns == names:
            return rows
        query = exp.select(*(column(name) for name in (*names, ROW_KIND)))
        query = query.from_(exp.to_table(rows.name, quoted=True), copy=False)
        key = rows.key if rows.key is not None and set(rows.key) <= set(names) else None
        constants = rows.constants & set(names)
        return self.calc(
            query, (rows.name,), replace(rows, columns=names, key=key, constants=constants)
        )

    def narrowed(
        self, wide: ChangelogRelation, items: Sequence[exp.Expr], rows: ChangelogRelation
    ) -> ChangelogRelation | None:
        """Return `rows`, columns of a join in time, as what the join gives itself; None where it cannot.

        It is the last stage then, which nothing else has read: what it gives goes on to the next stage without a step
        in between, and columns that nothing reads do not leave it. The same join is another stage from then on.
        """
        last = self.stages[-1] if self.ends_with_join_in_time else None
        if not isinstance(last, RecomputeOperator) or last.name != wide.name:
            return None
        assert isinstance(last.query, exp.Select), "it is a join"
        columns = {item.alias: item.unalias() for item in last.query.expressions}
        values = [item.unalias() for item in items]
        if not all(isinstance(v, exp.Column) and v.name in columns for v in values):
            return None
        query = last.query.copy()
        query.set(
            "expressions",
            [
                exp.alias_(columns[value.name].copy(), item.alias, quoted=True)
                for item, value in zip(items, values, strict=True)
            ],
        )
        self.stages[-1] = replace(last, query=query, key=rows.key)
        self._known = {text: known for text, known in self._known.items() if known is not wide}
        return replace(rows, name=last.name)

    def versions(
        self,
        query: exp.Query,
        columns: tuple[str, ...],
        key: tuple[str, ...],
        changes: ChangelogMode,
        node: exp.Expr,
    ) -> ChangelogRelation:
        """Add an input of versions: changes of rows with a key, as they arrive, equal ones only once."""
        text = f"VERSIONS {to_text(query)}"
        if text not in self._known:
            self._known[text] = ChangelogRelation(
                name=self._feed(query, columns, changes=changes, key=key),
                columns=columns,
                key=key,
                origin=span_of(node),
            )
        return self._known[text]

    def waiting(
        self, stage: TemporalJoin | WindowAggregate, *, columns: tuple[str, ...]
    ) -> ChangelogRelation:
        """Add a stage whose rows wait for the watermark, and are then append-only; equal ones of panes only once."""
        rows = ChangelogRelation(
            name=stage.name,
            columns=columns,
            key=stage.key,
            inserts=True,
            mechanism=stage.mechanism,
        )
        if isinstance(stage, WindowAggregate) and stage.panes is not None:
            text = f"WINDOWS {stage.rows}: {to_text(stage.query)} {stage.panes} {stage.waits_for}"
            if text in self._known:
                return self._known[text]
            self._known[text] = rows
        self.stages.append(stage)
        return rows

    def _changes(self, query: exp.Query, table: ScanFlow, node: exp.Table) -> ChangelogRelation:
        upserts = table.changes is ChangelogMode.UPSERT
        known = table.key is not None and set(table.key) <= set(table.columns)
        key = table.key if known else None
        feed = self._feed(query, table.columns, changes=table.changes, key=key if upserts else None)
        if not upserts:
            return ChangelogRelation(
                name=feed, columns=table.columns, key=key, origin=span_of(node)
            )
        assert key is not None, "upserts have a key, and it is read"
        name = self.name("normalize")
        self.stages.append(ChangelogNormalize(name=name, input=feed, key=key))
        return ChangelogRelation(name=name, columns=table.columns, key=key, origin=span_of(node))

    def _feed(
        self,
        query: exp.Query,
        columns: tuple[str, ...],
        changes: ChangelogMode = ChangelogMode.INSERT_ONLY,
        key: tuple[str, ...] | None = None,
    ) -> str:
        name = f"feed_{len(self.feeds)}"
        scans = frozenset(table.scan for table in query.find_all(ScanTable))
        self.feeds.append(
            StreamInput(
                name=name,
                columns=columns,
                changes=changes,
                key=key,
                scans=scans,
                shuffled=not scans.isdisjoint(self._of_engine) or _is_shuffled(query),
            )
        )
        self.queries.append(query)
        return name


_ROW_BY_ROW = {"expressions", "from_", "where", "with_", "hint", "joins"}
"""The clauses of a SELECT whose rows are those of its FROM, in their order; of joins only those with UNNEST."""


def _is_shuffled(query: exp.Query) -> bool:
    """Return whether the rows of a query are not those of its tables, one by one and in their order."""
    for node in query.find_all(exp.Select, exp.SetOperation, exp.AggFunc):
        match node:
            case exp.Select():
                filled = {name for name, part in node.args.items() if part}
                if not filled <= _ROW_BY_ROW or node.find_ancestor(exp.Where) is not None:
                    return True
                if not all(isinstance(j.this, exp.Unnest) for j in node.args.get("joins") or ()):
                    return True
            case exp.Union():
                if node.args.get("distinct"):
                    return True
            case _:
                return True
    return False


def union_inputs(queries: Sequence[exp.Query], feeds: Sequence[StreamInput]) -> exp.Query:
    """Return the query whose rows have INPUT_INDEX, INPUT_TIME, and a STRUCT for each input, NULL but for their own."""
    return union_of([input_select(query, feeds, index) for index, query in enumerate(queries)])


def union_of(parts: Sequence[exp.Query]) -> exp.Query:
    """Return UNION ALL of some queries."""
    union: exp.Query = parts[0]
    for part in parts[1:]:
        union = exp.Union(this=union, expression=part, distinct=False)
    return union


def input_select(query: exp.Query, feeds: Sequence[StreamInput], index: int) -> exp.Select:
    """Return the rows of one input for `union_inputs`."""
    feed = feeds[index]
    names = list(feed.columns)
    if feed.changes is not ChangelogMode.INSERT_ONLY:
        names.append(ROW_KIND)
    rows = input_row([(name, column(name)) for name in names])
    select = exp.select().from_(query.copy().subquery(feed.name), copy=False)
    number = exp.cast(exp.Literal.number(index), exp.DType.INT)
    return with_rows(select, feeds, number, {index: rows})


def input_row(items: Sequence[Item]) -> exp.Expr:
    """Write the row of an input as a STRUCT."""
    fields: list[exp.Expr] = []
    for name, value in items:
        fields += [exp.Literal.string(name), value]
    return exp.Anonymous(this="named_struct", expressions=fields)


def with_rows(
    select: exp.Select,
    feeds: Sequence[StreamInput],
    number: exp.Expr,
    rows: Mapping[int, exp.Expr],
) -> exp.Select:
    """Give a SELECT the columns of `union_inputs`: the number of the input, and the rows by their input."""
    columns = [
        exp.alias_(rows.get(i, exp.null()), input_column(i), quoted=True) for i in range(len(feeds))
    ]
    # in a stream it is the batch's time, which Spark keeps in the checkpoint: the same when the batch is replayed
    time = exp.alias_(exp.CurrentTimestamp(), INPUT_TIME, quoted=True)
    return select.select(exp.alias_(number, INPUT_INDEX, quoted=True), time, *columns, copy=False)
