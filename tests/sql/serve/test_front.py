"""What clients connect to, with a server behind it that only remembers what reached it: no Spark."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from TCLIService import TCLIService
from TCLIService import ttypes as rpc
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TMemoryBuffer, TTransportException

from penstock.catalog.errors import ConfigError
from penstock.sql.serve.connection_limits import LONGEST_WAIT_S, Bounds, LoginLimits
from penstock.sql.serve.front import (
    MAX_REQUEST_BYTES,
    Front,
    SaslStatus,
    ThriftBackend,
    _origin,
    negotiate,
    negotiation_frame,
)
from penstock.sql.serve.tls import server_context
from tests.sql.serve.test_tls import write_pem

SECRET, PASSWORD = "secret of the process", "correct horse"
WAIT_S = 20.0
HANDLE = rpc.THandleIdentifier(b"a" * 16, b"b" * 16)
GOOD = rpc.TStatus(0)


class Remembering:
    """The calls that reach Spark's server; FetchResults gives `rows`."""

    def __init__(self) -> None:
        self.opened: list[rpc.TOpenSessionReq] = []
        self.statements: list[rpc.TExecuteStatementReq] = []
        self.rows = b"r" * 300_000
        self.fetched = False
        self.leaves = False

    def OpenSession(self, request: Any) -> Any:  # noqa: N802  Thrift's name
        """Open the session."""
        self.opened.append(request)
        return rpc.TOpenSessionResp(GOOD, request.client_protocol, rpc.TSessionHandle(HANDLE), {})

    def ExecuteStatement(self, request: Any) -> Any:  # noqa: N802
        """Start a statement."""
        if self.leaves:
            raise TTransportException
        self.statements.append(request)
        return rpc.TExecuteStatementResp(GOOD, rpc.TOperationHandle(HANDLE, 0, True))

    def FetchResults(self, _request: Any) -> Any:  # noqa: N802
        """Give one column with one value, the first time."""
        values = rpc.TBinaryColumn([self.rows] * (not self.fetched), b"\0")
        self.fetched = True
        rows = rpc.TRowSet(0, [], [rpc.TColumn(binaryVal=values)])
        return rpc.TFetchResultsResp(GOOD, False, rows)

    def GetResultSetMetadata(self, _request: Any) -> Any:  # noqa: N802
        """Describe the column."""
        entry = rpc.TPrimitiveTypeEntry(rpc.TTypeId.BINARY_TYPE)
        kind = rpc.TTypeDesc([rpc.TTypeEntry(primitiveEntry=entry)])
        return rpc.TGetResultSetMetadataResp(
            GOOD, rpc.TTableSchema([rpc.TColumnDesc("c", kind, 1)])
        )

    def GetOperationStatus(self, _request: Any) -> Any:  # noqa: N802
        """Say that it is done."""
        return rpc.TGetOperationStatusResp(GOOD, rpc.TOperationState.FINISHED_STATE)

    def CloseOperation(self, _request: Any) -> Any:  # noqa: N802
        """Forget it."""
        return rpc.TCloseOperationResp(GOOD)

    def CloseSession(self, _request: Any) -> Any:  # noqa: N802
        """Forget it."""
        return rpc.TCloseSessionResp(GOOD)


def exactly(connection: socket.socket, count: int) -> bytes:
    """Read so many bytes."""
    found = b""
    while len(found) < count:
        piece = connection.recv(count - len(found))
        if not piece:
            raise ConnectionError
        found += piece
    return found


def received(connection: socket.socket) -> bytes:
    """What comes, or nothing where the connection was ended."""
    try:
        return connection.recv(1000)
    except ConnectionResetError:
        return b""


def answer(connection: socket.socket, handler: Remembering) -> None:
    """Be Spark's server for one connection."""
    with closing(connection), ExitStack() as stack:
        stack.callback(lambda: None)
        try:
            credentials = negotiate(lambda count: exactly(connection, count))
            if credentials.password != SECRET:
                connection.sendall(negotiation_frame(SaslStatus.BAD, b"no"))
                return
            connection.sendall(negotiation_frame(SaslStatus.COMPLETE))
            processor = TCLIService.Processor(handler)
            while True:
                (size,) = struct.unpack(">I", exactly(connection, 4))
                out = TMemoryBuffer()
                processor.process(
                    TBinaryProtocol(TMemoryBuffer(exactly(connection, size))), TBinaryProtocol(out)
                )
                connection.sendall(struct.pack(">I", len(out.getvalue())) + out.getvalue())
        except (OSError, TTransportException):
            return


@pytest.fixture
def handler() -> Remembering:
    """What reached Spark's server."""
    return Remembering()


