"""Listens for the browser: uvicorn on a thread of its own, by default at an address of this machine only."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from penstock.catalog.errors import ConfigError
from penstock.sql.ui.access import LOCAL_ACCESS, PageAccess
from penstock.sql.ui.application import Ending, application

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from penstock.sql.ui.application import PipelineView


GRACE_S = 2
"""How long requests may take once the server ends."""

TICK_S = 1.0
"""Time between two dates in the headers of answers."""

MOST_CONNECTIONS = 250
"""Connections at a time; each takes a file of a process that may run pipelines. An open page has one or two."""

HEADERS_S = 15.0
"""How long a connection may take from its begin, or from its last answer, to the end of a request's headers."""

HANDSHAKE_S = 10.0
"""How long the TLS handshake of a connection may take: before its end the server does not count it."""

STOP_S = 5
"""How long the end waits for the server's thread."""


class _PageProtocol(H11Protocol):
    """A connection that takes the place of another where there are too many: uvicorn accepts any number of them.

    It aborts the one that has asked for nothing for the longest time, itself where all others have requests under way.
    """

    silent_since = 0.0
    """When it began, or had its last answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.silent_since = time.monotonic()
        if len(self.connections) > MOST_CONNECTIONS:
            others = [each for each in _silent(self.connections) if each is not self]
            leaves = min(others, key=lambda each: each.silent_since, default=self)
            # it is lost only later, and would count until then
            self.connections.discard(leaves)
            leaves.transport.abort()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.silent_since = time.monotonic()

    def asks_nothing(self) -> bool:
        # uvicorn has None there before the first request, whatever its annotation says
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete


def _silent(connections: Iterable[object]) -> list[_PageProtocol]:
    """Return those without a request under way."""
    return [each for each in connections if isinstance(each, _PageProtocol) and each.asks_nothing()]


class _PageLoop(asyncio.SelectorEventLoop):
    """An event loop that closes a connection whose TLS handshake does not end: asyncio gives it a minute.

    uvicorn passes no such limit on, and knows a connection only once that is over.
    """

    async def create_server(self, *arguments: Any, **options: Any) -> asyncio.Server:
        """Listen, as asyncio does."""
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = HANDSHAKE_S
        return await super().create_server(*arguments, **options)


class _PageServer(uvicorn.Server):
    """A server that wakes up once a second while nobody asks, and at its end: uvicorn's does ten times a second.

    It closes connections that ask for nothing, which uvicorn keeps before their first request.
    """

    def __init__(self, config: uvicorn.Config, ending: Ending) -> None:
        super().__init__(config)
        self._ending = ending

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the end, on the calling thread."""
        with asyncio.Runner(loop_factory=_PageLoop) as runner:
            runner.run(self.serve(sockets=sockets))

    async def main_loop(self) -> None:
        """Refresh the headers' date each second until the end."""
        while not await self.on_tick(0):
            self._close_silent()
            await self._ending.begins_within(TICK_S)

    def _close_silent(self) -> None:
        now = time.monotonic()
        for connection in _silent(self.server_state.connections):
            if now - connection.silent_since > HEADERS_S:
                connection.transport.close()


@contextmanager
def serving_pages(
    view: PipelineView,
    access: PageAccess = LOCAL_ACCESS,
    *,
    port: int,
    registry: CollectorRegistry | None = None,
) -> Iterator[str]:
    """Answer requests while the block runs; gives the URL. Port 0 is any that is free. Raises ConfigError.

    The metrics of `registry` are served, too.
    """
    listening = _listen(access.host, port)
    ending = Ending()
    config = uvicorn.Config(
        application(view, access, ending=ending, registry=registry),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        lifespan="off",
        http=_PageProtocol,
        ws="none",
    )
    config.load()
    config.ssl = access.tls
    server = _PageServer(config, ending)
    thread = Thread(
        target=server.run, kwargs={"sockets": [listening]}, name="penstock ui", daemon=True
    )
    thread.start()
    try:
        yield access.url(listening.getsockname()[1])
    finally:
        server.should_exit = True
        ending.begin()
        thread.join(STOP_S)
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    name = f"[{host}]" if ":" in host else host
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"the page cannot be served at {name}:{port}: {error.strerror or error}",
            hint="name another port, or an address of this machine",
        ) from error
    return listening
