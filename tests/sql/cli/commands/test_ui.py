"""How `penstock ui` ends, as a process: by a signal, with an open page, beside a request that is never answered."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import pytest

PROGRAM = """
from threading import Event
from penstock.sql.cli.commands.app import main
from penstock.sql.ui import server
from penstock.sql.ui.documents.stored import StoredPipelines

def within_a_client(self, table=None):
    print("asked", flush=True)
    Event().wait()

StoredPipelines.dead_letters = within_a_client
server.GRACE_S, server.STOP_S = {grace_s}, {stop_s}
main()
"""
END_S = 60


class Ui:
    """A `penstock ui` of an empty project; its page of dead letters is never answered."""

    def __init__(self, project: Path, *, grace_s: float, stop_s: float) -> None:
        program = PROGRAM.format(grace_s=grace_s, stop_s=stop_s)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "ui", "--port", "0"],
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._asked, self._errors = self.process.stdout, self.process.stderr
        said = self._errors.readline()
        assert said.startswith("status page: "), said + self._errors.read()
        self._url = said.split()[2]

    def open_page(self) -> HTTPResponse:
        """The events that a page in a browser waits for; they end once the server is to end."""
        events: HTTPResponse = urlopen(f"{self._url}api/v1/events", timeout=END_S)
        assert events.readline().strip() != b""
        return events

    def ask(self) -> None:
        """Make the request that is never answered, on a thread, and wait until it is within its client."""
        Thread(target=self._request, daemon=True).start()
        assert self._asked.readline() == "asked\n"

    def _request(self) -> None:
        with pytest.raises(OSError):
            urlopen(f"{self._url}api/v1/dead-letters", timeout=2 * END_S)

    def end(self) -> tuple[int, str]:
        """Wait for its end; its exit status, and what it said then."""
        _, errors = self.process.communicate(timeout=END_S)
        return self.process.returncode, errors


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[Callable[..., Ui]]:
    """Starts it; what is left of it at the end is killed."""
    started: list[Ui] = []

    def start(*, grace_s: float = 2, stop_s: float = 5) -> Ui:
        started.append(Ui(tmp_path, grace_s=grace_s, stop_s=stop_s))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_page_that_is_open(
    ui: Callable[..., Ui], number: signal.Signals
) -> None:
    """The page's events end, and so does the process, which was to run until then: status 0."""
    page = ui(grace_s=END_S, stop_s=END_S)
    with page.open_page():
        page.process.send_signal(number)
        status, said = page.end()

    assert (status, said) == (0, "")


def test_a_request_that_is_never_answered_does_not_keep_it(ui: Callable[..., Ui]) -> None:
    """Its thread is left where it is."""
    page = ui(grace_s=0.1, stop_s=0.2)
    page.ask()
    page.process.send_signal(signal.SIGTERM)
    status, said = page.end()

    assert status == 0
    assert "Traceback" not in said


def test_a_second_signal_does_not_wait_for_requests(ui: Callable[..., Ui]) -> None:
    """It is sent while the end waits for one, which would be for longer than this test does."""
    page = ui(grace_s=10 * END_S, stop_s=10 * END_S)
    page.ask()
    with page.open_page() as events:
        page.process.send_signal(signal.SIGTERM)
        events.read()
        assert page.process.poll() is None
        page.process.send_signal(signal.SIGTERM)
        status, said = page.end()

    assert (status, said) == (130, "interrupted\n")
