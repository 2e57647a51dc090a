"""Documents of the last errors of a pipeline: of its runner, of its checkpoint, and of the ends of its process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.catalog.masking import without_secrets
from penstock.connector.urls import is_url
from penstock.sql.checkpoint.failure_record import (
    MOST_FAILURES,
    FailureRecord,
    last_failures,
    read_failures,
)
from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.ui.documents.fields import Document, known, time_text


def error_documents(
    failures: Iterable[FailureRecord], checkpoint: str | None = None
) -> list[Document]:
    """Describe failures and those in a checkpoint of this machine, newest first."""
    stored: Iterable[FailureRecord] = ()
    if checkpoint is not None and not is_url(checkpoint):
        stored = read_failures(LocalFiles(location=checkpoint))
    return [
        known(
            at=time_text(each.at_ms), code=each.code, message=without_secrets(each.message) or "-"
        )
        for each in reversed(last_failures(stored, failures))
    ]


def with_errors(pipeline: Document, more: Sequence[Document]) -> Document:
    """Add errors to those that a document has; it stays as it is where there are none."""
    if not more:
        return pipeline
    every = [*pipeline.get("errors", ()), *more]
    every.sort(key=lambda error: str(error["at"]), reverse=True)
    return pipeline | {"errors": every[:MOST_FAILURES]}
