"""The server that clients connect to: logs them in, and forwards to Spark's Thrift server the calls that `hive_calls`
allows.

The Thrift server listens on the loopback interface and accepts only clients with the secret of this process. A thread
for each connection, as many as `Bounds` has. SASL is HiveServer2's: frames of a negotiation, the mechanism PLAIN
(RFC 4616), then messages by length.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_address, ip_network
from threading import Event, Semaphore, Thread
from types import TracebackType
from typing import Self

from penstock.catalog.errors import ConfigError
from penstock.sql.clock import SystemClock
from penstock.sql.serve.connection_limits import Bounds, Guest, Guests, LoginLimits
from penstock.sql.serve.hive_calls import FETCH, ConnectionCalls, RefusedCallError, refusal
from penstock.sql.serve.thrift_codec import (
    MalformedThriftError,
    MessageType,
    ThriftType,
    read_message,
    write_message,
)

MECHANISM = b"PLAIN"
MAX_NEGOTIATION_BYTES = 4096
MAX_NAME_LENGTH = 256
_HEAD = struct.Struct(">BI")


class SaslError(Exception):
    """The client does not speak SASL, or no mechanism that is known here. `str` is for the client."""


class SaslStatus(IntEnum):
    """The first byte of a frame of the negotiation (Thrift's TSaslTransport)."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A name and a password."""

    name: str
    password: str = field(repr=False)


def negotiate(read: Callable[[int], bytes]) -> Credentials:
    """Read what a client sends to log in. Raises SaslError."""
    status, mechanism = read_negotiation(read)
    if status is not SaslStatus.START or mechanism != MECHANISM:
        raise SaslError("this server takes SASL PLAIN, a user name and a password")
    status, response = read_negotiation(read)
    if status not in {SaslStatus.OK, SaslStatus.COMPLETE}:
        raise SaslError("the log-in was broken off")
    return _credentials(response)


def read_negotiation(read: Callable[[int], bytes]) -> tuple[SaslStatus, bytes]:
    """Read one frame of the negotiation. Raises SaslError."""
    code, size = _HEAD.unpack(read(_HEAD.size))
    if size > MAX_NEGOTIATION_BYTES:
        raise SaslError("this is no log-in")
    try:
        status = SaslStatus(code)
    except ValueError:
        raise SaslError("this is no log-in") from None
    return status, read(size)


def negotiation_frame(status: SaslStatus, payload: bytes = b"") -> bytes:
    """Write one frame of the negotiation."""
    return _HEAD.pack(status, len(payload)) + payload


def plain_response(credentials: Credentials) -> bytes:
    """Write what a client sends to log in with PLAIN."""
    return b"\0".join((b"", credentials.name.encode(), credentials.password.encode()))


def _credentials(response: bytes) -> Credentials:
    """Read `authzid NUL authcid NUL password`. Nobody acts for another user."""
    parts = response.split(b"\0")
    try:
        for_whom, name, password = (part.decode() for part in parts)
    except ValueError:
        raise SaslError("this is no user name and password") from None
    if for_whom not in {"", name}:
        raise SaslError("nobody acts for another user on this server")
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise SaslError("Error validating the login")
    return Credentials(name=name, password=password)


LOOK_INTERVAL_S = 0.5
CHECKS = 4
"""Passwords that are checked at the same time; scrypt takes 32 MiB each."""

MAX_REQUEST_BYTES = 2 << 20
MAX_ANSWER_BYTES = 64 << 20
"""Of answers that are read as a whole; rows are handed on piece by piece."""

SEND_TIMEOUT_S = 120.0
"""For a client that takes nothing."""

PIECE_BYTES = 1 << 16
WRONG = "Error validating the login"
_LENGTH = struct.Struct(">I")
# the head of an answer to FetchResults whose status is success, success with messages, or still executing
_FETCHED = struct.Struct(">bhbhbhi")
_GOOD = frozenset({0, 1, 2})

log = logging.getLogger(__name__)


class _ClosedError(Exception):
    """The other side has ended the connection."""


class _BackendClosedError(_ClosedError):
    """Spark's Thrift server has ended the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThriftBackend:
    """Spark's Thrift server, and the password that it takes from this process."""

    port: int
    password: str = field(repr=False)

    def connect(self, user: str) -> socket.socket:
        """Open a connection for a user. Raises OSError, SaslError."""
        connection = socket.create_connection(("127.0.0.1", self.port), SEND_TIMEOUT_S)
        try:
            # Spark's server has its own meaning for what follows these
            name = user.split("@", maxsplit=1)[0].split("/", maxsplit=1)[0] or "user"
            response = plain_response(Credentials(name=name, password=self.password))
            connection.sendall(negotiation_frame(SaslStatus.START, b"PLAIN"))
            connection.sendall(negotiation_frame(SaslStatus.OK, response))
            status, said = read_negotiation(_reader(connection))
            if status is not SaslStatus.COMPLETE:
                raise SaslError(f"Spark's server has refused us: {said.decode(errors='replace')}")
            connection.settimeout(None)
        except BaseException:
            connection.close()
            raise
        return connection


class Front:
    """Accepts connections while it is entered. `lets_in` returns whether a name and a password are right; it may
    block.

    Raises ConfigError where it cannot listen.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        backend: ThriftBackend,
        lets_in: Callable[[str, str], bool],
        tls: ssl.SSLContext | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._host, self._asked_port = host, port
        self._backend = backend
        self._lets_in = lets_in
        self._tls = tls
        self._bounds = bounds or Bounds()
        self._guests = Guests(self._bounds)
        self._limits = LoginLimits()
        self._checks = Semaphore(CHECKS)
        self._clock = SystemClock()
        self._stopped = Event()
        self._listener: socket.socket | None = None
        self._accepting: Thread | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._listener is not None, "the front is asked for its port before it listens"
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            self._listener = socket.create_server((self._host, self._asked_port), family=family)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {self._host}:{self._asked_port}: {error.strerror or error}",
                hint="another --port, or --port 0 for any that is free",
            ) from error
        self._listener.settimeout(LOOK_INTERVAL_S)
        self._accepting = Thread(target=self._accept, name="connections", daemon=True)
        self._accepting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        assert self._accepting is not None, "it was entered"
        assert self._listener is not None, "it was entered"
        self._accepting.join()
        self._listener.close()
        self._guests.end_all()

    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000

    def _accept(self) -> None:
        assert self._listener is not None, "it listens"
        while not self._stopped.is_set():
            now_s = self._now_s()
            self._guests.end_late(now_s)
            try:
                connection, address = self._listener.accept()
            except TimeoutError:
                continue
            except OSError as error:  # no more files, for instance
                log.warning("a connection was not taken: %s", error)
                self._stopped.wait(LOOK_INTERVAL_S)
                continue
            guest = Guest(connection=connection, address=_origin(address[0]), since_s=now_s)
            if not self._guests.admit(guest):
                connection.close()
                continue
            try:
                Thread(target=self._serve, args=(guest,), name="connection", daemon=True).start()
            except RuntimeError as error:  # the machine has no more threads
                log.warning("a connection was not taken: %s", error)
                self._guests.leave(guest)
                connection.close()

    def _serve(self, guest: Guest) -> None:
        """Serve one connection to its end."""
        try:
            guest.connection.settimeout(self._bounds.login_s)
            guest.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                secured = self._tls.wrap_socket(
                    guest.connection, server_side=True, do_handshake_on_connect=False
                )
                guest.connection = secured
                secured.do_handshake()
            user = self._log_in(guest)
            if user is not None:
                with self._open(guest, user) as backend:
                    self._relay(guest, user, backend)
        except _BackendClosedError as error:
            log.warning("the connection from %s was ended: %s", guest.address, error)
        except (_ClosedError, TimeoutError) as error:
            log.debug("the connection from %s has ended: %s", guest.address, error)
        except (MalformedThriftError, RefusedCallError, SaslError, OSError) as error:
            log.info("the connection from %s was ended: %s", guest.address, error)
        finally:
            self._guests.leave(guest)
            guest.connection.close()

    def _log_in(self, guest: Guest) -> str | None:
        """Return the name of the user who has logged in; None: refused, with an answer."""
        try:
            credentials = negotiate(_reader(guest.connection))
            self._check(guest, credentials)
            if not self._guests.let_in(guest):
                raise SaslError("there are too many connections")
        except SaslError as error:
            guest.connection.sendall(negotiation_frame(SaslStatus.BAD, str(error).encode()))
            return None
        return credentials.name

    def _check(self, guest: Guest, credentials: Credentials) -> None:
        """Check name and password, after the time that the failures before it cost. Raises SaslError."""
        name, address = credentials.name, guest.address
        wait_s = self._limits.wait_s(name, address, self._now_s())
        if wait_s is None:
            raise SaslError("too many log-ins have failed; try again later")
        guest.waits_until_s = self._now_s() + wait_s + self._bounds.turn_s
        guest.pause(wait_s)
        with self._turn(guest):
            granted = guest.checked = self._lets_in(name, credentials.password)
        if not granted:
            self._limits.failed(name, address, self._now_s())
            log.warning("a log-in as %r from %s was refused", name, address)
            raise SaslError(WRONG)
        self._limits.succeeded(name, address)

    @contextmanager
    def _turn(self, guest: Guest) -> Iterator[None]:
        """Wait for a place among the checks, where a connection keeps its own. Raises _ClosedError."""
        while not self._checks.acquire(timeout=LOOK_INTERVAL_S):
            if guest.ended:
                raise _ClosedError("it has made way, or its time is over")
        try:
            if not self._guests.begin_check(guest):
                raise _ClosedError("it has made way, or its time is over")
            yield
        finally:
            self._checks.release()

    def _open(self, guest: Guest, user: str) -> socket.socket:
        """Connect to Spark's server for a user, and tell the client that it is in."""
        try:
            backend = self._backend.connect(user)
        except (OSError, SaslError) as error:
            log.error("Spark's Thrift server does not answer: %s", error)  # noqa: TRY400  a message, no stack
            guest.connection.sendall(
                negotiation_frame(SaslStatus.ERROR, b"the server cannot serve now")
            )
            raise
        guest.connection.sendall(negotiation_frame(SaslStatus.COMPLETE))
        return backend

    def _relay(self, guest: Guest, user: str, backend: socket.socket) -> None:
        """Relay call after call, until the client leaves or is idle for too long."""
        calls = ConnectionCalls(user)
        client, read, answered = (
            guest.connection,
            _reader(guest.connection),
            _backend_reader(backend),
        )
        while not guest.ended:
            client.settimeout(self._bounds.idle_s)
            (size,) = _LENGTH.unpack(read(_LENGTH.size))
            if size > MAX_REQUEST_BYTES:
                raise MalformedThriftError("a call is too large")
            client.settimeout(SEND_TIMEOUT_S)
            asked = read_message(read(size))
            try:
                call = calls.request(asked)
            except RefusedCallError as error:
                log.warning("a call of %r from %s was refused: %s", user, guest.address, error)
                _send(client, write_message(refusal(asked, str(error))))
                continue
            _send(backend, write_message(call))
            self._answer(client, calls, answered)

    @staticmethod
    def _answer(
        client: socket.socket, calls: ConnectionCalls, read: Callable[[int], bytes]
    ) -> None:
        """Forward an answer: rows as they come, all else after inspection."""
        (size,) = _LENGTH.unpack(read(_LENGTH.size))
        begin = read(min(size, PIECE_BYTES))
        if _holds_rows(begin) and not calls.changes_rows:
            client.sendall(_LENGTH.pack(size) + begin)
            left = size - len(begin)
            while left:
                piece = read(min(left, PIECE_BYTES))
                client.sendall(piece)
                left -= len(piece)
            return
        if size > MAX_ANSWER_BYTES:
            raise MalformedThriftError("an answer is too large")
        answer = read_message(begin + read(size - len(begin)))
        _send(client, write_message(calls.response(answer)))


def _origin(address: str) -> str:
    """Return the owner of an address: of IPv6, everybody has the 2^64 of a network, and all of loopback is one."""
    ip = ip_address(address.partition("%")[0])
    if ip.is_loopback:
        return "127.0.0.1"
    return address if ip.version == 4 else str(ip_network((int(ip), 64), strict=False))


def _holds_rows(begin: bytes) -> bool:
    """Return whether this is the begin of a good answer to FetchResults."""
    head = 4 + 4 + len(FETCH) + 4
    if len(begin) < head + _FETCHED.size:
        return False
    message = read_message(begin, whole=False)
    if message.type is not MessageType.REPLY or message.name != FETCH:
        return False
    *shape, status = _FETCHED.unpack_from(begin, head)
    return (
        shape == [ThriftType.STRUCT, 0, ThriftType.STRUCT, 1, ThriftType.I32, 1] and status in _GOOD
    )


def _send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(data)) + data)


def _reader(connection: socket.socket) -> Callable[[int], bytes]:
    """Read exactly so many bytes. Raises _ClosedError, OSError."""

    def read(count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = connection.recv(min(count - len(found), PIECE_BYTES))
            if not piece:
                raise _ClosedError("the other side has left")
            found += piece
        return bytes(found)

    return read


def _backend_reader(backend: socket.socket) -> Callable[[int], bytes]:
    """Read exactly so many bytes of Spark's server. Raises _BackendClosedError, OSError."""
    exactly = _reader(backend)

    def read(count: int) -> bytes:
        try:
            return exactly(count)
        except (_ClosedError, ConnectionError) as error:
            raise _BackendClosedError("Spark's Thrift server has left") from error

    return read
