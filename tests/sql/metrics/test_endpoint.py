"""The endpoint that is scraped: it answers over HTTP while its block runs."""

from __future__ import annotations

import socket
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.metrics.endpoint import serving_metrics
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of


def test_a_scrape_gives_the_jobs_and_the_process_until_the_block_ends():
    """The port is free afterwards."""
    jobs = [job(read_batch(7, source_of(*SPLITS)))]
    with serving_metrics(lambda: jobs, host="127.0.0.1", port=0) as url:
        with urlopen(url) as answer:
            text = answer.read().decode()
        assert 'penstock_lag_records{pipeline="shop/totals",table="orders"} 70.0' in text
        assert "process_cpu_seconds_total" in text
    with pytest.raises(URLError):
        urlopen(url)


def test_a_port_in_use_is_an_error_with_a_hint():
    """It is refused before anything is scraped."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=f"127.0.0.1:{port}") as caught,
            serving_metrics(list, host="127.0.0.1", port=port),
        ):
            pass
    assert "--metrics-port" in str(caught.value.hint)
