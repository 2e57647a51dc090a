"""Documents of dead letters: the records that pipelines left out, in Delta tables of this machine, without Spark.

`penstock dlq` finds those in topics and behind URLs, too, as it starts Spark for them.
"""

from __future__ import annotations

import shlex
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import InputError
from penstock.catalog.masking import without_secrets
from penstock.sql.ui.documents.fields import Document, known, time_text

if TYPE_CHECKING:
    from penstock.catalog.definitions.contract import Catalog
    from penstock.connector.dead_letters.delta_files import DeadLetterFiles
    from penstock.connector.dead_letters.table import DeadLetterCount
    from penstock.sql.script.project import Project


NEWEST = 20
"""Letters that are shown; each record may be long."""

LONGEST_VALUE = 2_000
"""Characters of a record that are shown."""

ELSEWHERE = (
    "some are in a topic, behind a URL or in a table of more than is read here, which Spark reads: "
    "penstock dlq ls, penstock dlq show"
)

BUSY = "they are being read for another request; try again"

LONGEST_WAIT_S = 5.0
"""How long a request waits for the reading of another one: each that waits holds a thread of the server."""

MOST_DOCUMENTS = 8
"""Documents that are stored, of as many tables."""


@dataclass(slots=True, kw_only=True)
class DeadLetterLook:
    """Reads dead letters for the page: one request at a time, and again only once more letters are written.

    The process may run pipelines. May be used on any thread.
    """

    _lock: Lock = field(default_factory=Lock)
    _documents: OrderedDict[str | None, tuple[object, Document]] = field(
        default_factory=OrderedDict
    )

    def document(self, project: Project, catalog: Catalog, table: str | None = None) -> Document:
        """Describe the dead letters of a project, those of one table or all.

        Raises no InputError: it is described.
        """
        if not self._lock.acquire(timeout=LONGEST_WAIT_S):
            return known(elsewhere=BUSY)
        try:
            return self._document(project, catalog, table)
        finally:
            self._lock.release()

    def _document(self, project: Project, catalog: Catalog, table: str | None) -> Document:
        # loads pyspark: only once somebody asks
        from penstock.connector.dead_letters.delta_files import NotReadableHereError
        from penstock.sql.runner.dead_letters import find_dead_letter_files

        try:
            tables = find_dead_letter_files(project, catalog, pipelines=None, path=None)
            if tables is None:
                return known(elsewhere=ELSEWHERE)
            standing = [(each, each.standing()) for each in tables]
            if table in self._documents and self._documents[table][0] == standing:
                self._documents.move_to_end(table)
                return self._documents[table][1]
            found = _read(tables, table)
        except NotReadableHereError:
            return known(elsewhere=ELSEWHERE)
        except InputError as error:
            return known(elsewhere=without_secrets(error.message))
        self._documents[table] = (standing, found)
        self._documents.move_to_end(table)
        if len(self._documents) > MOST_DOCUMENTS:
            self._documents.popitem(last=False)
        return found


def _read(tables: Sequence[DeadLetterFiles], table: str | None) -> Document:
    counts = [count for each in tables for count in each.counts() if table in {None, count.table}]
    rows = [row for each in tables for row in each.newest(NEWEST, table=table)]
    rows.sort(key=lambda row: row["left_out_at"], reverse=True)
    return {
        "reasons": [_reason(each) for each in counts],
        "newest": [_letter(row) for row in rows[:NEWEST]],
    }


def _reason(count: DeadLetterCount) -> Document:
    return known(
        table=count.table,
        pipeline=count.pipeline,
        stage=count.stage,
        reason=without_secrets(count.error),
        letters=count.letters,
        replayed=count.replayed,
        replay=f"penstock dlq replay --pipeline {shlex.quote(count.pipeline)} --yes",
    )


def _letter(row: Mapping[str, Any]) -> Document:
    if row["topic"] is not None:
        position = f"{row['topic']}, partition {row['partition']}, offset {row['offset']}"
    else:
        position = f"{row['path']}, byte {row['position']}"
    return known(
        table=row["table"],
        pipeline=row["pipeline"],
        position=position,
        timestamp=_instant(row["timestamp"]),
        left_out=_instant(row["left_out_at"]),
        stage=row["stage"],
        error=without_secrets(row["error"] or ""),
        key=_shown(row["key"]),
        value=_shown(row["value"]),
        replayed=bool(row["replayed"]),
    )


def _instant(at: datetime | None) -> str | None:
    if at is None:
        return None
    known_zone = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return time_text(int(known_zone.timestamp() * 1000))


def _shown(content: Sequence[int] | bytes | None) -> str | None:
    """Write bytes as text; what is none in it as escapes."""
    if content is None:
        return None
    text = bytes(content)[: 4 * LONGEST_VALUE].decode("utf-8", "backslashreplace")
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
