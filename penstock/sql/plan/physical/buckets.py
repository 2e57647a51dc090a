"""Find whether reading tasks give the rows of keyed operators by bucket, and how: columns, conditions and keys.

They do where a query reads one table, whose rows are only added, and all that its inputs take of it is in the set of
`expressions/fragments.py`. Else Spark computes the inputs, and finds the buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from penstock.catalog.model.table import Schema
from penstock.catalog.model.types import BooleanType
from penstock.connector.arrow import arrow_type
from penstock.connector.changelog import ChangelogMode
from penstock.connector.expression import (
    BucketedInput,
    BucketedRows,
    Expression,
    NamedExpression,
)
from penstock.connector.spark.source.buckets import is_hashed
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.planning.shared_scan import ScanQuery, read_scan_query
from penstock.sql.incremental.stages import StreamInput
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.rules.push_filters import RowNames, all_of, is_sure, rows_of_table


def bucketed_rows(
    analysed: AnalysedQuery,
    layouts: Sequence[KeyedLayout],
    schemas: Mapping[str, pa.Schema],
    buckets: int,
) -> BucketedRows | None:
    """Return what reading tasks give keyed operators; None where they cannot.

    `layouts` are those of the query's inputs in their order, `schemas` the columns of the inputs as Spark has them.
    """
    assert analysed.maintained is not None, "it has inputs"
    feeds = analysed.maintained.feeds
    if len(analysed.leaves) != 1 or len(analysed.inputs) != len(feeds):
        return None
    (leaf,) = analysed.leaves
    if not leaf.by_splits or leaf.looked_up or leaf.grouped is not None:
        return None
    found = []
    for query, feed, layout in zip(analysed.inputs, feeds, layouts, strict=True):
        if feed.changes is not ChangelogMode.INSERT_ONLY:
            return None
        scanned = read_scan_query(query)
        if scanned is None or not all(is_hashed(kind) for kind in layout.key_types):
            return None
        one = _input(scanned, feed, layout, leaf.read_table.schema, schemas[feed.name])
        if one is None:
            return None
        found.append(one)
    return BucketedRows(buckets=buckets, inputs=tuple(found))


def _input(
    scanned: ScanQuery, feed: StreamInput, layout: KeyedLayout, table: Schema, schema: pa.Schema
) -> BucketedInput | None:
    names = RowNames(rows_of_table(scanned.scan.scan, table), ())
    values = [_value(scanned.values[name], names) for name in feed.columns]
    tests = [_value(test, names) for test in scanned.conditions]
    known = [value for value in values if value is not None]
    conditions = [test for test in tests if test is not None and isinstance(test.type, BooleanType)]
    if len(known) < len(values) or len(conditions) < len(tests):
        return None
    # a value that Spark has in another type would be another one
    if any(not arrow_type(v.type).equals(of.type) for v, of in zip(known, schema, strict=True)):
        return None
    return BucketedInput(
        columns=tuple(
            NamedExpression(name=name, value=value)
            for name, value in zip(feed.columns, known, strict=True)
        ),
        key=tuple(feed.columns.index(name) for name in layout.key),
        condition=all_of(conditions),
    )


def _value(tree: exp.Expr, names: RowNames) -> Expression | None:
    value = names.value(tree)
    return value if value is not None and is_sure(value) else None
