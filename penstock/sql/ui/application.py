"""The routes of the page and of its JSON API, as a Starlette application. Nothing is changed by any.

All are a GET, but those that make the server read a table: these are a POST, which no page of another server may send.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from penstock.catalog.errors import InputError
from penstock.catalog.masking import without_secrets
from penstock.sql.jobs.job import Job
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.ui import pages
from penstock.sql.ui.access import LOCAL_ACCESS, PageAccess
from penstock.sql.ui.documents.fields import VERSION_PATH, Document, writable
from penstock.sql.ui.documents.live import live_pipeline, live_summary
from penstock.sql.ui.documents.openapi import openapi
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.guard import NameCheck, OriginCheck, SecurityHeaders, TokenCheck

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

EVENT_INTERVAL_S = 1.0
"""Time between two looks at the pipelines of an open page."""


class PipelineView(Protocol):
    """The functions of the JSON API, and all that the page asks. May be used on any thread."""

    @property
    def stored(self) -> StoredPipelines:
        """What the catalog and checkpoints tell; its notices are those of the last look at all pipelines."""

    def pipelines(self) -> list[Document]:
        """Describe all pipelines by name."""

    def pipeline(self, name: str) -> Document | None:
        """Describe one pipeline; None where it is not known."""

    def tables(self) -> list[Document]:
        """Describe the tables and views of the catalog."""

    def table(self, name: str) -> Document | None:
        """Describe one table or view; None where there is none."""

    def first_rows(self, name: str) -> Document | None:
        """Read the first rows of a table; None where there is none. May take seconds."""

    def dead_letters(self, table: str | None) -> Document:
        """Describe the records that were left out, of one table or of all."""

    def settings(self) -> Document:
        """Describe the settings of the project."""

    def doctor(self) -> Document:
        """Describe what was found of the machine, at once; looks again where that is old."""

    def ready(self) -> bool:
        """Whether each pipeline of the process runs or has ended well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """What runs in this process (`jobs`), and what the catalog and checkpoints tell of the rest (`PipelineView`)."""

    jobs: Callable[[], Sequence[Job]]
    stored: StoredPipelines

    def pipelines(self) -> list[Document]:
        """Describe all pipelines by name; one that runs here is described by its job."""
        return self.stored.summaries_beside({job.name: live_summary(job) for job in self.jobs()})

    def pipeline(self, name: str) -> Document | None:
        """Describe one pipeline; None where it is not known."""
        for job in reversed(self.jobs()):
            if job.name == name:
                return live_pipeline(job)
        return self.stored.pipeline(name)

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
        """Whether each job of this process runs or has ended well."""
        good = {JobStatus.RUNNING, JobStatus.FINISHED, JobStatus.STOPPED}
        return all(job.status in good for job in self.jobs())


def application(
    view: PipelineView,
    access: PageAccess = LOCAL_ACCESS,
    *,
    ending: Ending | None = None,
    registry: CollectorRegistry | None = None,
) -> Starlette:
    """Return the application of a view for those whom `access` admits. Events end with the server, by `ending`.

    The metrics of `registry` are at /metrics, for the same ones.
    """
    metrics = () if registry is None else (_metrics(registry),)
    return Starlette(
        routes=[*_api(view, ending or Ending()), *_pages(view), *metrics],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(NameCheck, access=access),
            Middleware(TokenCheck, access=access),
            Middleware(OriginCheck),
        ],
        exception_handlers={InputError: _unreadable},
    )


def _unreadable(_: Request, error: Exception) -> Response:
    """Say why the catalog or the project cannot be read, in place of a stack trace for each look at the page."""
    return _Json({"error": without_secrets(str(error))}, status_code=503)


