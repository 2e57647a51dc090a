"""Find whether reading tasks give the rows of keyed operators by bucket, and how: columns, conditions and keys.

They do where a query reads one table, whose rows are only added, and all that its inputs take of it is in the set of
`expressions/fragments.py`. Else Spark computes the inputs, and finds the buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from penstock.catalog.model.table import Schema
from penstock.catalog.model.types import BigIntType, BooleanType
from penstock.connector.arrow import arrow_type
from penstock.connector.changelog import ChangelogMode
from penstock.connector.expression import (
    ROWS,
    BucketedInput,
    BucketedRows,
    Expression,
    FieldValue,
    NamedExpression,
    PartialAggregate,
)
from penstock.connector.spark.source.buckets import is_hashed
from penstock.sql.expressions.value_types import differs_in, may_fail
from penstock.sql.incremental.keyed.runtime.plan import BucketInput
from penstock.sql.incremental.planning.first_phase import first_phase
from penstock.sql.incremental.planning.shared_scan import ScanQuery, read_scan_query
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.rules.push_filters import RowNames, all_of, rows_of_table


def bucketed_rows(
    analysed: AnalysedQuery,
    inputs: Sequence[BucketInput],
    schemas: Mapping[str, pa.Schema],
    buckets: int,
    zone: str = "UTC",
) -> BucketedRows | None:
    """Return what reading tasks give keyed operators; None where they cannot.

    `inputs` are what stages take, `schemas` the columns of all relations as Spark has them, and `zone` is the time zone
    of its session.
    """
    assert analysed.maintained is not None, "it has inputs"
    if len(analysed.leaves) != 1:
        return None
    (leaf,) = analysed.leaves
    others = leaf.grouped is not None and leaf.panes is None
    if not leaf.by_splits or leaf.looked_up or others:
        return None
    queries = {
        feed.name: query
        for feed, query in zip(analysed.maintained.feeds, analysed.inputs, strict=True)
        if feed.changes is ChangelogMode.INSERT_ONLY
    }
    found = []
    for one in inputs:
        scanned = read_scan_query(queries[one.feed]) if one.feed in queries else None
        if scanned is None or not all(is_hashed(kind) for kind in one.layout.key_types):
            return None
        rows = _input(scanned, one, leaf.read_table.schema, schemas[one.name], zone)
        if rows is None:
            return None
        found.append(rows)
    return BucketedRows(buckets=buckets, inputs=tuple(found))


def _input(
    scanned: ScanQuery, of: BucketInput, table: Schema, schema: pa.Schema, zone: str
) -> BucketedInput | None:
    names = RowNames(rows_of_table(scanned.scan.scan, table), ())
    tests = [_value(test, names, zone) for test in scanned.conditions]
    conditions = [test for test in tests if test is not None and isinstance(test.type, BooleanType)]
    if len(conditions) < len(tests):
        return None
    groups = None
    if of.panes is None:
        values = {name: _value(scanned.values[name], names, zone) for name in schema.names}
    else:
        groups = first_phase(replace(of.panes, merges=False), scanned, table)
        if groups is None:
            return None
        values = dict(zip(of.panes.columns, _of_groups(groups), strict=True))
    columns = tuple(
        NamedExpression(name=name, value=value)
        for name, value in values.items()
        if value is not None
    )
    # a value that Spark has in another type would be another one
    if len(columns) < len(schema) or any(
        not arrow_type(column.value.type).equals(own.type)
        for column, own in zip(columns, schema, strict=True)
    ):
        return None
    return BucketedInput(
        columns=columns,
        key=tuple(schema.names.index(name) for name in of.layout.key),
        condition=all_of(conditions),
        groups=groups,
    )


def _of_groups(groups: PartialAggregate) -> Iterator[Expression]:
    """Iterate over the columns of groups in the order of a PaneAggregate: keys, pane, parts, rows."""
    assert groups.time is not None, "they are of panes"
    for column in (*groups.keys, groups.time):
        yield FieldValue(path=(column.name,), type=column.value.type)
    for result in groups.results:
        yield FieldValue(path=(result.name,), type=result.type)
    yield FieldValue(path=(ROWS,), type=BigIntType())


def _value(tree: exp.Expr, names: RowNames, zone: str) -> Expression | None:
    value = names.value(tree)
    return None if value is None or may_fail(value) or differs_in(zone, value) else value
