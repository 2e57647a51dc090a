"""What a dry run shows: each statement, and for an INSERT where its rows come from and where its state is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.sql.run.environment import RunMode
from penstock.sql.run.progress import short_name
from penstock.sql.run.script_check import CheckedScript, CheckedStatement
from penstock.sql.run.statement_kind import kind_of, subject_of

__all__ = ["plan_document", "plan_lines"]


def plan_lines(scripts: Sequence[CheckedScript], mode: RunMode) -> list[str]:
    """Describe what would run, for people."""
    lines: list[str] = []
    for script in scripts:
        lines.append(f"{script.file.name}")
        for number, one in enumerate(script.statements, start=1):
            title = f"{kind_of(one.statement)} {subject_of(one.statement) or ''}".rstrip()
            lines.append(f"  {number:>2}  {title}")
            lines += [f"        {key:<11} {value}" for key, value in _details(one, mode).items()]
    return lines


def plan_document(scripts: Sequence[CheckedScript], mode: RunMode) -> dict[str, Any]:
    """Describe what would run, for programs."""
    return {
        "statements": [
            {
                "kind": kind_of(one.statement),
                "subject": subject_of(one.statement),
                "file": script.file.name,
                "line": one.statement.span.line,
                **_details(one, mode),
            }
            for script in scripts
            for one in script.statements
        ]
    }


def _details(one: CheckedStatement, mode: RunMode) -> dict[str, str]:
    planned = one.planned
    if planned is None:
        return {}
    if not planned.is_stream:
        return {"rows": "written once"}
    ends = mode.ends(bounded=planned.bounded)
    return {
        "reads": ", ".join(short_name(source) for source in planned.sources),
        "runs": "until what is there is read" if ends else "until it is stopped",
        "pipeline": planned.pipeline,
        "checkpoint": planned.checkpoint,
    }
