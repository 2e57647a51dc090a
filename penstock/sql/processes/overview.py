"""Documents of all pipelines that a supervisor runs: what their processes report, and what has become of these."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.catalog.errors import CatalogError
from penstock.catalog.masking import without_secrets
from penstock.sql.clock import Clock, duration_text
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.processes.live_pages import LivePages
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.processes.supervisor import ProcessView
from penstock.sql.ui.documents.errors import error_documents, with_errors
from penstock.sql.ui.documents.fields import Document, known
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.documents.trend import TRENDS

log = logging.getLogger(__name__)

SUMMARY = (
    "name", "status", "reason", "sentence", "sink", "guarantee", "runner", "started", "batches", "batch_id", "rows_in",
    "rows_out", "rows_late", "bad_records", "records_lost", "rows_per_second", "rows_per_second_out", "watermark",
    "lag_records", "oldest_unread", *TRENDS, "last_commit", "restarts", "restarts_counted", "restart_limit",
)  # fmt: skip
"""Fields of a pipeline in a list of all."""

_OF_A_RUN = ("rows_per_second", "rows_per_second_out", "lag_records", "oldest_unread", *TRENDS)
"""Fields that mean nothing once the process is gone."""


def pipeline_documents(processes: Sequence[ProcessView], now_ms: int) -> list[Document]:
    """Describe each pipeline, in the order of the processes."""
    return [one for process in processes for one in _of_process(process, now_ms)]


def _of_process(process: ProcessView, now_ms: int) -> list[Document]:
    names = dict.fromkeys((*process.pipelines, *process.documents)) or {process.name: None}
    return [_document(process, name, now_ms) for name in names]


def _document(process: ProcessView, name: str, now_ms: int) -> Document:
    reported = process.documents.get(name, {"name": name})
    restarts = int(reported.get("restarts", 0)) + process.restarts
    runner = None if process.pid is None else f"process {process.pid}"
    found = (
        reported | known(restarts=restarts, runner=runner) | _counted_restarts(process, reported)
    )
    if process.state is ProcessState.RUNNING and "status" in reported:
        return found
    if reported.get("status") in {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.STOPPED}:
        found = {key: value for key, value in found.items() if key not in _OF_A_RUN}
        return _without_runner(found) if process.pid is None else found
    # the first pipeline of its process has reported, and this one will
    unseen = process.state is ProcessState.RUNNING
    state = ProcessState.STARTING if unseen else process.state
    sentence = _sentence(process, now_ms)
    reason = None if process.reason is None else without_secrets(process.reason)
    found = {key: value for key, value in found.items() if key not in _OF_A_RUN}
    found |= known(status=state.value, sentence=sentence, reason=reason)
    return found if process.pid is not None else _without_runner(found)


def _counted_restarts(process: ProcessView, reported: Document) -> Document:
    """Count the restarts up to a limit: those of the process where it has died of late, else those within it."""
    if process.restart_limit is None or (
        not process.restarts_counted and "restart_limit" in reported
    ):
        return {}
    return {
        "restarts_counted": process.restarts_counted,
        "restart_limit": process.restart_limit,
    }


def _without_runner(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != "runner"}


def _sentence(process: ProcessView, now_ms: int) -> str:
    reason = "" if process.reason is None else without_secrets(process.reason)
    match process.state:
        case ProcessState.WAITING:
            return "waits for its turn to start"
        case ProcessState.STARTING | ProcessState.RUNNING:
            return f"starts again: {reason}" if reason else "starts"
        case ProcessState.RESTARTING:
            left_ms = max((process.starts_again_ms or now_ms) - now_ms, 0)
            return f"{reason}; starts again in {duration_text(-(-left_ms // 1000) * 1000)}"
        case ProcessState.FAILED:
            return f"failed: {reason}" if reason else "failed"
        case ProcessState.STOPPED:
            return "stopped"
        case ProcessState.FINISHED:
            return "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectView:
    """The status page's functions (`sql/ui/application.py`) over processes: theirs, and what is stored of the rest."""

    processes: Callable[[], Sequence[ProcessView]]
    stored: StoredPipelines
    clock: Clock
    pages: LivePages | None = None

    def pipelines(self) -> list[Document]:
        """Describe all pipelines by name; of those that run here there is what their processes report."""
        return self.stored.summaries_beside(
            {
                str(each["name"]): {key: each[key] for key in SUMMARY if key in each}
                for each in self._documents()
            }
        )

    def pipeline(self, name: str) -> Document | None:
        """Describe one pipeline: what its process reports, with its splits and batches; None: unknown.

        Where the process does not answer, splits are those that its checkpoint has. Where the catalog cannot be read,
        as on a full disk, there is what the process tells.
        """
        for process in self.processes():
            for own in pipeline_documents([process], self.clock.now_ms()):
                if own["name"] == name:
                    live = {} if self.pages is None else self.pages.pipeline(process, name)
                    ends = error_documents(process.failures)
                    return with_errors(self._stored(name, but=live) | live | own, ends)
        return self.stored.pipeline(name)

    def _stored(self, name: str, *, but: Document) -> Document:
        try:
            return self.stored.pipeline(name, but=but) or {}
        except CatalogError:
            log.debug("what is stored of %s is not known", name, exc_info=True)
            return {}

    def tables(self) -> list[Document]:
        """Describe the tables and views of the catalog."""
        return self.stored.tables()

    def table(self, name: str) -> Document | None:
        """Describe one table or view; None where there is none."""
        return self.stored.table(name)

    def first_rows(self, name: str) -> Document | None:
        """Read the first rows of a table; None where there is none. May take seconds."""
        return self.stored.first_rows(name)

    def dead_letters(self, table: str | None) -> Document:
        """Describe the records that were left out, of one table or of all."""
        return self.stored.dead_letters(table)

    def settings(self) -> Document:
        """Describe the settings of the project."""
        return self.stored.settings()

    def doctor(self) -> Document:
        """Describe what was found of the machine, at once; looks again where that is old."""
        return self.stored.doctor()

    def ready(self) -> bool:
        """Whether each pipeline runs or has ended well."""
        good = {JobStatus.RUNNING, JobStatus.FINISHED, JobStatus.STOPPED}
        return all(each["status"] in good for each in self._documents())

    def _documents(self) -> list[Document]:
        return pipeline_documents(self.processes(), self.clock.now_ms())
