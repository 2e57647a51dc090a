"""The HTTP endpoint that Prometheus scrapes: `/metrics`, on a thread of its own, while `penstock run` runs.

The status pages of `penstock run` and `penstock up` have the same at their port (`sql/ui/application.py`), for those
who may open them. It has counts, names of tables and of splits; no option, no SQL text and no message, so that it needs
no log-in. `penstock up` serves a registry of its own (`sql/processes/scrape.py`), here and at its page's port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from penstock.catalog.errors import ConfigError
from penstock.sql.clock import SystemClock
from penstock.sql.metrics.collector import PipelineCollector

if TYPE_CHECKING:
    from penstock.sql.jobs.job import Job


STOP_S = 5
"""How long the end waits for the thread that answers scrapes."""


def metrics_registry(jobs: Callable[[], Sequence[Job]]) -> CollectorRegistry:
    """Return a registry of the metrics of these jobs, of this process and of its Python."""
    registry = CollectorRegistry()
    registry.register(PipelineCollector(jobs, SystemClock()))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


@contextmanager
def serving_metrics(jobs: Callable[[], Sequence[Job]], *, host: str, port: int) -> Iterator[str]:
    """Answer scrapes of these jobs while the block runs; gives the URL. As `serving_registry`."""
    with serving_registry(metrics_registry(jobs), host=host, port=port) as url:
        yield url


@contextmanager
def serving_registry(registry: CollectorRegistry, *, host: str, port: int) -> Iterator[str]:
    """Answer scrapes while the block runs; gives the URL. Port 0 is any that is free. Raises ConfigError."""
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ConfigError(
            f"metrics cannot be served at {host}:{port}: {error.strerror or error}",
            hint="name another port by --metrics-port",
        ) from error
    try:
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(STOP_S)
