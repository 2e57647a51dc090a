"""Sends OpenLineage events of the pipelines of a run, where OpenLineage's variables or its file ask for that.

Each start of a pipeline is a run: START, RUNNING now and then with the rows so far, then COMPLETE, ABORT (it was
stopped) or FAIL. Needs the extra `openlineage`, whose client reads the configuration and sends.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol

from penstock.catalog.errors import ConfigError
from penstock.catalog.masking import without_secrets
from penstock.sql.clock import Clock, SystemClock
from penstock.sql.jobs.job import Job
from penstock.sql.lineage.datasets import PipelineLineage
from penstock.sql.observation.pipeline import JobStatus

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent

    from penstock.sql.jobs.progress import JobProgress
    from penstock.sql.lineage.datasets import TableDataset

log = logging.getLogger(__name__)

PREFIX, DISABLED, NAMESPACE = "OPENLINEAGE_", "OPENLINEAGE_DISABLED", "OPENLINEAGE_NAMESPACE"
FILE = "openlineage.yml"
PRODUCER = f"pkg:pypi/penstock@{version('penstock')}"
"""Who makes the events: a package URL."""

RUNNING_MS = 60_000
"""Time between two RUNNING events of a pipeline."""

LOOK_MS = 500
"""Time between two looks at the jobs."""

LAST_EVENTS_S = 10
"""How long the end of a run waits for its last events."""

_ENDS = {JobStatus.FINISHED: "COMPLETE", JobStatus.STOPPED: "ABORT", JobStatus.FAILED: "FAIL"}


class LineageClient(Protocol):
    """What sends events: OpenLineage's client."""

    def emit(self, event: Any) -> None:
        """Send an event; may wait as long as its transport is told to."""


def wants_events(environ: Mapping[str, str], folder: Path) -> bool:
    """Return whether events are to be sent: a variable or a file of OpenLineage is there. Raises ConfigError."""
    if environ.get(DISABLED, "").strip().lower() == "true":
        return False
    named = any(name.startswith(PREFIX) and name != DISABLED for name in environ)
    files = (folder / FILE, Path.home() / ".openlineage" / FILE)
    installed = importlib.util.find_spec("openlineage") is not None
    if named and not installed:
        raise ConfigError(
            "OpenLineage's variables ask for events, and its client is not installed",
            hint="pip install 'penstock[openlineage]', or unset them",
        )
    return installed and (named or any(file.is_file() for file in files))


@contextmanager
def sending_events(
    jobs: Callable[[], Sequence[Job]],
    lineages: Callable[[], Mapping[str, PipelineLineage]],
    *,
    environ: Mapping[str, str] = os.environ,
) -> Iterator[bool]:
    """Send the events of these jobs while the block runs; gives whether that is so. Raises ConfigError.

    Sending has a thread of its own: a server that does not answer delays no batch, and is named in the log.
    """
    if not wants_events(environ, Path.cwd()):
        yield False
        return
    from openlineage.client import OpenLineageClient

    sender = EventSender(
        client=OpenLineageClient(),
        clock=SystemClock(),
        jobs=jobs,
        lineages=lineages(),
        namespace=environ.get(NAMESPACE) or "penstock",
    )
    thread = Thread(target=sender.run, name="penstock lineage", daemon=True)
    thread.start()
    try:
        yield True
    finally:
        sender.end.set()
        thread.join(LAST_EVENTS_S)
        if thread.is_alive():
            log.warning("OpenLineage's last events are not sent: its server does not answer")


@dataclass(slots=True, kw_only=True)
class _AnnouncedRun:
    """A run that was announced. `sent_ms` is when, by the monotonic clock, its last event was made."""

    id: str
    sent_ms: int
    ended: bool = False


@dataclass(slots=True, kw_only=True)
class EventSender:
    """Looks at the jobs until `end` is set, and once more after that."""

    client: LineageClient
    clock: Clock
    jobs: Callable[[], Sequence[Job]]
    lineages: Mapping[str, PipelineLineage]
    namespace: str
    end: Event = field(default_factory=Event)
    _runs: dict[int, _AnnouncedRun] = field(default_factory=dict)

    def run(self) -> None:
        """Send what happens, on the calling thread."""
        while not self.end.is_set():
            self.clock.wait(self.end, LOOK_MS)
            self.look()

    def look(self) -> None:
        """Send the events that are due now."""
        now_ms = self.clock.monotonic_ms()
        for job in self.jobs():
            progress = job.progress
            run = self._runs.get(id(job))
            if run is None:
                run = self._runs[id(job)] = _AnnouncedRun(id=_new_run_id(), sent_ms=now_ms)
                self._send(run, progress, "START")
            if progress.status in _ENDS:
                if not run.ended:
                    run.ended = True
                    self._send(run, progress, _ENDS[progress.status])
            elif now_ms - run.sent_ms >= RUNNING_MS:
                run.sent_ms = now_ms
                self._send(run, progress, "RUNNING")

    def _send(self, run: _AnnouncedRun, progress: JobProgress, kind: str) -> None:
        lineage = self.lineages.get(progress.name)
        at_ms = progress.started_ms if kind == "START" else self.clock.now_ms()
        event = run_event(
            progress, lineage, kind=kind, at_ms=at_ms, run_id=run.id, namespace=self.namespace
        )
        try:
            self.client.emit(event)
        except Exception as error:  # noqa: BLE001 - of any transport; events are no part of a pipeline
            log.warning(
                "the OpenLineage event %s of %s is not sent: %s",
                kind,
                progress.name,
                without_secrets(str(error)).partition("\n")[0],
            )


