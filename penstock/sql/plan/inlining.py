"""Writes the queries of WITH out where they are named, so that every relation stands where it is used."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.walking import find_nodes

__all__ = ["inline_ctes"]


def inline_ctes(query: exp.Expr) -> exp.Expr:
    """Give `query` without WITH; a query that is named twice stands there twice. The tree is changed."""
    with_ = query.args.get("with_")
    if with_ is not None:
        query.set("with_", None)
        known: dict[str, exp.CTE] = {}
        for cte in with_.expressions:
            _fill(cte.this, known)
            inline_ctes(cte.this)
            known[cte.alias] = cte
        _fill(query, known)
    for inner in [node for node in find_nodes(query, exp.Query) if node.args.get("with_")]:
        inline_ctes(inner)
    return query


def _fill(query: exp.Expr, known: dict[str, exp.CTE]) -> None:
    # a WITH further in may give a name another meaning; Flink resolves the nearest
    for table in find_nodes(query, exp.Table):
        cte = known.get(table.name)
        if cte is None or table.db or not isinstance(table.this, exp.Identifier):
            continue
        if _is_hidden(table, query):
            continue
        columns = table.args["alias"].columns if table.args.get("alias") else []
        alias = exp.TableAlias(
            this=exp.to_identifier(table.alias or table.name, quoted=True),
            columns=[c.copy() for c in columns or cte.args["alias"].columns],
        )
        table.replace(
            exp.Subquery(
                this=cte.this.copy(),
                alias=alias,
                joins=table.args.get("joins"),
                version=table.args.get("version"),
            )
        )


def _is_hidden(table: exp.Table, query: exp.Expr) -> bool:
    above: exp.Expr | None = table.parent
    while above is not None and above is not query:
        with_ = above.args.get("with_")
        if with_ is not None and any(cte.alias == table.name for cte in with_.expressions):
            return True
        above = above.parent
    return False
