"""Documents of what other processes run, of what has ended, and of the catalog: from the catalog and checkpoints.

A checkpoint has positions and watermarks of the last batch that was planned; ends and speeds are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, StateMismatchError
from penstock.catalog.masking import without_secrets
from penstock.catalog.model.identifier import parse_identifier
from penstock.catalog.model.table import Table, View
from penstock.connector.source.state import SourceState
from penstock.sql.checkpoint.reader import COMMITS, LocalFiles, read_checkpoint
from penstock.sql.clock import SystemClock
from penstock.sql.ddl.show_create import show_create
from penstock.sql.incremental.keyed.files.manifest import newest_manifest, state_sizes
from penstock.sql.information_schema.rows import named_objects, pipeline_rows
from penstock.sql.jobs.batch_counters import JobBatches
from penstock.sql.jobs.progress import JobStatus, short_name
from penstock.sql.metrics.observation import PipelineObservation
from penstock.sql.metrics.sentence import sentence_of
from penstock.sql.plan.physical.batch_metrics import SourceMetrics
from penstock.sql.ui.documents import Document, known, table_document, time_text

WAITS = "waits for "
"""What the reason of a pipeline begins with that waits for something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPipelines:
    """What the catalog and the checkpoints of a project say. May be used on any thread."""

    namespace: Namespace
    project: Path

    def summaries(self) -> Iterator[Document]:
        """Describe each pipeline that has a lease, a report of a failure or a checkpoint."""
        for row in pipeline_rows(self.namespace, self.project):
            yield _summary(row)

    def pipeline(self, name: str) -> Document | None:
        """Describe a pipeline with the splits of its last batch; None for one that is not known."""
        found = next((each for each in self.summaries() if each["name"] == name), None)
        return None if found is None else _whole(found)

    def pipelines(self) -> list[Document]:
        """Describe each pipeline with the splits of its last batch, by name."""
        found = {str(each["name"]): each for each in self.summaries()}
        return [_whole(found[name]) for name in sorted(found)]

    def tables(self) -> list[Document]:
        """Describe the tables and views of the catalog."""
        return sorted(
            (_row(each.found) for each in named_objects(self.namespace) if each.found is not None),
            key=lambda row: str(row["name"]),
        )

    def table(self, name: str) -> Document | None:
        """Describe a table with its definition, secrets left out; None for one that there is not."""
        try:
            found = self.namespace.lookup(self.namespace.resolve(parse_identifier(name)))
        except InputError:
            return None
        return _row(found) | {"definition": without_secrets(show_create(found, redacted=True))}


def _summary(row: tuple[Any, ...]) -> Document:
    pipeline, sink, status, host, pid, since, path, *state = row
    restarts, error, waiting_for, _, late, bad = state
    reason = f"{WAITS}{waiting_for}" if waiting_for else error
    return known(
        name=pipeline if sink is None else f"{pipeline}/{sink}",
        status=status.lower(),
        reason=None if reason is None else without_secrets(reason),
        sink=None if sink is None else short_name(sink),
        runner=None if pid is None else f"process {pid} on {host}",
        checkpoint=path,
        started=_time(since),
        restarts=restarts,
        rows_late=late,
        bad_records=bad,
    )


def _time(at: datetime | None) -> str | None:
    return None if at is None else time_text(int(at.timestamp() * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    """What a checkpoint adds: the tables of its last batch; the reason where it is damaged."""

    document: Document
    sources: tuple[tuple[str, SourceMetrics], ...] = ()
    last_commit_ms: int | None = None


def _whole(summary: Document) -> Document:
    """Add what the checkpoint of a pipeline has, and its sentence."""
    saved = _checkpoint(summary["checkpoint"]) if "checkpoint" in summary else _Saved(document={})
    found = summary | saved.document
    status = JobStatus(found["status"])
    reason = found.get("reason")
    outage = reason.removeprefix(WAITS) if reason and reason.startswith(WAITS) else None
    seen = PipelineObservation(
        status=status,
        error=reason,
        outage=outage,
        restarts=found.get("restarts"),
        batch_id=found.get("batch_id"),
        last_commit_ms=saved.last_commit_ms,
        sources=saved.sources,
    )
    return found | {"sentence": str(sentence_of(seen, SystemClock().now_ms()))}


def _checkpoint(path: str) -> _Saved:
    files = LocalFiles(location=path)
    try:
        saved = read_checkpoint(files)
        manifest = newest_manifest(files)
    except StateMismatchError as error:
        return _Saved(document={"reason": without_secrets(error.message)})
    if saved is None or saved.planned is None:
        return _Saved(document={})
    names = JobBatches(sources=tuple(map(short_name, saved.shape.sources))).source_names()
    states = [each if isinstance(each, SourceState) else None for each in saved.offsets]
    watermarks = [each.watermark_ms for each in states if each is not None]
    lowest = [at_ms for at_ms in watermarks if at_ms is not None]
    sizes = () if manifest is None else state_sizes(manifest)
    committed_ms = files.written_ms(f"{COMMITS}/{saved.committed}")
    sources = tuple((name, SourceMetrics(state=s)) for name, s in zip(names, states, strict=False))
    document = known(
        batch_id=saved.planned,
        last_commit=time_text(committed_ms),
        watermark=time_text(min(lowest)) if len(lowest) == len(watermarks) and lowest else None,
        tables=[table_document(name, source, ends_known=False) for name, source in sources],
        operators=[
            known(name=f"stage {size.stage} input {size.input}", rows=size.rows, bytes=size.bytes)
            for size in sizes
        ],
    )
    return _Saved(document=document, sources=sources, last_commit_ms=committed_ms)


def _row(found: Table | View) -> Document:
    table = found if isinstance(found, Table) else None
    return known(
        name=str(found.identifier),
        kind="VIEW" if table is None else "TABLE",
        connector=None if table is None else table.connector,
        comment=found.comment,
    )
