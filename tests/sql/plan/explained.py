"""What a person is told of an analysed query."""

from __future__ import annotations

from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.explain.document import explain_query
from penstock.sql.plan.explain.statements import plan_lines


def operator_lines(query: AnalysedQuery, *, state_ttl_ms: int = 0) -> list[str]:
    """Its operators, as `penstock plan` shows them, without their indentation."""
    root = explain_query(query, None, state_ttl_ms=state_ttl_ms)
    return [line.strip() for line in plan_lines(root)]
