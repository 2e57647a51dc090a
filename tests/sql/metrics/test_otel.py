"""What OpenTelemetry's collector gets of running jobs: a local HTTP server in its place."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from penstock.catalog.errors import ConfigError
from penstock.sql.metrics.collector import PipelineCollector
from penstock.sql.metrics.otel import pushing_metrics, wants_push
from tests.sql.metrics.metered import NOON_MS, SPLITS, job, read_batch, source_of
from tests.sql.run.scripted import MovedClock


class Collector:
    """Keeps what is pushed to it."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.paths: list[str] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = ExportMetricsServiceRequest()
                request.ParseFromString(body)
                collector.requests.append(request)
                collector.paths.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing on stderr."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def metrics(self) -> dict[str, Any]:
        """The metrics of the last push, by name."""
        (resource,) = self.requests[-1].resource_metrics
        return {each.name: each for scope in resource.scope_metrics for each in scope.metrics}

    def resource(self) -> dict[str, str]:
        """Who pushed."""
        (resource,) = self.requests[-1].resource_metrics
        return {each.key: each.value.string_value for each in resource.resource.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector at a port of its own."""
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()
    made.thread.join()


def points(metric: Any) -> dict[tuple[tuple[str, str], ...], float]:
    """The values of a metric by their attributes."""
    kind = metric.WhichOneof("data")
    return {
        tuple(sorted((each.key, each.value.string_value) for each in point.attributes)): (
            point.as_double or point.as_int
        )
        for point in getattr(metric, kind).data_points
    }


def test_the_metrics_of_jobs_are_pushed_under_the_names_of_prometheus(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counters, gauges and the histogram's series, with their labels; who pushes is named by the variables."""
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "shop"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    running = job(read_batch(7, source_of(*SPLITS)))
    with pushing_metrics(lambda: [running], environ) as pushes:
        assert pushes
    found = collector.metrics()

    assert collector.paths == ["/v1/metrics"]
    assert collector.resource()["service.name"] == "shop"
    read = found["penstock_rows_read"]
    assert points(read) == {(("pipeline", "shop/totals"), ("table", "orders")): 30}
    assert read.WhichOneof("data") == "sum"
    assert read.sum.is_monotonic
    lag = found["penstock_lag_records"]
    assert points(lag) == {(("pipeline", "shop/totals"), ("table", "orders")): 70}
    assert (lag.WhichOneof("data"), lag.unit) == ("gauge", "{record}")
    buckets = points(found["penstock_batch_duration_seconds_bucket"])
    assert buckets[("le", "0.5"), ("pipeline", "shop/totals")] == 1
    assert buckets[("le", "0.25"), ("pipeline", "shop/totals")] == 0


def test_every_series_of_a_scrape_is_pushed(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many, whatever their kind."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{collector.url}/here")
    running = job(read_batch(7, source_of(*SPLITS)), alignments=(("g", 90_000),))
    with pushing_metrics(lambda: [running]):
        pass
    clock = MovedClock()
    clock.now = NOON_MS
    scraped = PipelineCollector(lambda: [running], clock).collect()

    pushed = {(name, key) for name, each in collector.metrics().items() for key in points(each)}
    wanted = {
        (sample.name.removesuffix("_total"), tuple(sorted(sample.labels.items())))
        for metric in scraped
        for sample in metric.samples
    }
    assert collector.paths == ["/here"]
    assert pushed == wanted


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "shop"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/m"}, True),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True),
        ({"OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_the_variables_say_whether_metrics_are_pushed(
    environ: dict[str, str], wanted: bool
) -> None:
    """As OpenTelemetry's specification has them."""
    assert wants_push(environ) is wanted


def test_another_protocol_is_refused_with_what_to_set() -> None:
    """Nothing would come, and nobody would know."""
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    }
    with pytest.raises(ConfigError, match="told to use 'grpc'") as caught:
        wants_push(environ)

    assert "http/protobuf" in (caught.value.hint or "")


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of no metrics without a word."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(ConfigError) as caught:
        wants_push({"OTEL_METRICS_EXPORTER": "otlp"})
    assert "penstock[otel]" in (caught.value.hint or "")
