"""The streaming query of a maintained query: all its feeds in one UNION ALL, each in a column of its own."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode
from penstock.sql.maintain.relation import column
from penstock.sql.maintain.stages import FEED, FEED_TIME, Feed, feed_column

__all__ = ["tagged"]


def tagged(queries: Sequence[exp.Query], feeds: Sequence[Feed]) -> exp.Query:
    """Give the query whose rows have FEED, FEED_TIME, and a STRUCT for each feed, NULL but for their own."""
    parts = [_part(query, feeds, index) for index, query in enumerate(queries)]
    union: exp.Query = parts[0]
    for part in parts[1:]:
        union = exp.Union(this=union, expression=part, distinct=False)
    return union


def _part(query: exp.Query, feeds: Sequence[Feed], index: int) -> exp.Select:
    feed = feeds[index]
    names = list(feed.columns)
    if feed.changes is not ChangelogMode.INSERT_ONLY:
        names.append(ROW_KIND)
    fields: list[exp.Expr] = []
    for name in names:
        fields += [exp.Literal.string(name), column(name)]
    rows = exp.Anonymous(this="named_struct", expressions=fields)
    columns = [
        exp.alias_(rows if i == index else exp.null(), feed_column(i), quoted=True)
        for i in range(len(feeds))
    ]
    # in a stream it is the batch's time, which Spark keeps in the checkpoint: the same when the batch is replayed
    time = exp.alias_(exp.CurrentTimestamp(), FEED_TIME, quoted=True)
    number = exp.alias_(exp.cast(exp.Literal.number(index), exp.DType.INT), FEED, quoted=True)
    return exp.select(number, time, *columns).from_(query.copy().subquery(feed.name), copy=False)
