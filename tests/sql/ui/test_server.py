"""The server of the page: it listens while its block runs, at this machine only."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from contextlib import ExitStack
from http.client import HTTPConnection
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import CatalogError, ConfigError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.ui import server
from penstock.sql.ui.access import page_access
from penstock.sql.ui.application import StatusView
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.server import serving_pages
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of
from tests.sql.ui.certificates import certificate


@pytest.fixture
def view(tmp_path):
    """The view of one running pipeline."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))
    jobs = [job(read_batch(7, source_of(*SPLITS)))]
    return StatusView(
        jobs=lambda: jobs, stored=StoredPipelines(namespace=namespace, project=tmp_path)
    )


def test_pages_and_events_come_until_the_block_ends(view, caplog):
    """The first event names each pipeline; an open page neither keeps the server nor makes it log an error."""
    with serving_pages(view, port=0) as url:
        assert "shop/totals" in urlopen(url).read().decode()
        events = urlopen(f"{url}api/v1/events")
        assert events.readline() == b"event: pipeline\n"
        assert events.readline() == b'data: ["shop/totals"]\n'
    assert caplog.records == []
    with pytest.raises(URLError):
        urlopen(url)


def test_an_open_page_is_told_what_cannot_be_read_until_it_can(view, monkeypatch):
    """Also where what it shows goes on, as a run shows its own pipelines; nothing is said while all is well."""
    broken = []
    whole = StoredPipelines.summaries

    def summaries(*given, **more):
        if broken:
            raise CatalogError(broken[0])
        return whole(*given, **more)

    def next_problem(events):
        lines = iter(events.readline, b"event: problem\n")
        others = {line for line in lines if line.startswith(b"event")}
        return json.loads(events.readline().removeprefix(b"data: ")), others

    monkeypatch.setattr(StoredPipelines, "summaries", summaries)
    with serving_pages(view, port=0) as url:
        events = urlopen(f"{url}api/v1/events", timeout=60)
        assert events.readline() == b"event: pipeline\n"
        broken.append("disk I/O error")
        said, _ = next_problem(events)
        assert said == "only pipelines of this process are shown: disk I/O error"
        broken.clear()
        assert next_problem(events) == ("", set())


def test_a_connection_that_asks_for_nothing_is_closed(view, monkeypatch):
    """Before its first request, within one, and behind one; a page that follows events is none of those."""
    monkeypatch.setattr(server, "HEADERS_S", 0.5)
    with serving_pages(view, port=0) as url:
        events = urlopen(f"{url}api/v1/events", timeout=60)
        address = urlsplit(url)
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: 127"):
            with socket.create_connection((address.hostname, address.port), timeout=60) as waiting:
                waiting.sendall(sent)
                assert waiting.recv(1) == b""
        with socket.create_connection((address.hostname, address.port), timeout=60) as waiting:
            waiting.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /hea")
            answer = b""
            while received := waiting.recv(4_096):
                answer += received
            assert answer.count(b"HTTP/1.1 200") == 1
        assert [events.readline() for _ in range(4)][-1]


def test_a_connection_that_begins_no_tls_is_closed(view, tmp_path, monkeypatch):
    """Silent, or within its handshake: the server counts a connection only behind that. Others are answered."""
    monkeypatch.setattr(server, "HANDSHAKE_S", 0.5)
    cert, key = certificate(tmp_path)
    access = page_access(certificate=cert, key=key)
    trusting = ssl.create_default_context(cafile=str(cert))
    with serving_pages(view, access, port=0) as url:
        address = urlsplit(url)
        for sent in (b"", b"\x16\x03\x01"):
            with socket.create_connection((address.hostname, address.port), timeout=20) as waiting:
                waiting.sendall(sent)
                assert waiting.recv(1) == b""
        assert urlopen(f"{url}healthz", timeout=60, context=trusting).status == 200


class Clock:
    """The time of the server, which a test moves; it tells when the server has looked at it."""

    def __init__(self):
        self._now, self._looked = 0.0, 0
        self._changed = threading.Condition()

    def monotonic(self):
        with self._changed:
            self._looked += 1
            self._changed.notify_all()
            return self._now

    def move(self, seconds):
        """Move it, and wait for a look at all connections that begins afterwards."""
        with self._changed:
            self._now += seconds
            before = self._looked
            # the first may have been another's
            assert self._changed.wait_for(lambda: self._looked >= before + 3, timeout=60)


def test_a_connection_that_asks_now_and_then_is_kept(view, monkeypatch):
    """Each second for far longer than a silent one is kept: at each look it has no request under way."""
    clock = Clock()
    monkeypatch.setattr(server, "time", clock)
    monkeypatch.setattr(server, "TICK_S", 0.01)
    with serving_pages(view, port=0) as url:
        client = HTTPConnection(urlsplit(url).netloc, timeout=60)
        for _ in range(3 * int(server.HEADERS_S)):
            assert _ask(client).read()
            clock.move(1)
        clock.move(server.HEADERS_S)
        assert client.sock.recv(1) == b""
        client.close()


def test_a_silent_connection_makes_room_for_another(view, monkeypatch):
    """The oldest, at once: silent ones keep nobody out, and each takes a file of a process that may run pipelines."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    with serving_pages(view, port=0) as url, ExitStack() as opened:
        address = urlsplit(url)
        events = urlopen(f"{url}api/v1/events", timeout=60)
        first, second, third = (
            opened.enter_context(socket.create_connection((address.hostname, address.port), 60))
            for _ in range(3)
        )
        assert first.recv(1) == b""
        assert urlopen(f"{url}healthz", timeout=60).status == 200
        assert second.recv(1) == b""
        third.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert third.recv(12) == b"HTTP/1.1 200"
        assert events.readline()


def _ask(client):
    client.request("GET", "/healthz")
    return client.getresponse()


def test_connections_with_requests_under_way_are_so_many_at_most(view, monkeypatch):
    """Another is closed without an answer, until one of them ends."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)
    with serving_pages(view, port=0) as url:
        opened = [urlopen(f"{url}api/v1/events", timeout=60) for _ in range(2)]
        refused = HTTPConnection(urlsplit(url).netloc, timeout=60)
        with pytest.raises(ConnectionError):
            _ask(refused)
        refused.close()
        assert all(events.readline() for events in opened)


def test_a_port_in_use_is_an_error_with_a_hint(view):
    """It is refused before anything is served."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"), serving_pages(view, port=port):
            pass
