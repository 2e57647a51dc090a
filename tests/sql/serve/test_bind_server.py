"""The log-in server over a socket, as the Thrift server's Java client talks to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.serve.bind_server import BindServer
from penstock.sql.serve.ldap_bind import bind_answer
from penstock.sql.serve.users import remove_user, write_user

PASSWORD = "correct horse"
TIMEOUT_S = 10.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A password file with one user."""
    path = tmp_path / "users"
    write_user(path, "alice", PASSWORD)
    return path


@pytest.fixture
def url(file: Path) -> Iterator[str]:
    """The address of a server that runs."""
    with BindServer(file) as server:
        yield server.url


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


def test_the_right_password_is_granted_and_a_wrong_one_is_not(url: str) -> None:
    """An empty password, which LDAP takes for somebody without a name, is a wrong one."""
    assert ask(url, bind("alice", PASSWORD)) == bind_answer(1, granted=True)
    assert ask(url, bind("alice", "wrong horse")) == bind_answer(1, granted=False)
    assert ask(url, bind("alice", "")) == bind_answer(1, granted=False)
    assert ask(url, bind("", "")) == bind_answer(1, granted=False)


def test_users_come_and_go_without_a_restart(url: str, file: Path) -> None:
    """The file is read at every log-in."""
    write_user(file, "bob", PASSWORD)
    there = ask(url, bind("bob", PASSWORD))
    remove_user(file, "bob")
    gone = ask(url, bind("bob", PASSWORD))

    assert there == bind_answer(1, granted=True)
    assert gone == bind_answer(1, granted=False)


def test_a_file_that_is_spoilt_while_it_runs_lets_nobody_in(
    url: str, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says why."""
    file.chmod(0o644)

    assert ask(url, bind("alice", PASSWORD)) == bind_answer(1, granted=False)
    assert "nobody can log in" in caplog.text


@pytest.mark.parametrize(
    "message",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x30\x84\x7f\xff\xff\xff", b"\x30\x05\x02", b"\x30\x80"],
)
def test_what_is_no_log_in_gets_no_answer(url: str, message: bytes) -> None:
    """Nor does it end the server."""
    try:
        answer = ask(url, message)
    except ConnectionResetError:
        answer = b""

    assert answer == b""
    assert ask(url, bind("alice", PASSWORD)) == bind_answer(1, granted=True)


def test_a_file_without_users_is_refused_at_the_start(tmp_path: Path) -> None:
    """Nobody could ever log in."""
    path = tmp_path / "users"
    path.touch(mode=0o600)

    with pytest.raises(ConfigError, match="names no user"), BindServer(path):
        pass
