"""Changes as SQL: row kinds, projections, filters and aggregations in Spark's update mode.

A filter over before-and-after changes drops rows of either side alike. Over upserts a row that does not pass becomes
the delete of its key: the row it replaces may have passed. Each row of an aggregation replaces that of its group: over
inserts all aggregates; those of DISTINCT values keep the set of values, as Spark has no DISTINCT in streams, and those
of windows do so, too. Over changes with the row before and after SUM, COUNT and AVG add insertions and subtract
retractions (Flink's retractable aggregates); a group without rows is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.sql.dialect import to_text
from penstock.sql.plan.rules.aggregate import (
    WHOLE,
    check_distinct,
    is_windowed,
    may_delete,
    own_aggregates,
    total_type,
)
from penstock.sql.plan.rules.changelog_project import (
    QualifiedRelation,
    deletes,
    expanded,
    is_computed,
)
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.refusal import Refusal
from penstock.sql.syntax.traversal import find_nodes

# --- projections and filters ---


def project_changes(
    select: exp.Select,
    relations: Sequence[QualifiedRelation],
    source: Flow,
    conditions: Sequence[exp.Expr],
) -> None:
    """Rewrite a SELECT over changes to pass their kinds on. `conditions` beside its WHERE decide what stays."""
    where = select.args.get("where")
    if source.kinds or where is not None or conditions:
        expand_stars(select, relations)
    if deletes(source, relations[0].alias, where, conditions):
        add_kind(select, _deletes_instead(select, source, conditions))
    elif source.kinds:
        add_kind(select, _kind_of(source))


def add_kind(query: exp.Expr, kind: exp.Expr) -> None:
    """Add a kind to every row of `query`, in the hidden column behind the others."""
    match query:
        case exp.Subquery():
            add_kind(query.this, kind)
        case exp.SetOperation():
            add_kind(query.this, kind.copy())
            add_kind(query.expression, kind.copy())
        case exp.Select():
            query.append("expressions", exp.alias_(kind, ROW_KIND, quoted=True))
        case _:
            raise AssertionError(f"{query.key} has no SELECT list: it was checked")


def expand_stars(select: exp.Select, relations: Sequence[QualifiedRelation]) -> None:
    """Expand `*` and `t.*`, so that the hidden column stays the last."""
    items = expanded(select, relations)
    assert not isinstance(items, Refusal), "it was checked"
    select.set("expressions", items)


def _compute_only_where(select: exp.Select, passes: exp.Expr, but: Sequence[exp.Expr] = ()) -> None:
    """Return NULL in the columns, `but` some, of rows that do not pass.

    Rows that a filter drops must not fail the query: WHERE x <> 0 beside 1 / x.
    """
    for item in select.expressions:
        value = item.unalias()
        if not is_computed(value) or value in but:
            continue
        guarded = exp.Case(ifs=[exp.If(this=passes.copy(), true=value.copy())])
        guarded.type = value.type
        value.replace(guarded)


def _deletes_instead(select: exp.Select, source: Flow, conditions: Sequence[exp.Expr]) -> exp.Expr:
    """Remove the WHERE, and mark the rows that do not pass as DELETE. Other columns of such rows are not computed."""
    where = select.args.get("where")
    select.set("where", None)
    tests = [*conditions, *([where.this] if where is not None else [])]
    passes = exp.and_(*(test.copy() for test in tests))
    _compute_only_where(select, passes)
    stays = passes
    if source.kinds:
        stays = exp.and_(passes, exp.not_(_is_one_of(_kind_of(source), RowKind.DELETE)))
    return exp.Case(ifs=[exp.If(this=stays, true=_kind_of(source))], default=delete())


# --- kinds ---


def kind_literal(kind: RowKind) -> exp.Expr:
    """Return a row kind as SQL, in the type of the column."""
    return exp.cast(exp.Literal.number(int(kind)), exp.DType.TINYINT)


def _kind_of(flow: Flow) -> exp.Expr:
    """Return the kind of a row of `flow` as SQL: its hidden column, or the kind of all its rows."""
    if flow.kinds:
        return exp.column(ROW_KIND, quoted=True)
    return kind_literal(RowKind.UPDATE_AFTER if flow.is_changing else RowKind.INSERT)


def _is_one_of(kind: exp.Expr, *kinds: RowKind) -> exp.Expr:
    """Test a row's kind."""
    return exp.In(this=kind, expressions=[exp.Literal.number(int(k)) for k in kinds])


def delete() -> exp.Expr:
    """Return the kind of a deleted row."""
    return kind_literal(RowKind.DELETE)


# --- aggregations ---


def write_aggregate(select: exp.Select, source: Flow) -> None:
    """Rewrite an aggregation over `source` for update mode."""
    retracting = source.changes is ChangelogMode.ALL
    if retracting:
        _retract(select, source)
    else:
        keep_distinct(select)
    if may_delete(select, retracting=retracting):
        _add_kind(select, source, retracting=retracting)


def _add_kind(select: exp.Select, source: Flow, *, retracting: bool) -> None:
    """Add the kind of a group's row."""
    having = select.args.get("having")
    tests: list[exp.Expr] = []
    if retracting:
        rows = exp.Sum(this=_sign(source))
        tests.append(exp.GT(this=rows, expression=exp.Literal.number(0)))
    if having is not None:
        select.set("having", None)
        tests.append(exp.paren(having.this.copy()))
    passes = exp.and_(*tests)
    group = select.args.get("group")
    _compute_only_where(select, passes, group.expressions if group is not None else ())
    updated = exp.If(this=passes, true=kind_literal(RowKind.UPDATE_AFTER))
    add_kind(select, exp.Case(ifs=[updated], default=delete()))


