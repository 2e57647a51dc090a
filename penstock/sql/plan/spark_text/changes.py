"""Row kinds as SQL: projection and filter over changes.

A filter over before-and-after changes drops rows of either side alike. Over upserts a row that does not pass becomes
the delete of its key: the row it replaces may have passed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.plan.rules.changelog_project import (
    QualifiedRelation,
    deletes,
    expanded,
    is_computed,
)
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "add_kind",
    "compute_only_where",
    "delete",
    "expand_stars",
    "is_one_of",
    "kind_literal",
    "kind_of",
    "project_changes",
]


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
        add_kind(select, kind_of(source))


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


def compute_only_where(select: exp.Select, passes: exp.Expr, but: Sequence[exp.Expr] = ()) -> None:
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
    compute_only_where(select, passes)
    stays = passes
    if source.kinds:
        stays = exp.and_(passes, exp.not_(is_one_of(kind_of(source), RowKind.DELETE)))
    return exp.Case(ifs=[exp.If(this=stays, true=kind_of(source))], default=delete())


# --- kinds ---


def kind_literal(kind: RowKind) -> exp.Expr:
    """Return a row kind as SQL, in the type of the column."""
    return exp.cast(exp.Literal.number(int(kind)), exp.DType.TINYINT)


def kind_of(flow: Flow) -> exp.Expr:
    """Return the kind of a row of `flow` as SQL: its hidden column, or the kind of all its rows."""
    if flow.kinds:
        return exp.column(ROW_KIND, quoted=True)
    return kind_literal(RowKind.UPDATE_AFTER if flow.is_changing else RowKind.INSERT)


def is_one_of(kind: exp.Expr, *kinds: RowKind) -> exp.Expr:
    """Test a row's kind."""
    return exp.In(this=kind, expressions=[exp.Literal.number(int(k)) for k in kinds])


def delete() -> exp.Expr:
    """Return the kind of a deleted row."""
    return kind_literal(RowKind.DELETE)
