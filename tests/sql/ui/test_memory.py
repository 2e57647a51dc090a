"""The process of the page does not grow: over thousands of batches, with clients that come, go, and never read."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

ROOT = Path(__file__).parents[3]
ROUNDS = 40
BATCHES = 75
"""Of a round, in which each page is opened once and clients of events come and go."""
MOST_GROWTH = 0.03
MOST_THREADS = 8
READERS = 4
NUMBERS = "default_catalog.default_database.numbers"


class Page:
    """The process of a page."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.url = self._out.readline().strip()
        self.at = urlsplit(self.url)

    def go_on(self, batches: int) -> tuple[int, int]:
        """Let batches pass; the resident bytes and the threads then."""
        self._in.write(f"{batches}\n")
        self._in.flush()
        size, threads = self._out.readline().split()
        return int(size), int(threads)

    def listen(self) -> socket.socket:
        """Ask for events."""
        made = socket.create_connection((self.at.hostname, self.at.port), timeout=60)
        made.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: {self.at.netloc}\r\n\r\n".encode())
        return made

    def look(self) -> None:
        """Open each page once, and read a table."""
        for path in (
            "",
            "pipelines/shop/totals",
            "api/v1/pipelines/shop/totals",
            "tables",
            "dead-letters",
        ):
            with urlopen(self.url + path) as answer:
                assert answer.read()
        asked = Request(f"{self.url}api/v1/tables/{NUMBERS}/first-rows", method="POST")
        with urlopen(asked) as answer:
            assert b'"columns": ["n"]' in answer.read().replace(b":[", b": [")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A page of its own process."""
    command = [sys.executable, "-m", "tests.sql.ui.long_run", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield Page(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.nightly
def test_the_page_of_a_long_run_stays_as_large_as_it_is(page: Page) -> None:
    """Resident bytes at the middle and the end of 3,000 batches, 160 clients of events and 240 answers.

    One client never reads what it is sent, one asks for a page and never reads that.
    """
    deaf = [page.listen() for _ in range(2)]
    idle = socket.create_connection((page.at.hostname, page.at.port), timeout=60)
    idle.sendall(f"GET /pipelines/shop/totals HTTP/1.1\r\nHost: {page.at.netloc}\r\n\r\n".encode())
    sizes, threads = [], []
    for _ in range(ROUNDS):
        readers = [page.listen() for _ in range(READERS)]
        page.look()
        size, count = page.go_on(BATCHES)
        sizes.append(size)
        threads.append(count)
        for reader in readers:
            assert re.search(rb"event: pipeline", reader.recv(65536) + reader.recv(65536))
            reader.close()
    for each in (*deaf, idle):
        each.close()

    middle, end = sizes[ROUNDS // 2], sizes[-1]
    print(f"resident: {middle:,} bytes at the middle, {end:,} at the end; threads: {threads[-1]}")
    assert end < middle * (1 + MOST_GROWTH), sizes
    assert threads[-1] <= threads[ROUNDS // 2] + 2, threads