def keep_distinct_of_streams(query: exp.Expr, streams: frozenset[int]) -> None:
    """Rewrite the aggregates of DISTINCT values in windows, and of the scans `streams`. Raises UnsupportedError."""
    for select in find_nodes(query, exp.Select):
        group = select.args.get("group")
        if group is None:
            continue
        if is_windowed(group.expressions) or _reads(select, streams):
            if (refusal := check_distinct(select)) is not None:
                raise refusal.error()
            keep_distinct(select)


def _reads(select: exp.Select, scans: frozenset[int]) -> bool:
    from_ = select.args.get("from_")
    return from_ is not None and any(n.scan in scans for n in find_nodes(from_, ScanTable))


def keep_distinct(select: exp.Select) -> None:
    """Rewrite aggregates of DISTINCT values as ones of the set of values."""
    for node in own_aggregates(select):
        if isinstance(node.this, exp.Distinct):
            outer, condition = _with_filter(node)
            _replace(outer, _of_set(node, node.this, condition))


def _of_set(node: exp.AggFunc, distinct: exp.Distinct, condition: exp.Expr | None) -> exp.Expr:
    values = distinct.expressions
    if isinstance(node, exp.Min | exp.Max):
        return type(node)(this=_where(condition, values[0].copy()))
    values_set = exp.ArrayUniqueAgg(this=_where(condition, _one_value(values)))
    size = exp.cast(exp.Anonymous(this="size", expressions=[values_set]), exp.DType.BIGINT)
    if isinstance(node, exp.Count):
        return size
    kind = total_type(values[0])
    assert kind is not None, "it was checked"
    total = _typed(_total(values_set.copy(), kind), kind)
    if isinstance(node, exp.Avg):
        size.type = exp.DataType.build(exp.DType.BIGINT)
        total = exp.Div(this=total, expression=size.copy())
    empty = exp.EQ(this=size.copy(), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=exp.not_(empty), true=total)])


def _one_value(values: list[exp.Expr]) -> exp.Expr:
    """Return the value, or values, as one; NULL if any is NULL, as COUNT(DISTINCT a, b) ignores such rows."""
    if len(values) == 1:
        return values[0].copy()
    there = exp.and_(*(_is_there(value) for value in values))
    together = exp.Anonymous(this="struct", expressions=[value.copy() for value in values])
    return exp.Case(ifs=[exp.If(this=there, true=together)])


def _total(values: exp.Expr, kind: exp.DType) -> exp.Expr:
    names = [exp.to_identifier(name) for name in ("a", "b")]
    add = exp.Add(this=exp.column("a"), expression=exp.column("b"))
    start = exp.cast(exp.Literal.number(0), kind)
    step = exp.Lambda(this=add, expressions=names)
    return exp.Anonymous(this="aggregate", expressions=[values, start, step])


def _retract(select: exp.Select, source: Flow) -> None:
    for node in own_aggregates(select):
        outer, condition = _with_filter(node)
        _replace(outer, _signed(node, condition, source))


def _signed(node: exp.AggFunc, condition: exp.Expr | None, source: Flow) -> exp.Expr:
    value = node.this
    if isinstance(node, exp.Count):
        there = None if isinstance(value, exp.Star | exp.Literal) else _is_there(value)
        return _count(_both(condition, there), source)
    count = _count(_both(condition, _is_there(value)), source)
    negated = exp.Sub(this=exp.Literal.number(0), expression=exp.paren(value.copy()))
    added = _is_one_of(_kind_of(source), RowKind.INSERT, RowKind.UPDATE_AFTER)
    signed = exp.Case(ifs=[exp.If(this=added, true=value.copy())], default=negated)
    total: exp.Expr = exp.Sum(this=_where(condition, signed))
    if isinstance(node, exp.Avg):
        total = exp.Div(
            this=_typed(total, total_type(value)),
            expression=_typed(count.copy(), exp.DType.BIGINT),
        )
        if not value.is_type(*WHOLE):
            total.this.type = exp.DataType.build(exp.DType.DOUBLE)
    some = exp.GT(this=count, expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=total)])


def _sign(source: Flow) -> exp.Expr:
    added = _is_one_of(_kind_of(source), RowKind.INSERT, RowKind.UPDATE_AFTER)
    one, minus = exp.Literal.number(1), exp.Neg(this=exp.Literal.number(1))
    return exp.Case(ifs=[exp.If(this=added, true=one)], default=minus)


def _count(condition: exp.Expr | None, source: Flow) -> exp.Expr:
    signs: exp.Expr = _sign(source)
    if condition is not None:
        signs = exp.Case(ifs=[exp.If(this=condition, true=signs)], default=exp.Literal.number(0))
    return exp.Sum(this=signs)


def _with_filter(node: exp.AggFunc) -> tuple[exp.Expr, exp.Expr | None]:
    """Return the aggregate with its FILTER around it, and the condition of that."""
    parent = node.parent
    if isinstance(parent, exp.Filter) and parent.this is node:
        return parent, parent.expression.this
    return node, None


def _replace(old: exp.Expr, new: exp.Expr) -> None:
    new.type = old.type
    # a bare aggregate gives its column a name that its replacement would not
    if isinstance(old.parent, exp.Select):
        new = exp.alias_(new, to_text(old), quoted=True)
    old.replace(new)


def _is_there(value: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=exp.paren(value.copy()), expression=exp.null()))


def _both(*conditions: exp.Expr | None) -> exp.Expr | None:
    there = [condition.copy() for condition in conditions if condition is not None]
    return exp.and_(*there) if there else None


def _where(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    if condition is None:
        return value
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def _typed(node: exp.Expr, kind: exp.DType | None) -> exp.Expr:
    if kind is not None:
        node.type = exp.DataType.build(kind)
    return node
