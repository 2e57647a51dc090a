"""An INSERT as far as it is known without a JVM: what `planned_insert.py` makes a Spark query of."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.catalog.table import Table
from penstock.connector.contract import Sink
from penstock.connector.editing import Editor
from penstock.sql.plan.analysed_query import AnalysedQuery
from penstock.sql.plan.place import QueryPlace
from penstock.sql.statements import InsertInto

__all__ = ["AnalysedInsert"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedInsert:
    """An INSERT that passed every check that needs no JVM.

    `earlier` is the query as earlier versions ran it, where their checkpoints do not fit `query`: they go on with that.
    `pipeline` and `base` are the settings that name its pipeline and the folder of checkpoints, `run_for` is the
    project's target (`TARGET`), `state_ttl_ms` is how
    long state is kept without use (0: for ever); `place` is its query's name and checkpoint once they are chosen.
    """

    statement: InsertInto
    target: Table
    query: AnalysedQuery
    sink: Sink
    earlier: AnalysedQuery | None = None
    editor: Editor | None = None
    pipeline: str = ""
    base: str = ""
    run_for: str | None = None
    state_ttl_ms: int = 0
    place: QueryPlace | None = None

    @property
    def is_stream(self) -> bool:
        """Whether it runs as a streaming query: it reads tables, and does not overwrite its target."""
        return bool(self.query.followed) and self.editor is None
