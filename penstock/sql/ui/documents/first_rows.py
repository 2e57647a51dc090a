"""The document of a table's first rows, which are read when somebody asks: a few at a time, for seconds at most."""

from __future__ import annotations

import json
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import PenstockError
from penstock.catalog.masking import without_secrets
from penstock.sql.runner.summary import plain
from penstock.sql.ui.documents.fields import Document, known

if TYPE_CHECKING:
    from penstock.catalog.definitions.resolver import Namespace
    from penstock.sql.runner.first_rows import FirstRows
    from penstock.sql.script.project import Project

ROWS = 10

LIMIT_MS = 10_000
"""How long reading may take."""

AT_ONCE = 2
"""Tables that are read at the same time: each holds a thread of the server, and connections."""

LONGEST_VALUE = 500
"""Characters of a value that are shown."""

_turns = BoundedSemaphore(AT_ONCE)


def first_rows_document(name: str, names: Namespace, project: Project) -> Document:
    """Read the first rows of a table. What keeps them from being read is told in the document."""
    if not _turns.acquire(blocking=False):
        return {"problem": "the first rows of other tables are being read now; try again"}
    try:
        # loads pyarrow and the clients of sources: only once somebody asks
        from penstock.sql.runner.first_rows import first_rows

        return _document(first_rows(names, name, project, limit=ROWS, limit_ms=LIMIT_MS))
    except PenstockError as error:
        hint = None if error.hint is None else without_secrets(error.hint)
        return known(problem=without_secrets(error.message), hint=hint)
    finally:
        _turns.release()


def _document(found: FirstRows) -> Document:
    return known(
        columns=list(found.columns),
        rows=[[_text(value) for value in row] for row in found.rows],
        end=_end(found),
        left_out=list(found.left_out) or None,
        skipped=found.skipped or None,
    )


def _end(found: FirstRows) -> str:
    from penstock.sql.runner.first_rows import RowsEnd

    match found.end:
        case RowsEnd.ENOUGH:
            return f"the first {len(found.rows)} rows"
        case RowsEnd.NO_MORE if found.rows:
            return "all rows that there are"
        case RowsEnd.NO_MORE:
            return "there are no rows"
        case RowsEnd.TIMEOUT:
            return f"no more within {LIMIT_MS // 1000} s"


def _text(value: Any) -> str | None:
    """Write a value as text, as `penstock peek` does; None for NULL."""
    if value is None:
        return None
    made = plain(value)
    text = made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
