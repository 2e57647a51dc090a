"""Documents of what other processes run, of what has ended, and of the catalog: from the catalog and checkpoints.

A checkpoint has positions and watermarks of the last batch that was planned; ends and speeds are not in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.catalog.definitions.leases import JobReport
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import CatalogError, InputError, PenstockError, StateMismatchError
from penstock.catalog.masking import without_secrets
from penstock.catalog.model.identifier import Identifier, parse_identifier, short_name
from penstock.catalog.model.table import Table, View
from penstock.connector.options.watermark import ALIGNMENT_GROUP
from penstock.connector.registry import connector_of
from penstock.connector.source.state import SourceState
from penstock.sql.checkpoint.plan_record import read_plan
from penstock.sql.checkpoint.reader import (
    COMMITS,
    LocalFiles,
    SavedCheckpoint,
    read_beside,
    read_checkpoint,
)
from penstock.sql.ddl.show_create import show_create
from penstock.sql.incremental.keyed.files.manifest import newest_manifest, state_sizes
from penstock.sql.information_schema.checkpoints import CheckpointFolder
from penstock.sql.information_schema.pipelines import (
    StoredPipeline,
    saved_sources,
    stored_pipelines,
)
from penstock.sql.information_schema.rows import named_objects
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.script.project import Project, find_project
from penstock.sql.ui.documents.dead_letters import DeadLetterLook
from penstock.sql.ui.documents.errors import error_documents, with_errors
from penstock.sql.ui.documents.fields import Document, known, table_document, time_text
from penstock.sql.ui.documents.first_rows import first_rows_document
from penstock.sql.ui.documents.machine import Examination, findings, settings_document
from penstock.sql.ui.documents.plan import (
    StateSize,
    operator_documents,
    sink_documents,
    stage_sizes,
)
from penstock.sql.ui.documents.table_details import (
    LineageLook,
    flows_around,
    flows_beside,
    table_options,
)

log = logging.getLogger(__name__)

ALONE = "known by its checkpoint alone, which does not tell whether it runs, and how much is left to read"


@dataclass(slots=True)
class Notices:
    """What could not be read at the last look at all pipelines. Set by the thread that looks, read from any."""

    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPipelines:
    """What the catalog and the checkpoints of a project say. May be used on any thread.

    `configured` is the project as its file and target say; None reads the file. `catalog_url` is the catalog's where it
    is not the project's own, `checkpoints` are those of pipelines that it need not know.
    """

    namespace: Namespace
    project: Path
    configured: Project | None = None
    catalog_url: str | None = None
    checkpoints: tuple[CheckpointFolder, ...] = ()
    examination: Examination = field(default_factory=Examination, compare=False)
    letters: DeadLetterLook = field(default_factory=DeadLetterLook, compare=False)
    lineage: LineageLook = field(default_factory=LineageLook, compare=False)
    notices: Notices = field(default_factory=Notices, compare=False)

    def summaries(
        self, but: Container[str] = (), unread: Callable[[str], None] = log.debug
    ) -> Iterator[Document]:
        """Describe each pipeline with a lease, a report of a failure or a checkpoint, and those of `checkpoints`.

        Those that `but` names are left out; `unread` is told what else is, as it cannot be read.
        """
        names, paths = set(), set()
        settings = None if self.configured is None else self.configured.settings
        leases = self.namespace.catalog.leases
        for each in stored_pipelines(leases, self.project, settings=settings, unread=unread):
            names.add(each.name)
            paths.add(each.path)
            if each.name not in but:
                yield _summary(each)
        for folder in self.checkpoints:
            if folder.path not in paths:
                found = _alone(folder)
                if found["name"] in names:
                    found["name"] += f" of {folder.path}"
                names.add(found["name"])
                paths.add(folder.path)
                yield found

    def summaries_beside(self, running: Mapping[str, Document]) -> list[Document]:
        """Describe all pipelines by name, those of `running` as they are there.

        Where the catalog cannot be read, as on a full disk, these are all; raises CatalogError where there are none.
        """
        unread: list[str] = []
        found: dict[str, Document] = {}
        try:
            for each in self.summaries(but=running, unread=unread.append):
                found[str(each["name"])] = each
        except CatalogError as error:
            if not running:
                raise
            log.debug("the pipelines of the catalog are not known", exc_info=True)
            unread.append(f"only pipelines of this process are shown: {error.message}")
            found = {}
        found.update(running)
        self._notice(unread)
        return [found[name] for name in sorted(found)]

    def _notice(self, unread: list[str]) -> None:
        self.notices.texts = tuple(dict.fromkeys(without_secrets(text) for text in unread))

    def pipeline(self, name: str, *, but: Container[str] = ()) -> Document | None:
        """Describe a pipeline with the splits of its last batch; None for one that is not known.

        Fields that `but` names are left out, and the catalog is not asked for what is in them.
        """
        found = next((each for each in self.summaries() if each["name"] == name), None)
        if found is None:
            return None
        whole = {key: value for key, value in _whole(found).items() if key not in but}
        return self._from_catalog(whole)

    def pipelines(self) -> list[Document]:
        """Describe each pipeline with the splits of its last batch, by name."""
        unread: list[str] = []
        found = {str(each["name"]): each for each in self.summaries(unread=unread.append)}
        self._notice(unread)
        return [_whole(found[name]) for name in sorted(found)]

    def _from_catalog(self, pipeline: Document) -> Document:
        """Add what is in no checkpoint: the versions of tables written, connectors and groups of those read."""
        for table in pipeline.get("tables", ()):
            found = self._found(_unnumbered(str(table["name"])))
            if isinstance(found, Table):
                table.update(known(connector=found.connector, group=_group(found)))
        for sink in pipeline.get("sinks", ()):
            found = self._found(sink["name"])
            try:
                if isinstance(found, Table):
                    connector = connector_of(found, project=self.project)
                    sink.update(known(version=connector.stored_version(found)))
            except PenstockError:
                pass  # of a table that is damaged: its page says so
        return pipeline

    def tables(self) -> list[Document]:
        """Describe the tables and views of the catalog, and by which queries they are read and filled.

        The latter as of some seconds before; there is none of it while it is not known.
        """
        found = [each.found for each in named_objects(self.namespace) if each.found is not None]
        graph = self.lineage.recent(self.namespace, self._project)
        rows = [
            _row(each) | ({} if graph is None else flows_beside(each.identifier, graph))
            for each in found
        ]
        return sorted(rows, key=lambda row: str(row["name"]))

    def lineage_of(self, pipeline: Document) -> Document:
        """Describe what the tables that a pipeline writes are made of, and what is made of them.

        As of some seconds before: pipelines are shown while a catalog does not answer. Empty while it is not known.
        """
        written = self._names(pipeline.get("sinks", [{"name": pipeline.get("sink", "")}]))
        graph = self.lineage.recent(self.namespace, self._project)
        if graph is None or not written:
            return {}
        read = self._names(pipeline.get("tables", ()))
        return known(
            written=[str(each) for each in written], flows=flows_around(written, graph, read)
        )

    def _names(self, objects: Iterable[Document]) -> list[Identifier]:
        """Return the full names of tables, each once."""
        found: dict[Identifier, None] = {}
        for each in objects:
            with suppress(InputError):  # what a statement set writes together is no name
                name = parse_identifier(_unnumbered(str(each["name"])))
                found[self.namespace.resolve(name)] = None
        return list(found)

    def _project(self) -> Project:
        return self.configured or find_project(self.project)

    def table(self, name: str) -> Document | None:
        """Describe a table with its definition, secrets left out; None for one that there is not."""
        found = self._found(name)
        if found is None:
            return None
        options = table_options(found) if isinstance(found, Table) else None
        project = self._project()
        return (
            _row(found)
            | {"definition": without_secrets(show_create(found, redacted=True))}
            | known(options=options)
            | self.lineage.document(found.identifier, self.namespace, project)
        )

    def first_rows(self, name: str) -> Document | None:
        """Read the first rows of a table; None for one that there is not."""
        if self._found(name) is None:
            return None
        return first_rows_document(name, self.namespace, self._project())

    def _found(self, name: str) -> Table | View | None:
        try:
            return self.namespace.lookup(self.namespace.resolve(parse_identifier(name)))
        except InputError:
            return None

    def settings(self) -> Document:
        """Describe the settings of the project."""
        project = self._project()
        return settings_document(project, self.catalog_url or project.default_catalog_url)

    def doctor(self) -> Document:
        """Describe what the doctor found last, and begin to look where that is old."""
        return self.examination.document(lambda: findings(self._project(), self.catalog_url))

    def dead_letters(self, table: str | None = None) -> Document:
        """Describe the records that were left out, of one table or of all."""
        project = self._project()
        return self.letters.document(project, self.namespace.catalog, table)


def _summary(found: StoredPipeline) -> Document:
    report, owner = found.report, found.owner
    return known(
        name=found.name,
        status=found.status,
        reason=None if report is None else _reason(report),
        sentence=found.sentence,
        sink=None if found.sink is None else short_name(found.sink),
        runner=None if owner is None else f"process {owner.pid} on {owner.host}",
        checkpoint=found.path,
        started=None if found.since_ms is None else time_text(found.since_ms),
        restarts=None if report is None else report.restarts,
        rows_late=None if report is None else report.late_rows,
        bad_records=None if report is None else report.bad_records,
    )


def _alone(folder: CheckpointFolder) -> Document:
    """Describe a pipeline by its checkpoint: whether it runs is not in it."""
    problem = folder.look().problem
    return known(
        name=f"{folder.pipeline}/{folder.sink}",
        reason=None if problem is None else without_secrets(problem),
        sentence=None if problem is not None else ALONE,
        sink=folder.sink,
        checkpoint=folder.path,
    )


def _reason(report: JobReport) -> str | None:
    reason = f"waits for {report.waiting_for}" if report.waiting_for else report.last_error
    return None if reason is None else without_secrets(reason)


def _whole(summary: Document) -> Document:
    """Add what the checkpoint of a pipeline has."""
    if "checkpoint" not in summary:
        return summary
    status = summary.get("status")
    runs = None if status is None else not JobStatus(status).final
    path = summary["checkpoint"]
    return with_errors(summary | _checkpoint(path, runs=runs), error_documents((), path))


def _checkpoint(path: str, *, runs: bool | None) -> Document:
    files = LocalFiles(location=path)
    try:
        saved = read_beside(files, read_checkpoint)
        manifest = read_beside(files, newest_manifest)
    except StateMismatchError as error:
        return {"reason": without_secrets(error.message)}
    if saved is None or saved.planned is None:
        return {}
    sources = saved_sources(saved)
    sizes = () if manifest is None else state_sizes(manifest)
    plan = read_plan(files)
    watermark = _watermark(saved)
    return known(
        batch_id=saved.planned,
        last_commit=time_text(files.written_ms(f"{COMMITS}/{saved.committed}")),
        watermark=watermark,
        tables=[
            table_document(name, source, ends_known=False, runs=runs) for name, source in sources
        ],
        operators=operator_documents(
            plan,
            [
                StateSize(name=f"{s.stage} {s.input}", rows=s.rows, size_bytes=s.bytes)
                for s in sizes
            ],
            stage_sizes(path),
        ),
        # the batch that is planned may not be written yet
        sinks=sink_documents(plan, {}, None if saved.replays else watermark),
    )


def _watermark(saved: SavedCheckpoint) -> str | None:
    """Return the lowest watermark of the tables read; None where one of them has none yet."""
    states = [each for each in saved.offsets if isinstance(each, SourceState)]
    known_ms = [each.watermark_ms for each in states if each.watermark_ms is not None]
    return time_text(min(known_ms)) if known_ms and len(known_ms) == len(states) else None


def _unnumbered(name: str) -> str:
    """Return the name of a table without the number that it has where a query reads it again."""
    table, _, number = name.rpartition("#")
    return table if table and number.isdecimal() else name


def _group(table: Table) -> str | None:
    """Return the alignment group of a table; a hint of a query may name another."""
    return table.option_map.get(ALIGNMENT_GROUP.key)


def _row(found: Table | View) -> Document:
    table = found if isinstance(found, Table) else None
    return known(
        name=str(found.identifier),
        kind="VIEW" if table is None else "TABLE",
        connector=None if table is None else table.connector,
        group=None if table is None else _group(table),
        comment=found.comment,
    )
