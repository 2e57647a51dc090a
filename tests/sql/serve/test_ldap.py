"""What lets the front in at Spark's Thrift server, over a socket, as its Java client talks to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sql.serve.ldap import (
    BindServer,
    MalformedMessageError,
    SimpleBind,
    bind_answer,
    read_bind,
    read_length,
)

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


# --- LDAP's bind, as Java's client writes it, and what else may come ---


# what the JDK's LDAP client sends for alice, after tag and length
BIND = b"\x02\x01\x01`\x12\x02\x01\x03\x04\x05alice\x80\x06secret"
UNBIND = b"\x02\x01\x02B\x00\xa0\x1b0\x19\x04\x172.16.840.1.113730.3.4.2"
SASL_BIND = b"\x02\x01\x01`\x14\x02\x01\x03\x04\x05alice\xa3\x08\x04\x06GSSAPI"


def test_a_simple_bind_is_read() -> None:
    """The password does not show in the value's text."""
    bind = read_bind(BIND)

    assert bind == SimpleBind(message_id=1, name="alice", password="secret")
    assert "secret" not in repr(bind)


def test_an_unbind_is_no_bind() -> None:
    """It ends the connection."""
    assert read_bind(UNBIND) is None


def test_answers_are_those_of_rfc_4511() -> None:
    """Result codes 0, success, and 49, invalidCredentials."""
    assert bind_answer(1, granted=True) == b"0\x0c\x02\x01\x01a\x07\x0a\x01\x00\x04\x00\x04\x00"
    assert (
        bind_answer(200, granted=False) == b"0\x0d\x02\x02\x00\xc8a\x07\x0a\x01\x31\x04\x00\x04\x00"
    )


def test_long_passwords_have_long_lengths() -> None:
    """BER writes a length from 128 on in several bytes."""
    password = "x" * 300
    simple = b"\x80\x82\x01\x2c" + password.encode()
    request = b"\x02\x01\x03\x04\x05alice" + simple
    bind = read_bind(b"\x02\x01\x01`\x82" + len(request).to_bytes(2) + request)

    assert bind is not None
    assert bind.password == password


@pytest.mark.parametrize(
    ("head", "length"), [(b"", None), (b"\x05", 5), (b"\x82\x01", None), (b"\x82\x01\x00", 256)]
)
def test_a_length_is_known_when_all_of_it_is_there(head: bytes, length: int | None) -> None:
    """None asks for another byte."""
    assert read_length(head) == length


@pytest.mark.parametrize("head", [b"\x80", b"\x85\x00\x00\x00\x00\x01", b"\xff"])
def test_a_length_without_end_is_refused(head: bytes) -> None:
    """Also one of more than four bytes."""
    with pytest.raises(MalformedMessageError):
        read_length(head)


@pytest.mark.parametrize(
    "message", [b"", SASL_BIND, BIND[:-1], BIND.replace(b"alice", b"\xff\xfe\xfd\xfc\xfb")]
)
def test_what_is_no_simple_bind_is_refused(message: bytes) -> None:
    """SASL, a message that is cut off, a name that is not UTF-8."""
    with pytest.raises(MalformedMessageError):
        read_bind(message)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_bind_or_nothing_or_refused(message: bytes) -> None:
    """Whatever comes, nothing else is raised."""
    try:
        bind = read_bind(message)
    except MalformedMessageError:
        return

    assert bind is None or isinstance(bind, SimpleBind)


@given(st.integers(min_value=0, max_value=2**31 - 1))
def test_the_answer_repeats_the_number_of_the_message(message_id: int) -> None:
    """As BER writes integers: shortest form, a leading zero byte where the first bit would be the sign."""
    answer = bind_answer(message_id, granted=True)
    length = answer[3]

    assert int.from_bytes(answer[4 : 4 + length], signed=True) == message_id
    assert answer[1] == len(answer) - 2
