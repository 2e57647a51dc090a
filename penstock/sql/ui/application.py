"""The routes of the page and of its JSON API, as a Starlette application. Read-only: every route is a GET."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from penstock.sql.jobs.job import Job
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.ui import pages
from penstock.sql.ui.documents import VERSION_PATH, Document
from penstock.sql.ui.live import live_pipeline, live_summary
from penstock.sql.ui.openapi import openapi
from penstock.sql.ui.stored import StoredPipelines

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]", "::1")
"""The names that a browser may have for the server. Another is a page that rebinds its own name to this machine."""

EVENT_INTERVAL_S = 1.0
"""Time between two looks at the pipelines of an open page."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class PipelineView(Protocol):
    """The functions of the JSON API, and all that the page asks. May be used on any thread."""

    def pipelines(self) -> list[Document]:
        """Describe all pipelines by name."""

    def pipeline(self, name: str) -> Document | None:
        """Describe one pipeline; None where it is not known."""

    def tables(self) -> list[Document]:
        """Describe the tables and views of the catalog."""

    def table(self, name: str) -> Document | None:
        """Describe one table or view; None where there is none."""

    def ready(self) -> bool:
        """Whether each pipeline of the process runs or has ended well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """What runs in this process (`jobs`), and what the catalog and checkpoints tell of the rest (`PipelineView`)."""

    jobs: Callable[[], Sequence[Job]]
    stored: StoredPipelines

    def pipelines(self) -> list[Document]:
        """Describe all pipelines by name; one that runs here is described by its job."""
        found = {str(each["name"]): each for each in self.stored.summaries()}
        for job in self.jobs():
            found[job.name] = live_summary(job)
        return [found[name] for name in sorted(found)]

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

    def ready(self) -> bool:
        """Whether each job of this process runs or has ended well."""
        good = {JobStatus.RUNNING, JobStatus.FINISHED, JobStatus.STOPPED}
        return all(job.status in good for job in self.jobs())


def application(view: PipelineView) -> Starlette:
    """Return the application of a view."""
    return Starlette(
        routes=[*_api(view), *_pages(view)],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(LOCAL_NAMES)),
            Middleware(_SecurityHeaders),
        ],
    )


def _api(view: PipelineView) -> Iterable[Route]:
    def pipelines(_: Request) -> Response:
        return JSONResponse(view.pipelines())

    def pipeline(request: Request) -> Response:
        return _found(view.pipeline(request.path_params["name"]))

    def tables(_: Request) -> Response:
        return JSONResponse(view.tables())

    def table(request: Request) -> Response:
        return _found(view.table(request.path_params["name"]))

    def description(_: Request) -> Response:
        return JSONResponse(openapi())

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(view, request), media_type="text/event-stream")

    def healthy(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    def ready(_: Request) -> Response:
        is_ready = view.ready()
        return JSONResponse({"ready": is_ready}, status_code=200 if is_ready else 503)

    yield Route(f"{VERSION_PATH}/pipelines", pipelines)
    yield Route(f"{VERSION_PATH}/pipelines/{{name:path}}", pipeline)
    yield Route(f"{VERSION_PATH}/tables", tables)
    yield Route(f"{VERSION_PATH}/tables/{{name:path}}", table)
    yield Route(f"{VERSION_PATH}/openapi.json", description)
    yield Route(f"{VERSION_PATH}/events", events)
    yield Route("/healthz", healthy)
    yield Route("/readyz", ready)


def _pages(view: PipelineView) -> Iterable[Route | Mount]:
    def pipelines(_: Request) -> Response:
        return HTMLResponse(pages.pipelines_page(view.pipelines()))

    def pipeline(request: Request) -> Response:
        name = request.path_params["name"]
        return _page(pages.pipeline_page, view.pipeline(name), name)

    def tables(_: Request) -> Response:
        return HTMLResponse(pages.tables_page(view.tables()))

    def table(request: Request) -> Response:
        name = request.path_params["name"]
        return _page(pages.table_page, view.table(name), name)

    yield Route("/", pipelines)
    yield Route("/pipelines/{name:path}", pipeline)
    yield Route("/tables", tables)
    yield Route("/tables/{name:path}", table)
    yield Mount("/static", StaticFiles(directory=Path(__file__).with_name("static")))


def _found(document: Document | None) -> Response:
    if document is None:
        return JSONResponse({"error": "there is none of this name"}, status_code=404)
    return JSONResponse(document)


def _page(write: Callable[[Document], str], document: Document | None, name: str) -> Response:
    if document is None:
        return HTMLResponse(pages.missing_page(name), status_code=404)
    return HTMLResponse(write(document))


async def _events(view: PipelineView, request: Request) -> AsyncIterator[str]:
    """Send an event with the pipelines that have changed since the last one, until the page is closed."""
    before: dict[str, Document] = {}
    while not await request.is_disconnected():
        now = {str(each["name"]): each for each in await run_in_threadpool(view.pipelines)}
        changed = [name for name in sorted({*now, *before}) if now.get(name) != before.get(name)]
        if changed:
            yield f"event: pipeline\ndata: {json.dumps(changed)}\n\n"
        else:
            yield ": nothing\n\n"  # a closed connection is noticed by what is sent
        before = now
        await asyncio.sleep(EVENT_INTERVAL_S)


class _SecurityHeaders:
    """Adds the headers that keep a browser from loading or showing anything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)