@pytest.fixture
def backend(handler: Remembering) -> Iterator[ThriftBackend]:
    """Spark's server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection, handler), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield ThriftBackend(port=listener.getsockname()[1], password=SECRET)
        listener.shutdown(socket.SHUT_RDWR)


Start = Callable[..., Front]


@pytest.fixture
def start(backend: ThriftBackend) -> Iterator[Start]:
    """Starts a front; alice may come in."""
    with ExitStack() as stack:

        def begin(
            lets_in: Callable[[str, str], bool] = lambda name, password: (
                (name, password) == ("alice", PASSWORD)
            ),
            tls: ssl.SSLContext | None = None,
            **bounds: Any,
        ) -> Front:
            front = Front(
                host="127.0.0.1",
                port=0,
                backend=backend,
                lets_in=lets_in,
                tls=tls,
                bounds=Bounds(**bounds),
            )
            return stack.enter_context(front)

        yield begin


@contextmanager
def connected(
    front: Front, user: str = "alice", password: str = PASSWORD, **options: Any
) -> Iterator[Any]:
    """PyHive's connection."""
    connection = hive.connect(
        "127.0.0.1", front.port, username=user, password=password, auth="LDAP", **options
    )
    try:
        yield connection
    finally:
        with suppress(TTransportException, OSError):  # where the front has ended it
            connection.close()


def test_a_client_logs_in_and_reads_rows(start: Start, handler: Remembering) -> None:
    """More of them than are handed on at a time; the server behind hears of a user, and of no password or setting."""
    with connected(start(), configuration={"set:system:x": "y"}) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 1")
        rows = cursor.fetchall()
    (opened,) = handler.opened

    assert rows == [(handler.rows,)]
    assert (opened.username, opened.password) == ("alice", None)
    assert opened.configuration is None
    assert handler.statements[-1].confOverlay is None


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("mallory", PASSWORD), ("alice", "")]
)
def test_a_wrong_password_gets_nowhere(
    start: Start, handler: Remembering, user: str, password: str
) -> None:
    """Spark's server is not asked."""
    with (
        pytest.raises(TTransportException, match="Error validating the login"),
        connected(start(), user, password or "-"),
    ):
        pass

    assert handler.opened == []


def test_the_server_behind_lets_nobody_in_without_the_secret(backend: ThriftBackend) -> None:
    """Another account of the machine finds its port, and has a password of its own."""
    with (
        pytest.raises(TTransportException),
        closing(
            hive.connect(
                "127.0.0.1", backend.port, username="alice", password=PASSWORD, auth="LDAP"
            )
        ),
    ):
        pass


def test_idle_connections_keep_nobody_out(start: Start) -> None:
    """The oldest of them make way for the next log-in."""
    front = start(waiting=20, waiting_per_address=8)
    idle = [socket.create_connection(("127.0.0.1", front.port)) for _ in range(100)]
    with connected(front) as connection:
        connection.cursor().execute("SELECT 1")
    for one in idle:
        one.close()


def test_a_connection_that_says_nothing_is_ended(start: Start) -> None:
    """So is one that says a byte now and then: the time is for the whole log-in."""
    front = start(login_s=0.5)
    with socket.create_connection(("127.0.0.1", front.port), WAIT_S) as slow:
        slow.sendall(negotiation_frame(SaslStatus.START, b"PLAIN")[:3])

        assert received(slow) == b""


def test_a_log_in_that_is_checked_slowly_holds_up_nobody_else(start: Start) -> None:
    """Mallory's check does not end before alice has read her rows."""
    done = threading.Event()

    def lets_in(name: str, _password: str) -> bool:
        return name == "alice" or not done.wait(WAIT_S)

    front = start(lets_in)

    def guess() -> None:
        with pytest.raises(TTransportException), connected(front, "mallory"):
            pass

    guessing = threading.Thread(target=guess)
    guessing.start()
    with connected(front) as connection:
        connection.cursor().execute("SELECT 1")
    done.set()
    guessing.join()


