"""Listens for the browser: uvicorn on a thread of its own, at an address of this machine only."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import uvicorn

from penstock.catalog.errors import ConfigError
from penstock.sql.ui.application import application

if TYPE_CHECKING:
    from penstock.sql.ui.application import PipelineView


HOST = "127.0.0.1"
STOP_S = 5
"""How long an open page may keep the server from ending."""


@contextmanager
def serving_pages(view: PipelineView, *, port: int) -> Iterator[str]:
    """Answer requests while the block runs; gives the URL. Port 0 is any that is free. Raises ConfigError."""
    listening = _listen(port)
    config = uvicorn.Config(
        application(view),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        lifespan="off",
    )
    server = uvicorn.Server(config)
    thread = Thread(
        target=server.run, kwargs={"sockets": [listening]}, name="penstock ui", daemon=True
    )
    thread.start()
    try:
        yield f"http://{HOST}:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(STOP_S)
        listening.close()


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"the page cannot be served at {HOST}:{port}: {error.strerror or error}",
            hint="name another port",
        ) from error
    return listening
