"""What systemd is told, over a socket as it has one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from penstock.sql.cli.service_manager import notifying, send, status_text
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.processes.supervisor import ProcessView


def process(state: ProcessState) -> ProcessView:
    """A process in a state."""
    return ProcessView(name="a.sql", state=state, pipelines=())


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket that NOTIFY_SOCKET names."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


def test_a_start_the_states_and_the_end_are_told(systemd: socket.socket) -> None:
    """In this order."""
    states = [process(ProcessState.RUNNING), process(ProcessState.RESTARTING)]
    with notifying(lambda: states, lambda: False):
        started, state = systemd.recv(1_000), systemd.recv(1_000)
    stopped = systemd.recv(1_000)

    assert (started, state, stopped) == (
        b"READY=1",
        b"STATUS=1 running, 1 restarting",
        b"STOPPING=1",
    )


def test_the_stop_is_told_once_and_when_it_is_requested(systemd: socket.socket) -> None:
    """Not once all processes have ended, which may take minutes: systemd shows `deactivating` meanwhile."""
    states, requested = [process(ProcessState.RUNNING)], Event()
    with notifying(lambda: states, requested.is_set):
        told = [systemd.recv(1_000), systemd.recv(1_000)]
        requested.set()
        told.append(systemd.recv(1_000))
        states[:] = [process(ProcessState.STOPPED)]
        told.append(systemd.recv(1_000))
    systemd.setblocking(False)

    assert told[2:] == [b"STOPPING=1", b"STATUS=1 stopped"]
    with pytest.raises(BlockingIOError):
        systemd.recv(1_000)


def test_nobody_has_to_listen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither without the variable nor with a socket that is gone."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    send("READY=1")
    with notifying(list, lambda: True):
        pass
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))

    send("READY=1")


def test_an_abstract_socket_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its name begins with @ in the variable."""
    name = f"penstock{tmp_path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        send("READY=1")

        assert listening.recv(100) == b"READY=1"


def test_states_are_counted_in_their_order() -> None:
    """The states that no process has are left out."""
    states = [ProcessState.FAILED, ProcessState.RUNNING, ProcessState.RUNNING]

    assert status_text([process(state) for state in states]) == "2 running, 1 failed"
