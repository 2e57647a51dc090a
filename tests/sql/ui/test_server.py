"""The server of the page: it listens while its block runs, at this machine only."""

from __future__ import annotations

import socket
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.ui.application import StatusView
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.server import serving_pages
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of


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


def test_a_port_in_use_is_an_error_with_a_hint(view):
    """It is refused before anything is served."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"), serving_pages(view, port=port):
            pass
