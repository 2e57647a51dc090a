"""What lets the front in at Spark's Thrift server, over a socket, as its Java client talks to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from penstock.sql.serve.ldap import BindServer, bind_answer

TIMEOUT_S = 10.0


@pytest.fixture
def server() -> Iterator[BindServer]:
    """A server that runs."""
    with BindServer() as server:
        yield server


def ask(url: str, message: bytes) -> bytes:
    """Send a message and give what comes back until the server has nothing more to say."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), TIMEOUT_S) as connection:
        connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(4096):
            answer += part
        return answer


def bind(name: str, password: str) -> bytes:
    """A bind as the JDK writes it."""
    simple = b"\x02\x01\x03" + element(0x04, name) + element(0x80, password)
    message = b"\x02\x01\x01" + b"\x60" + bytes([len(simple)]) + simple
    return b"\x30" + bytes([len(message)]) + message


def element(tag: int, text: str) -> bytes:
    """One short element."""
    return bytes([tag, len(text)]) + text.encode()


def test_only_the_password_of_the_process_is_granted(server: BindServer) -> None:
    """Under any name; an empty password, which LDAP takes for somebody without a name, is a wrong one."""
    assert ask(server.url, bind("alice", server.password)) == bind_answer(1, granted=True)
    assert ask(server.url, bind("alice", server.password[:-1])) == bind_answer(1, granted=False)
    assert ask(server.url, bind("alice", "")) == bind_answer(1, granted=False)
    assert ask(server.url, bind("", "")) == bind_answer(1, granted=False)


def test_every_server_has_a_password_of_its_own() -> None:
    """Nobody can know it beforehand."""
    assert BindServer().password != BindServer().password


@pytest.mark.parametrize(
    "message",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x30\x84\x7f\xff\xff\xff", b"\x30\x05\x02", b"\x30\x80"],
)
def test_what_is_no_log_in_gets_no_answer(server: BindServer, message: bytes) -> None:
    """Nor does it end the server."""
    try:
        answer = ask(server.url, message)
    except ConnectionResetError:
        answer = b""

    assert answer == b""
    assert ask(server.url, bind("alice", server.password)) == bind_answer(1, granted=True)