class _Json(JSONResponse):
    """JSON also of texts that are no UTF-8: a character that cannot be written is its escape."""

    def render(self, content: object) -> bytes:
        """Write a document."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode(errors="backslashreplace")


class _Html(HTMLResponse):
    """A page also of such texts."""

    def render(self, content: str) -> bytes:
        """Write a page."""
        return content.encode(errors="backslashreplace")


def _metrics(registry: CollectorRegistry) -> Route:
    from prometheus_client.exposition import choose_encoder

    def metrics(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": kind})

    return Route("/metrics", metrics)


def _api(view: PipelineView, ending: Ending) -> Iterable[Route]:
    looks = Looks(view)

    def pipelines(_: Request) -> Response:
        return _Json(view.pipelines())

    def pipeline(request: Request) -> Response:
        return _found(view.pipeline(request.path_params["name"]))

    def lineage(request: Request) -> Response:
        found = view.pipeline(request.query_params.get("pipeline", ""))
        return _found(None if found is None else view.stored.lineage_of(found))

    def tables(_: Request) -> Response:
        return _Json(view.tables())

    def table(request: Request) -> Response:
        return _found(view.table(request.path_params["name"]))

    def first_rows(request: Request) -> Response:
        return _found(view.first_rows(request.path_params["name"]))

    def dead_letters(request: Request) -> Response:
        return _Json(view.dead_letters(request.query_params.get("table")))

    def settings(_: Request) -> Response:
        return _Json(view.settings())

    def doctor(_: Request) -> Response:
        return _Json(view.doctor())

    def description(_: Request) -> Response:
        return _Json(openapi())

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(looks, request, ending), media_type="text/event-stream")

    def healthy(_: Request) -> Response:
        return _Json({"status": "ok"})

    def ready(_: Request) -> Response:
        is_ready = view.ready()
        return _Json({"ready": is_ready}, status_code=200 if is_ready else 503)

    yield Route(f"{VERSION_PATH}/pipelines", pipelines)
    yield Route(f"{VERSION_PATH}/pipelines/{{name:path}}", pipeline)
    yield Route(f"{VERSION_PATH}/lineage", lineage)
    yield Route(f"{VERSION_PATH}/tables", tables)
    yield Route(f"{VERSION_PATH}/tables/{{name:path}}/first-rows", first_rows, methods=["POST"])
    yield Route(f"{VERSION_PATH}/tables/{{name:path}}", table)
    yield Route(f"{VERSION_PATH}/dead-letters", dead_letters)
    yield Route(f"{VERSION_PATH}/settings", settings)
    yield Route(f"{VERSION_PATH}/doctor", doctor)
    yield Route(f"{VERSION_PATH}/openapi.json", description)
    yield Route(f"{VERSION_PATH}/events", events)
    yield Route("/healthz", healthy)
    yield Route("/readyz", ready)


def _pages(view: PipelineView) -> Iterable[Route | Mount]:
    def pipelines(_: Request) -> Response:
        found = view.pipelines()
        return _Html(pages.pipelines_page(found, view.stored.notices.texts))

    def pipeline(request: Request) -> Response:
        name = request.path_params["name"]

        def write(found: Document) -> str:
            return pages.pipeline_page(found, view.stored.lineage_of(found))

        return _page(write, view.pipeline(name), name)

    def tables(_: Request) -> Response:
        return _Html(pages.tables_page(view.tables()))

    def table(request: Request) -> Response:
        name = request.path_params["name"]
        return _page(pages.table_page, view.table(name), name)

    def first_rows(request: Request) -> Response:
        name = request.path_params["name"]
        found = view.table(name)
        rows = None if found is None else view.first_rows(name)
        return _page(lambda table: pages.table_page(table, rows), found, name)

    def dead_letters(request: Request) -> Response:
        table = request.query_params.get("table")
        return _Html(pages.dead_letters_page(view.dead_letters(table), table))

    def settings(_: Request) -> Response:
        return _Html(pages.settings_page(view.settings(), view.doctor()))

    yield Route("/", pipelines)
    yield Route("/dead-letters", dead_letters)
    yield Route("/settings", settings)
    yield Route("/pipelines/{name:path}", pipeline)
    yield Route("/tables", tables)
    yield Route("/tables/{name:path}/first-rows", first_rows, methods=["POST"])
    yield Route("/tables/{name:path}", table)
    yield Mount("/static", StaticFiles(directory=Path(__file__).with_name("static")))


def _found(document: Document | None) -> Response:
    if document is None:
        return _Json({"error": "there is none of this name"}, status_code=404)
    return _Json(document)


def _page(write: Callable[[Document], str], document: Document | None, name: str) -> Response:
    if document is None:
        return _Html(pages.missing_page(name), status_code=404)
    return _Html(write(document))


class Ending:
    """The end of a server: whoever waits for it learns of it at once, as a server waits for open pages."""

    def __init__(self) -> None:
        self._begun = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()

    def begin(self) -> None:
        """Begin the end; from any thread."""
        self._begun = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the server's loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._event.set)

    async def begins_within(self, seconds: float) -> bool:
        """Wait for it, at most so long; returns whether it has begun."""
        self._loop = asyncio.get_running_loop()
        if not self._begun:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._event.wait(), seconds)
        return self._begun


class Looks:
    """The pipelines as all open pages see them: one look is for all that ask within half of their interval."""

    def __init__(self, view: PipelineView) -> None:
        self._view = view
        self._lock = asyncio.Lock()
        self._looked_s = -EVENT_INTERVAL_S
        self._found: Mapping[str, Document] = {}
        self.problem = ""
        """What could not be read at the last look, in words."""

    async def pipelines(self) -> Mapping[str, Document]:
        """Return the pipelines by name; those of before where the catalog cannot be read, which `problem` says."""
        async with self._lock:
            if time.monotonic() - self._looked_s >= EVENT_INTERVAL_S / 2:
                try:
                    found = await run_in_threadpool(self._view.pipelines)
                except InputError as error:
                    problem = f"what is below is of before: {error.message}"
                    self.problem = writable(without_secrets(problem))
                else:
                    self._found = {str(each["name"]): each for each in found}
                    self.problem = writable("; ".join(self._view.stored.notices.texts))
                self._looked_s = time.monotonic()
            return self._found


async def _events(looks: Looks, request: Request, ending: Ending) -> AsyncIterator[str]:
    """Send an event with the pipelines that have changed since the last one, until the page or the server is closed.

    Another event has what cannot be read, once that is something else; the first is sent where there is such.
    """
    before: Mapping[str, Document] = {}
    problem = ""
    while not await request.is_disconnected():
        now = await looks.pipelines()
        if looks.problem != problem:
            problem = looks.problem
            yield f"event: problem\ndata: {json.dumps(problem)}\n\n"
        changed = [name for name in sorted({*now, *before}) if now.get(name) != before.get(name)]
        if changed:
            yield f"event: pipeline\ndata: {json.dumps(changed)}\n\n"
        else:
            yield ": nothing\n\n"  # a closed connection is noticed by what is sent
        before = now
        if await ending.begins_within(EVENT_INTERVAL_S):
            return
