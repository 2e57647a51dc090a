"""Let reading tasks group the rows of an input by pane: the first phase of an aggregation by windows that a stage runs.

For an input that selects rows of one table, which nothing else reads, where tasks compute its conditions, keys and
arguments. Stages, and what a checkpoint has of them, are the same: the groups of tasks are grouped again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.catalog.model import types as t
from penstock.catalog.model.table import Schema
from penstock.connector.expression import (
    Constant,
    NamedExpression,
    PartialAggregate,
    PartialResult,
)
from penstock.sql.incremental.planning.relation import column
from penstock.sql.incremental.planning.shared_scan import (
    ScanQuery,
    combine_inputs,
    read_scan_query,
)
from penstock.sql.incremental.stages import (
    PANE_ROWS,
    IncrementalQuery,
    PaneAggregate,
    PartialCall,
    StreamInput,
    inputs_of,
)
from penstock.sql.plan.rules.push_filters import RowNames, is_sure, rows_of_table
from penstock.sql.plan.spark_text.two_phases import COMPARED, merged_call
from penstock.sql.syntax.nodes import ScanTable


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedInputs:
    """A query some of whose inputs come as groups of panes: `aggregates` by the scan of their table.

    `combined` is what Spark streams, and `maintained` the stages over it.
    """

    combined: exp.Expr
    maintained: IncrementalQuery
    aggregates: Mapping[int, PartialAggregate]


def group_inputs(
    maintained: IncrementalQuery,
    queries: Sequence[exp.Query],
    schemas: Mapping[int, Schema],
    *,
    checked: frozenset[int],
) -> GroupedInputs | None:
    """Return the query with the inputs that reading tasks group; None where there is none.

    `queries` are those of the inputs, `schemas` those of tables that tasks group, by the scan; `checked` are the scans
    all of whose conditions tasks check.
    """
    readers = Counter(name for stage in maintained.stages for name in inputs_of(stage))
    scans = Counter(node.scan for query in queries for node in query.find_all(ScanTable))
    stages, feeds, inputs = list(maintained.stages), list(maintained.feeds), list(queries)
    names = [feed.name for feed in feeds]
    found: dict[int, PartialAggregate] = {}
    for n, stage in enumerate(stages):
        if not isinstance(stage, PaneAggregate) or readers[stage.input] > 1:
            continue
        if stage.input not in names:
            continue
        index = names.index(stage.input)
        scanned = read_scan_query(queries[index])
        if scanned is None or scans[scan := scanned.scan.scan] > 1 or scan not in checked:
            continue
        aggregate = first_phase(stage, scanned, schemas[scan]) if scan in schemas else None
        if aggregate is None:
            continue
        found[scan] = aggregate
        stages[n] = replace(stage, merges=True)
        inputs[index], feeds[index] = _groups(stage, scanned, aggregate, feeds[index])
    if not found:
        return None
    return GroupedInputs(
        combined=combine_inputs(inputs, feeds),
        maintained=replace(maintained, stages=tuple(stages)),
        aggregates=found,
    )


def first_phase(
    stage: PaneAggregate, scanned: ScanQuery, schema: Schema
) -> PartialAggregate | None:
    """Return how tasks group the rows of an input of a stage; None where they cannot."""
    rows = rows_of_table(scanned.scan.scan, schema)
    names, table = RowNames(rows, ()), dict(rows.table)
    time = names.value(scanned.values[stage.time])
    own = None if schema.watermark is None else table[schema.watermark.column]
    if (
        time is None
        or time != own
        or not isinstance(time.type, t.TimestampType | t.TimestampLtzType)
    ):
        return None
    keys = [names.value(scanned.values[key]) for key in stage.keys]
    known = [key for key in keys if key is not None and not isinstance(key, Constant)]
    fit = all(is_sure(key) and isinstance(key.type, COMPARED) for key in known)
    results = [_result(part, scanned, names) for part in stage.parts]
    parts = [result for result in results if result is not None]
    if not (fit and is_sure(time)) or len(known) < len(keys) or len(parts) < len(results):
        return None
    assert schema.watermark is not None, "it has a rowtime"
    return PartialAggregate(
        time=NamedExpression(name=schema.watermark.column, value=time),
        pane_ms=stage.panes.pane_ms,
        offset_ms=stage.panes.offset_ms,
        keys=tuple(NamedExpression(name=f"__key_{n}", value=key) for n, key in enumerate(known)),
        results=tuple(parts),
    )


def _result(part: PartialCall, scanned: ScanQuery, names: RowNames) -> PartialResult | None:
    """Return a part as tasks compute it; None where they do not."""
    call: exp.Expr = part.call.copy().transform(
        lambda node: scanned.values[node.name].copy() if isinstance(node, exp.Column) else node
    )
    merged = merged_call(call, names)
    if merged is None or len(merged.parts) != 1:
        return None
    return replace(merged.parts[0], name=part.name)


def _groups(
    stage: PaneAggregate, scanned: ScanQuery, aggregate: PartialAggregate, feed: StreamInput
) -> tuple[exp.Query, StreamInput]:
    """Return the query of an input whose table gives groups, and the input with its columns."""
    assert aggregate.time is not None, "groups are of panes"
    names = dict(zip(stage.keys, (key.name for key in aggregate.keys), strict=True))
    names |= {stage.time: aggregate.time.name}
    names |= {name: name for name in (*(part.name for part in stage.parts), PANE_ROWS)}
    scan = scanned.scan.copy()
    scan.set("alias", None)
    query = exp.select(
        *(exp.alias_(column(of), name, quoted=True) for name, of in names.items())
    ).from_(scan, copy=False)
    return query, replace(feed, columns=tuple(names))