class _LongTurns(LoginLimits):
    """Mallory's log-ins have to wait for their turns; `asked` counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Semaphore(0)

    def wait_s(self, name: str, address: str, now_s: float) -> float | None:
        """Give the longest wait to mallory."""
        if name != "mallory":
            return super().wait_s(name, address, now_s)
        self.asked.release()
        return LONGEST_WAIT_S


def test_guesses_that_wait_for_their_turn_keep_nobody_out(start: Start) -> None:
    """They make way, as connections that say nothing do, also where alice has their address."""
    front = start(waiting=8, waiting_per_address=4)
    front._limits = limits = _LongTurns()
    guess = negotiation_frame(SaslStatus.START, b"PLAIN") + negotiation_frame(
        SaslStatus.OK, b"\0mallory\0wrong"
    )
    with ExitStack() as stack:
        for number in range(4):
            guessing = socket.create_connection(("127.0.0.1", front.port), WAIT_S)
            stack.callback(guessing.close)
            guessing.sendall(guess)
            assert limits.asked.acquire(timeout=WAIT_S), number
        with connected(front) as connection:
            connection.cursor().execute("SELECT 1")


@pytest.mark.parametrize(
    ("address", "owner"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.8.9.10", "127.0.0.1"),
        ("::1", "127.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::2", "2001:db8::/64"),
    ],
)
def test_addresses_of_one_owner_are_one(address: str, owner: str) -> None:
    """A machine has sixteen million of its own, and a network of IPv6 more."""
    assert _origin(address) == owner


def test_connections_after_the_log_in_are_bounded(start: Start) -> None:
    """The next one is told so, and comes in when one has left."""
    front = start(connections_per_address=1)
    with (
        connected(front),
        pytest.raises(TTransportException, match="too many connections"),
        connected(front),
    ):
        pass


def test_an_idle_session_is_ended(start: Start) -> None:
    """Its connection too."""
    front = start(idle_s=0.3)
    with connected(front) as connection:
        transport = connection._transport
        with pytest.raises((TTransportException, OSError)):
            transport.read(1)


@pytest.mark.parametrize(
    "bytes_",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x80\x01\x00\x01\x00\x00\x00\x0bOpenSession",
        b"\x01\xff\xff\xff\xff",
        negotiation_frame(SaslStatus.START, b"GSSAPI"),
        negotiation_frame(SaslStatus.START, b"PLAIN")
        + negotiation_frame(SaslStatus.OK, b"bob\0alice\0correct horse"),
        negotiation_frame(SaslStatus.START, b"PLAIN")
        + negotiation_frame(SaslStatus.OK, b"\0alice\0a\0b"),
        negotiation_frame(SaslStatus.START, b"PLAIN")
        + negotiation_frame(SaslStatus.OK, b"\0al\nice\0correct horse"),
    ],
)
def test_what_is_no_log_in_ends_the_connection(
    start: Start, handler: Remembering, bytes_: bytes
) -> None:
    """Another protocol, another mechanism, one user for another."""
    with socket.create_connection(("127.0.0.1", start().port), WAIT_S) as connection:
        connection.sendall(bytes_)
        said = received(connection)

    assert said == b"" or said[0] == SaslStatus.BAD
    assert handler.opened == []


def test_a_call_that_is_too_large_ends_the_connection(start: Start) -> None:
    """Nothing of it is read."""
    with connected(start()) as connection:
        transport = connection._transport
        transport._trans.write(struct.pack(">I", MAX_REQUEST_BYTES + 1))
        with pytest.raises(TTransportException):
            transport.read(1)


def test_a_second_call_in_a_frame_ends_the_connection(start: Start, handler: Remembering) -> None:
    """It reaches nobody."""
    with connected(start()) as connection:
        handle = connection.sessionHandle
        out = TMemoryBuffer()
        client = TCLIService.Client(TBinaryProtocol(out))
        client.send_GetCatalogs(rpc.TGetCatalogsReq(handle))
        client.send_ExecuteStatement(rpc.TExecuteStatementReq(handle, "SELECT 2"))
        transport = connection._transport
        transport.write(out.getvalue())
        transport.flush()
        with pytest.raises(TTransportException):
            transport.read(1)

    assert [each.statement for each in handler.statements] == ["USE `default`"]


def test_a_refused_call_leaves_the_session_as_it_is(start: Start, handler: Remembering) -> None:
    """A token that nobody gives, then a statement."""
    with connected(start()) as connection:
        with pytest.raises(TApplicationException, match="does not take GetDelegationToken"):
            connection.client.GetDelegationToken(
                rpc.TGetDelegationTokenReq(connection.sessionHandle, "alice", "alice")
            )
        connection.cursor().execute("SELECT 1")

    assert handler.statements[-1].statement == "SELECT 1"


def test_connections_speak_tls(start: Start, tmp_path: Path) -> None:
    """One that does not is ended, and so is one that does not end its handshake."""
    pem = write_pem(tmp_path)
    front = start(tls=server_context(pem), login_s=1.0)
    trusted = ssl.create_default_context(cafile=str(pem.certificate))
    with socket.create_connection(("127.0.0.1", front.port), WAIT_S) as plain:
        plain.sendall(negotiation_frame(SaslStatus.START, b"PLAIN"))
        refused = received(plain)
    with socket.create_connection(("127.0.0.1", front.port), WAIT_S) as slow:
        slow.sendall(b"\x16\x03\x01")
        ended = received(slow)
    with (
        socket.create_connection(("127.0.0.1", front.port), WAIT_S) as raw,
        trusted.wrap_socket(raw, server_hostname="localhost") as secured,
    ):
        secured.sendall(negotiation_frame(SaslStatus.START, b"PLAIN"))
        secured.sendall(negotiation_frame(SaslStatus.OK, b"\0alice\0" + PASSWORD.encode()))
        granted = secured.recv(5)

    assert not refused.startswith(bytes([SaslStatus.COMPLETE]))
    assert ended == b""
    assert granted == negotiation_frame(SaslStatus.COMPLETE)


def test_a_connection_that_spark_ends_is_in_the_log_by_name(
    start: Start, handler: Remembering, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no client that has left."""
    with connected(start()) as connection:
        handler.leaves = True
        with pytest.raises((TTransportException, OSError)):
            connection.cursor().execute("SELECT 1")

    assert "Spark's Thrift server has left" in caplog.text


def test_an_address_in_use_is_refused() -> None:
    """By name."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigError, match="cannot listen on"),
        Front(
            host="127.0.0.1",
            port=taken.getsockname()[1],
            backend=ThriftBackend(port=1, password=SECRET),
            lets_in=lambda *_: True,
        ),
    ):
        pass
