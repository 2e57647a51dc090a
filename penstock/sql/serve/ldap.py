"""LDAP's simple bind (RFC 4511 §4.2).

The messages, the loopback server that Spark's Thrift server asks, and the client for a directory. Spark's
Thrift server asks an LDAP server whether a password is right; a class of its own would be JVM code. Users log
in at the front, which uses a password of its own, new for each server. Messages are pure BER: tag, length,
content.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import socketserver
from contextlib import suppress
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Thread
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JJavaError

from penstock.sql.serve.settings import Ldap

SEQUENCE, INTEGER, OCTET_STRING, ENUMERATED = 0x30, 0x02, 0x04, 0x0A

BIND_REQUEST, BIND_RESPONSE, SIMPLE_PASSWORD = 0x60, 0x61, 0x80

SUCCESS, INVALID_CREDENTIALS = 0, 49

MAX_LENGTH_BYTES = 4


class MalformedMessageError(Exception):
    """The bytes are no LDAP message, or none that belongs to a log-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleBind:
    """A user asks to be let in; `message_id` is repeated in the answer."""

    message_id: int
    name: str
    password: str = field(repr=False)


def read_bind(message: bytes) -> SimpleBind | None:
    """Read the content of an LDAPMessage; None for another operation than a bind, which ends the connection.

    Raises MalformedMessageError, also for a bind that is not simple (SASL).
    """
    identifier, rest = _take(message, INTEGER)
    if not rest or rest[0] != BIND_REQUEST:
        return None
    request, _controls = _take(rest, BIND_REQUEST)
    _version, request = _take(request, INTEGER)
    name, request = _take(request, OCTET_STRING)
    password, _nothing = _take(request, SIMPLE_PASSWORD)
    try:
        return SimpleBind(
            message_id=int.from_bytes(identifier, signed=True),
            name=name.decode(),
            password=password.decode(),
        )
    except UnicodeDecodeError as error:
        raise MalformedMessageError("a name or a password is not UTF-8") from error


def bind_answer(message_id: int, *, granted: bool) -> bytes:
    """Write the answer to a bind: success, or invalid credentials."""
    code = SUCCESS if granted else INVALID_CREDENTIALS
    result = _element(ENUMERATED, bytes([code])) + 2 * _element(OCTET_STRING, b"")
    identifier = message_id.to_bytes(message_id.bit_length() // 8 + 1, signed=True)
    answer = _element(INTEGER, identifier) + _element(BIND_RESPONSE, result)
    return _element(SEQUENCE, answer)


def read_length(head: bytes) -> int | None:
    """Read the length that follows a tag; None when `head` is too short to tell. Raises MalformedMessageError."""
    if not head:
        return None
    if head[0] < 0x80:
        return head[0]
    count = head[0] & 0x7F
    if not 1 <= count <= MAX_LENGTH_BYTES:
        raise MalformedMessageError("a length has no end")
    return int.from_bytes(head[1 : count + 1]) if len(head) > count else None


def _take(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Split one element off: its content, and what follows it."""
    if not data or data[0] != tag:
        raise MalformedMessageError(f"element {tag:#x} is missing")
    length = read_length(data[1:])
    start = 2 if data[1:2] < b"\x80" else 2 + (data[1] & 0x7F)
    if length is None or len(data) < start + length:
        raise MalformedMessageError(f"element {tag:#x} is cut off")
    return data[start : start + length], data[start + length :]


def _element(tag: int, content: bytes) -> bytes:
    assert len(content) < 0x80, "answers are short"
    return bytes([tag, len(content)]) + content


HOST = "127.0.0.1"

IDLE_TIMEOUT_S = 30.0
"""The Thrift server connects for one log-in and leaves."""

MAX_CONNECTIONS = 512

MAX_MESSAGE_BYTES = 16 * 1024

log = logging.getLogger(__name__)


class BindServer:
    """Answers while it is entered; `url` is for `hive.server2.authentication.ldap.url`.

    Only `password` is accepted, under any name.
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
        self._slots = BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((HOST, 0), _Connection)

    def lets_in(self, password: str) -> bool:
        """Return whether this is the password, in a time that does not tell where it differs."""
        return hmac.compare_digest(password.encode(), self._password)

    def verify_request(self, request: object, client_address: object) -> bool:  # noqa: ARG002
        """Refuse connections beyond the limit."""
        return self._slots.acquire(blocking=False)

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Serve a connection, and release its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()


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


CONNECT_TIMEOUT_MS = 5_000

READ_TIMEOUT_MS = 10_000

REFUSED = "javax.naming.AuthenticationException"


class Directory:
    """A directory that is asked at each log-in. Any thread may ask."""

    def __init__(self, jvm: Any, ldap: Ldap) -> None:
        self._jvm = jvm
        self._ldap = ldap

    def lets_in(self, name: str, password: str) -> bool:
        """Return whether the directory takes the password; one that does not answer refuses everybody."""
        # a bind without a password succeeds as nobody
        if not password or "\0" in password:
            return False
        return any(self._binds(principal, password) for principal in self._principals(name))

    def _principals(self, name: str) -> list[str]:
        """The names that are bound: by the patterns, with the domain, or the user's name as it is."""
        if self._ldap.user_pattern is not None:
            escaped = self._jvm.javax.naming.ldap.Rdn.escapeValue(name)
            return [p.replace("%s", escaped) for p in self._ldap.user_pattern.split(":") if p]
        if self._ldap.domain is not None and "@" not in name:
            return [f"{name}@{self._ldap.domain}"]
        return [name]

    def _binds(self, principal: str, password: str) -> bool:
        environment = self._jvm.java.util.Hashtable()
        for key, value in {
            "java.naming.factory.initial": "com.sun.jndi.ldap.LdapCtxFactory",
            "java.naming.provider.url": self._ldap.url,
            "java.naming.security.authentication": "simple",
            "java.naming.security.principal": principal,
            "java.naming.security.credentials": password,
            "com.sun.jndi.ldap.connect.timeout": str(CONNECT_TIMEOUT_MS),
            "com.sun.jndi.ldap.read.timeout": str(READ_TIMEOUT_MS),
        }.items():
            environment.put(key, value)
        try:
            self._jvm.javax.naming.directory.InitialDirContext(environment).close()
        except Py4JJavaError as error:
            cause = error.java_exception
            if cause.getClass().getName() != REFUSED:
                log.error("nobody can log in by %s: %s", self._ldap.url, cause)  # noqa: TRY400
            return False
        return True