def _new_run_id() -> str:
    from openlineage.client.uuid import generate_new_uuid

    return str(generate_new_uuid())


def run_event(
    progress: JobProgress,
    lineage: PipelineLineage | None,
    *,
    kind: str,
    at_ms: int,
    run_id: str,
    namespace: str,
) -> RunEvent:
    """Make an event of a pipeline. One whose lineage is not known has no datasets."""
    from openlineage.client import event_v2, facet_v2

    is_bounded = lineage is not None and lineage.is_bounded
    job_type = facet_v2.job_type_job.JobTypeJobFacet(
        processingType="BATCH" if is_bounded else "STREAMING",
        integration="PENSTOCK",
        jobType="QUERY",
        producer=PRODUCER,
    )
    facets: dict[str, Any] = {
        "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet(
            version=version("pyspark"),
            name="spark",
            openlineageAdapterVersion=version("penstock"),
            producer=PRODUCER,
        )
    }
    if kind == "FAIL" and progress.last_error is not None:
        facets["errorMessage"] = facet_v2.error_message_run.ErrorMessageRunFacet(
            message=without_secrets(progress.last_error),
            programmingLanguage="SQL",
            producer=PRODUCER,
        )
    return event_v2.RunEvent(
        eventType=event_v2.RunState[kind],
        eventTime=datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(),
        run=event_v2.Run(runId=run_id, facets=facets),
        job=event_v2.Job(namespace=namespace, name=progress.name, facets={"jobType": job_type}),
        inputs=[] if lineage is None else [d for table in lineage.inputs for d in _inputs(table)],
        outputs=[]
        if lineage is None
        else [d for table in lineage.outputs for d in _outputs(table, lineage, progress)],
        producer=PRODUCER,
    )


def _inputs(table: TableDataset) -> Iterator[InputDataset]:
    from openlineage.client import event_v2

    for each in table.datasets:
        yield event_v2.InputDataset(
            namespace=each.namespace, name=each.name, facets=_described(table)
        )


def _outputs(
    table: TableDataset, lineage: PipelineLineage, progress: JobProgress
) -> Iterator[OutputDataset]:
    from openlineage.client import event_v2, facet_v2

    facets = _described(table)
    facets["columnLineage"] = _column_lineage(table)
    counts: dict[str, Any] = {}
    if len(lineage.outputs) == 1 and progress.batches and not progress.refreshes:
        counts["outputStatistics"] = (
            facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=progress.rows_out, producer=PRODUCER
            )
        )
    for each in table.datasets:
        yield event_v2.OutputDataset(
            namespace=each.namespace, name=each.name, facets=facets, outputFacets=counts
        )


def _described(table: TableDataset) -> dict[str, Any]:
    """Describe a dataset: its columns, and its name in Penstock."""
    from openlineage.client import facet_v2

    schema = facet_v2.schema_dataset.SchemaDatasetFacet(
        fields=[
            facet_v2.schema_dataset.SchemaDatasetFacetFields(name=column.name, type=column.type)
            for column in table.columns
        ],
        producer=PRODUCER,
    )
    symlink = facet_v2.symlinks_dataset.Identifier(
        namespace="penstock", name=table.table, type="TABLE"
    )
    symlinks = facet_v2.symlinks_dataset.SymlinksDatasetFacet(
        identifiers=[symlink], producer=PRODUCER
    )
    return {"schema": schema, "symlinks": symlinks}


def _column_lineage(table: TableDataset) -> Any:
    from openlineage.client import facet_v2

    module = facet_v2.column_lineage_dataset
    fields = {
        column.name: module.Fields(
            inputFields=[
                module.InputField(
                    namespace=dataset.namespace,
                    name=dataset.name,
                    field=name,
                    transformations=[_transformation(column.expression, name)],
                )
                for dataset, name in column.sources
            ]
        )
        for column in table.columns
        if column.sources
    }
    return module.ColumnLineageDatasetFacet(fields=fields, producer=PRODUCER)


def _transformation(expression: str | None, source: str) -> Any:
    """Tell how a column is made: as it is, or by an expression."""
    from openlineage.client import facet_v2

    text = expression or ""
    is_same = text.rpartition(".")[2].strip("`") == source
    return facet_v2.column_lineage_dataset.Transformation(
        type="DIRECT",
        subtype="IDENTITY" if is_same else "TRANSFORMATION",
        description=without_secrets(text),
        masking=False,
    )
