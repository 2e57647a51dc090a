"""The pipelines of a project, whoever runs them: from leases, reports of runners and checkpoints, without an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.catalog.definitions.contract import Leases
from penstock.catalog.definitions.leases import FAILED, JobReport, Owner, is_gone
from penstock.catalog.errors import ConfigError, StateMismatchError
from penstock.catalog.masking import without_secrets
from penstock.catalog.model.identifier import short_name
from penstock.connector.source.state import SourceState
from penstock.sql.checkpoint.identity import old_folder_name
from penstock.sql.checkpoint.read_cache import READS
from penstock.sql.checkpoint.reader import (
    COMMITS,
    CheckpointFiles,
    LocalFiles,
    SavedCheckpoint,
    read_beside,
    read_checkpoint,
)
from penstock.sql.clock import SystemClock, duration_text
from penstock.sql.information_schema.checkpoints import CheckpointFolder, Unread, checkpoint_folders
from penstock.sql.observation.batch_metrics import SourceMetrics
from penstock.sql.observation.pipeline import JobStatus, PipelineObservation, distinct_names
from penstock.sql.observation.sentence import sentence_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPipeline:
    """A pipeline with a live runner, `owner`, a report of a failure, or a checkpoint in the project, at `path`.

    `since_ms` is when the runner began (epoch ms), `report` what it said last.
    """

    pipeline: str
    sink: str | None
    status: str
    owner: Owner | None = None
    since_ms: int | None = None
    path: str | None = None
    report: JobReport | None = None

    @property
    def name(self) -> str:
        """`pipeline.name` and the table written, as a job is named."""
        return self.pipeline if self.sink is None else f"{self.pipeline}/{self.sink}"

    @property
    def sentence(self) -> str:
        """What it does, or why nothing comes out of it: the runner's own words, else what its checkpoint tells."""
        if self.owner is not None and self.report is not None and self.report.sentence is not None:
            return self.report.sentence
        return str(sentence_of(self._observed(), SystemClock().now_ms()))

    def _observed(self) -> PipelineObservation:
        files = None if self.path is None else LocalFiles(location=self.path)
        saved, damage = _read(files)
        error = None if self.report is None else self.report.last_error
        outage = None if self.report is None else self.report.waiting_for
        planned = None if saved is None else saved.planned
        return PipelineObservation(
            status=JobStatus(self.status),
            error=without_secrets(damage or error or "") or None,
            outage=outage,
            restarts=None if self.report is None else self.report.restarts,
            batch_id=planned,
            last_commit_ms=None
            if files is None or saved is None or saved.committed is None
            else files.written_ms(f"{COMMITS}/{saved.committed}"),
            sources=() if saved is None or planned is None else saved_sources(saved),
        )


def _beside(files: CheckpointFiles) -> SavedCheckpoint | None:
    return read_beside(files, read_checkpoint)


def _read(files: LocalFiles | None) -> tuple[SavedCheckpoint | None, str | None]:
    """Read a checkpoint, and what is wrong with a damaged one."""
    try:
        return (None if files is None else READS.read(files, _beside)), None
    except StateMismatchError as error:
        return None, error.message


def saved_sources(saved: SavedCheckpoint) -> tuple[tuple[str, SourceMetrics], ...]:
    """Return the tables that a checkpoint is of, by name, with their splits as of the last planned batch."""
    names = distinct_names(map(short_name, saved.shape.sources))
    states = (each if isinstance(each, SourceState) else None for each in saved.offsets)
    return tuple((name, SourceMetrics(state=s)) for name, s in zip(names, states, strict=False))


def stored_pipelines(
    leases: Leases,
    project: Path,
    *,
    settings: Mapping[str, str] | None = None,
    unread: Unread | None = None,
) -> Iterator[StoredPipeline]:
    """Return the pipelines that run, then those that failed, then those that only have a checkpoint here.

    `settings` are the project's; None reads its file. Where `unread` is told what cannot be read, that raises nothing;
    without it ConfigError is raised for a file of the project that is wrong.
    """
    folders = _checkpoints(project, settings, unread)
    reports = leases.job_reports()
    for claim in leases.claims():
        name = claim.lease.pipeline
        pipeline, sink, path = _names_and_path(name, folders)
        report = reports.pop(name, None)
        yield StoredPipeline(
            pipeline=pipeline,
            sink=sink,
            path=path,
            status=JobStatus.RUNNING if report is None else report.status,
            owner=claim.lease.owner,
            since_ms=claim.lease.since_ms,
            report=report,
        )
    for name, last in sorted(reports.items()):
        report = once_gone(last)
        if report.status == FAILED:
            pipeline, sink, path = _names_and_path(name, folders)
            yield StoredPipeline(
                pipeline=pipeline, sink=sink, path=path, status=FAILED, report=report
            )
    for folder in folders.values():
        yield StoredPipeline(
            pipeline=folder.pipeline,
            sink=folder.sink,
            status=JobStatus.STOPPED,
            path=folder.path,
        )


def once_gone(report: JobReport) -> JobReport:
    """Return what holds of a report whose runner's claim has lapsed: one that was killed, or is cut off, has failed.

    Its age is then that of the last sign of life.
    """
    if report.left is None or report.status in _FINAL:
        return report
    owner, age_ms = report.left.lease.owner, max(report.left.age_ms, 0)
    process, age = f"process {owner.pid} on {owner.host}", duration_text(age_ms)
    if is_gone(owner):
        error = f"its process is gone ({process}, last sign of life {age} ago)"
    else:  # of another machine it is not known
        error = f"nothing was heard of its process ({process}) for {age}"
    return replace(
        report,
        status=FAILED,
        last_error=error,
        waiting_for=None,
        waiting_since_ms=None,
        sentence=f"{FAILED}: {error}",
        age_ms=age_ms,
    )


_FINAL = frozenset(status.value for status in JobStatus if status.final)


def _checkpoints(
    project: Path, settings: Mapping[str, str] | None, unread: Unread | None
) -> dict[tuple[str, str], CheckpointFolder]:
    if unread is None:
        found = checkpoint_folders(project, settings=settings)
        return {(each.pipeline, each.sink): each for each in found}
    try:
        found = checkpoint_folders(project, settings=settings, unread=unread)
        return {(each.pipeline, each.sink): each for each in found}
    except ConfigError as error:
        # as while somebody writes it
        unread(f"pipelines that only have a checkpoint are not known: {error.message}")
        return {}


def _names_and_path(
    lease: str, folders: dict[tuple[str, str], CheckpointFolder]
) -> tuple[str, str | None, str | None]:
    """Split the name of a lease: the pipeline's, and what it writes into; and find its checkpoint."""
    before, slash, last = lease.rpartition("/")
    pipeline, sink = (before, last) if slash else (last, None)
    folder = _folder_of(pipeline, sink, folders)
    return pipeline, sink, None if folder is None else folder.path


def _folder_of(
    pipeline: str, sink: str | None, folders: dict[tuple[str, str], CheckpointFolder]
) -> CheckpointFolder | None:
    """Pop the checkpoint of a pipeline from the remaining ones."""
    folder = folders.pop((pipeline, sink or ""), None)
    if folder is None:  # of an earlier version
        old = (old_folder_name(pipeline) or "", old_folder_name(sink or "") or "")
        folder = folders.pop(old, None)
    return folder
