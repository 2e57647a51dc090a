"""The golden queries as logical plans: their columns are those that engines give."""

from __future__ import annotations

import pytest
from sqlglot import exp

from penstock.catalog.errors import InputError, InputErrors
from penstock.sql.plan import analysis
from penstock.sql.plan.builder.builder import build
from penstock.sql.plan.builder.relations import shown_columns
from penstock.sql.plan.logical.plan import Plan
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.plan.syntax_rules import QuerySyntax, SyntaxContext, read_query
from tests.sql import test_plan_cases as golden


@pytest.mark.parametrize("path", golden.CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_plan_has_the_columns_of_its_query(path, monkeypatch) -> None:
    """Every query that can be read is built, also those that are refused later."""
    plans: list[Plan] = []

    def read_and_build(query: exp.Expr, context: SyntaxContext) -> QuerySyntax:
        read = read_query(query, context)
        plan = build(read.query, read.tables, read.lookups)
        plans.append(plan)
        return read

    monkeypatch.setattr(analysis, "read_query", read_and_build)
    tables, cases = golden.read_cases(path.read_text("utf-8").split(golden.LINE)[0].rstrip())
    for case in cases:
        plans.clear()
        try:
            query = golden.planned(case, tables)
        except (InputError, InputErrors):
            continue
        (plan,) = plans
        if query.maintained is not None:
            assert shown_columns(plan.root) == query.flow.columns, case.sql
        elif query.flow != Flow(columns=None):
            assert _named(plan.root.facts.names) == _named(query.flow.columns), case.sql


def _named(columns: tuple[str, ...] | None) -> list[str] | None:
    """The columns that the query names: others are named by whoever writes them."""
    return None if columns is None else [n if n.isidentifier() else "" for n in columns]
