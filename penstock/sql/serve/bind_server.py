"""Lets this process in at Spark's Thrift server: an LDAP server on the loopback interface that knows one password.

Spark's Thrift server asks an LDAP server whether a password is right; a class of its own would be JVM code. Users log
in at the front, which then comes with a password of its own, made anew for each server.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import socketserver
from contextlib import suppress
from threading import BoundedSemaphore, Thread
from types import TracebackType
from typing import Self

from penstock.sql.serve.ldap_bind import (
    SEQUENCE,
    MalformedMessageError,
    bind_answer,
    read_bind,
    read_length,
)

__all__ = ["BindServer"]

HOST = "127.0.0.1"
IDLE_TIMEOUT_S = 30.0
"""The Thrift server connects for one log-in and leaves."""

MAX_CONNECTIONS = 512
MAX_MESSAGE_BYTES = 16 * 1024
log = logging.getLogger(__name__)


class BindServer:
    """Answers while it is entered; `url` is for `hive.server2.authentication.ldap.url`.

    Only who has `password` gets in, under any name.
    """

    def __init__(self) -> None:
        self.password = secrets.token_urlsafe(32)
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """The address, with the port that was free."""
        assert self._server is not None, "the server is asked for its address before it runs"
        return f"ldap://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._server = _Server(self.password)
        Thread(target=self._server.serve_forever, name="log-ins", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._places = BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((HOST, 0), _Connection)

    def lets_in(self, password: str) -> bool:
        """Tell whether this is the password, in a time that does not tell where it differs."""
        return hmac.compare_digest(password.encode(), self._password)

    def verify_request(self, request: object, client_address: object) -> bool:  # noqa: ARG002
        """Take no more connections than there are places for."""
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Serve a connection, and give its place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()


class _Connection(socketserver.StreamRequestHandler):
    """One connection: binds one after the other, until something else comes."""

    server: _Server
    timeout = IDLE_TIMEOUT_S

    def handle(self) -> None:
        """Answer until the client leaves."""
        with suppress(MalformedMessageError, ConnectionError, TimeoutError, socket.timeout):
            while (message := self._message()) is not None:
                bind = read_bind(message)
                if bind is None:
                    return
                granted = self.server.lets_in(bind.password)
                if not granted:
                    log.warning("a log-in past the front, as %r, was refused", bind.name)
                self.wfile.write(bind_answer(bind.message_id, granted=granted))

    def _message(self) -> bytes | None:
        """Read one LDAPMessage's content; None at the end of the connection."""
        tag = self.rfile.read(1)
        if not tag:
            return None
        head = self.rfile.read(1)
        while (length := read_length(head)) is None:
            more = self.rfile.read(1)
            if not more:
                raise MalformedMessageError("a message is cut off")
            head += more
        if tag[0] != SEQUENCE or length > MAX_MESSAGE_BYTES:
            raise MalformedMessageError("this is no log-in")
        return self.rfile.read(length)
