"""What is known of a query before any JVM runs, as values: `analysis.py` finds it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.catalog.table import Table
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import EngineSource, OutputMode
from penstock.connector.rowtime import Rowtime
from penstock.sql.maintain.describe import describe_maintained
from penstock.sql.maintain.stages import Maintained, Recompute
from penstock.sql.plan.fields import Paths, narrowed
from penstock.sql.plan.flow import Flow
from penstock.sql.plan.mechanism import describe_changes, describe_mechanism
from penstock.sql.plan.ties import ARRIVES

__all__ = ["AnalysedLeaf", "AnalysedQuery", "mechanism_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedLeaf:
    """A table that a query reads. `columns` come from the source, `computed` are Flink SQL over them.

    `rowtime` is set when the query waits for the table's watermark, or the table is aligned by it; `by_splits`
    tells the split runtime's tables from those that the engine reads. `group` is the table's alignment group.
    `looked_up`: each batch reads the whole table anew, it is no source of the stream. `marked`: operators with state
    take the rowtime for event time, and drop what is late. `source` is there where no connector has the table.
    `fields` are those that are read of the columns whose rows are not read whole.
    """

    table: Table
    columns: tuple[str, ...]
    computed: Mapping[str, str] = field(default_factory=dict)
    rowtime: Rowtime | None = None
    by_splits: bool = True
    bounded: bool = False
    group: str | None = None
    looked_up: bool = False
    marked: bool = True
    fields: Mapping[str, Paths] = field(default_factory=dict)
    source: EngineSource | None = field(default=None, compare=False, repr=False)

    @property
    def read_table(self) -> Table:
        """Give the table as it is read: rows have the fields that are asked for."""
        return replace(self.table, schema=narrowed(self.table.schema, self.fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedQuery:
    """A query without views, its table nodes labelled with their leaf. `bounded`: every table it reads has an end.

    `flow` says how its rows change; `query` is rewritten accordingly, with ROW_KIND as last column if `flow.kinds`.
    Of a query that is `maintained` it gives the feeds, and `flow` is that of the last stage.
    """

    query: exp.Expr
    leaves: tuple[AnalysedLeaf, ...]
    flow: Flow = Flow(columns=None)  # noqa: RUF009 - a frozen value
    maintained: Maintained | None = None

    @property
    def bounded(self) -> bool:
        """Whether every table read has an end."""
        return all(leaf.bounded for leaf in self.leaves)

    @property
    def followed(self) -> tuple[AnalysedLeaf, ...]:
        """The tables that are sources of the stream, in the order that a checkpoint knows them by."""
        return tuple(leaf for leaf in self.leaves if not leaf.looked_up)

    @property
    def breaks_ties(self) -> bool:
        """Whether it asks which of rows with equal order came first."""
        if any(table.meta.get(ARRIVES) for table in self.query.find_all(exp.Table)):
            return True
        stages = () if self.maintained is None else self.maintained.stages
        inputs = (
            given for stage in stages if isinstance(stage, Recompute) for given in stage.inputs
        )
        return any(given.by_batch for given in inputs)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Give the names of `followed`."""
        return tuple(str(leaf.table.identifier) for leaf in self.followed)

    @property
    def output(self) -> OutputMode:
        """The output mode that Spark runs the query in."""
        in_update_mode = self.maintained is None and self.flow.mechanism is not None
        return OutputMode.UPDATE if in_update_mode else OutputMode.APPEND

    @property
    def changes(self) -> ChangelogMode:
        """What the rows of the frame are; unless INSERT_ONLY it has the column ROW_KIND."""
        return self.flow.changes if self.flow.kinds else ChangelogMode.INSERT_ONLY


def mechanism_lines(query: AnalysedQuery, *, state_ttl_ms: int = 0) -> tuple[str, ...]:
    """Say how the changes of a query are made: mechanism, key and state; empty where every row stays."""
    flow = query.flow
    lines: list[str] = []
    if query.maintained is not None:
        lines += describe_maintained(query.maintained, state_ttl_ms=state_ttl_ms)
    elif not flow.is_changing:
        return ()
    elif flow.mechanism is not None:
        lines += describe_mechanism(flow.mechanism)
    lines += [
        f"lookup: {leaf.table.identifier} is looked up in each batch; no state"
        for leaf in query.leaves
        if leaf.looked_up
    ]
    return (*lines, describe_changes(flow.changes, flow.key))
