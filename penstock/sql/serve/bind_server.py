"""Answers log-ins from the password file, as an LDAP server on the loopback interface that only knows how to bind.

Spark's Thrift server asks an LDAP server whether a password is right, and no password file: a class of its own would
be JVM code. So passwords are checked here, in Python, and the Thrift server still refuses a connection by itself.
"""

from __future__ import annotations

import logging
import socket
import socketserver
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

from penstock.catalog.errors import ConfigError
from penstock.sql.serve.ldap_bind import (
    SEQUENCE,
    MalformedMessageError,
    bind_answer,
    read_bind,
    read_length,
)
from penstock.sql.serve.users import is_right, read_users

__all__ = ["BindServer"]

HOST = "127.0.0.1"
IDLE_TIMEOUT_S = 30.0
"""The Thrift server connects for one log-in and leaves."""

MAX_MESSAGE_BYTES = 16 * 1024
log = logging.getLogger(__name__)


class BindServer:
    """Answers while it is entered; `url` is for `hive.server2.authentication.ldap.url`. Raises ConfigError at the start
    where the password file will not do; one that is spoilt later lets nobody in.
    """

    def __init__(self, users: Path) -> None:
        self._users = users
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """The address, with the port that was free."""
        assert self._server is not None, "the server is asked for its address before it runs"
        return f"ldap://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        if not read_users(self._users):
            raise ConfigError(
                f"the password file {self._users} names no user",
                hint=f"penstock serve users add NAME --file {self._users}",
            )
        self._server = _Server(self._users)
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

    def __init__(self, users: Path) -> None:
        self.users = users
        super().__init__((HOST, 0), _Connection)


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
                granted = self._lets_in(bind.name, bind.password)
                self.wfile.write(bind_answer(bind.message_id, granted=granted))

    def _lets_in(self, name: str, password: str) -> bool:
        try:
            granted = is_right(read_users(self.server.users), name, password)
        except ConfigError as error:
            log.error("nobody can log in: %s", error.message)  # noqa: TRY400  a message, no stack
            return False
        if not granted:
            log.warning("a log-in as %r was refused", name)
        return granted

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
