"""Goes through checked files once more, on paper: each statement with a planner of the time when its turn comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.names import Namespace
from penstock.sql.plan.planner import Planner
from penstock.sql.run.ddl import define, is_definition, set_option
from penstock.sql.run.script_check import CheckedScript, CheckedStatement
from penstock.sql.statements import ResetOption, SetOption

__all__ = ["Replayed", "replay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A statement of a file, and a planner as it would be when its turn comes; definitions have taken effect."""

    script: CheckedScript
    checked: CheckedStatement
    planner: Planner


def replay(
    scripts: Sequence[CheckedScript],
    *,
    namespace: Namespace,
    project: Path,
    settings: Mapping[str, str],
) -> Iterator[Replayed]:
    """Give the statements in order. Works on a draft: neither the catalog nor any table is touched."""
    draft, current = namespace.overlay(), dict(settings)
    for script in scripts:
        planner = Planner(
            namespace=draft,
            project=project,
            settings=current,
            default_pipeline=script.file.pipeline,
        )
        for checked in script.statements:
            statement = checked.statement
            if is_definition(statement):
                define(statement, draft)
            elif isinstance(statement, SetOption | ResetOption):
                set_option(statement, current)
            yield Replayed(script=script, checked=checked, planner=planner)
        planner.close()
