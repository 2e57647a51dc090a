"""Pushes the metrics of running jobs by OpenTelemetry, where its environment variables ask for that.

The families are those of Prometheus under the same names, as observable instruments: they are built at each export, on
the exporter's thread. Needs the extra `otel`. OpenTelemetry itself reads the variables, but for those that say whether.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from threading import Lock
from typing import TYPE_CHECKING

from penstock.catalog.errors import ConfigError
from penstock.sql.clock import Clock, SystemClock
from penstock.sql.metrics.collector import PipelineCollector
from penstock.sql.metrics.families import FAMILIES, MetricFamily, MetricKind

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from opentelemetry.sdk.metrics.export import MetricExporter
    from prometheus_client.core import Metric

    from penstock.sql.jobs.job import Job


ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTER = "OTEL_METRICS_EXPORTER"
DISABLED = "OTEL_SDK_DISABLED"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP = "http/protobuf"

LAST_PUSH_MS = 5_000
"""How long the end of a run waits for the last push."""

SAME_MS = 1_000
"""Instruments that are asked within this time are of one look at the jobs."""

_PACKAGE = "opentelemetry.exporter.otlp.proto.http"
_UNITS = {"seconds": "s", "bytes": "By", "records": "{record}", "rows": "{row}"}


def wants_push(environ: Mapping[str, str]) -> bool:
    """Return whether the variables ask for metrics: by an endpoint, or by the exporter `otlp`. Raises ConfigError."""
    if environ.get(DISABLED, "").strip().lower() == "true":
        return False
    named = [name.strip() for name in environ.get(EXPORTER, "").split(",") if name.strip()]
    if named and "otlp" not in named:
        return False
    if not named and not any(environ.get(name) for name in ENDPOINTS):
        return False
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), HTTP)
    if protocol != HTTP:
        raise ConfigError(
            f"metrics are pushed by '{HTTP}', and OpenTelemetry is told to use '{protocol}'",
            hint=f"set {PROTOCOLS[0]} to {HTTP}, and the endpoint to the collector's port for it, usually 4318",
        )
    if not _is_installed():
        raise ConfigError(
            "OpenTelemetry's variables ask for metrics, and its packages are not installed",
            hint="pip install 'penstock[otel]', or unset them",
        )
    return True


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec(_PACKAGE) is not None
    except ModuleNotFoundError:  # a package above it
        return False


@contextmanager
def pushing_metrics(
    jobs: Callable[[], Sequence[Job]], environ: Mapping[str, str] = os.environ
) -> Iterator[bool]:
    """Push the metrics of these jobs while the block runs, and once at its end; gives whether that is so.

    Raises ConfigError. A collector that does not answer costs nothing but lines in the log.
    """
    if not wants_push(environ):
        yield False
        return
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider

    provider = provider_of(jobs, OTLPMetricExporter(), environ)
    assert isinstance(provider, MeterProvider), "it was made here"
    try:
        yield True
    finally:
        provider.shutdown(timeout_millis=LAST_PUSH_MS)


def provider_of(
    jobs: Callable[[], Sequence[Job]], exporter: MetricExporter, environ: Mapping[str, str]
) -> object:
    """Start the export of the metrics of these jobs; returns OpenTelemetry's MeterProvider."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource

    provider = MeterProvider(
        metric_readers=[PeriodicExportingMetricReader(exporter)],
        resource=Resource.create(_resource(environ)),
        shutdown_on_exit=False,
    )
    clock = SystemClock()
    seen = _Seen(PipelineCollector(jobs, clock), clock)
    meter = provider.get_meter("penstock", version("penstock"))
    for family in FAMILIES:
        _observe(meter, family, seen)
    return provider


def _resource(environ: Mapping[str, str]) -> dict[str, str]:
    """Describe this process; names that the variables give go first."""
    attributes = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own = {
        "service.name": "penstock",
        "service.version": version("penstock"),
        "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
    }
    if environ.get("OTEL_SERVICE_NAME"):
        del own["service.name"]
    return {key: value for key, value in own.items() if f"{key}=" not in attributes}


class _Seen:
    """The metrics as of one look at the jobs, which all instruments of an export share."""

    def __init__(self, collector: PipelineCollector, clock: Clock) -> None:
        self._collector = collector
        self._clock = clock
        self._lock = Lock()
        self._at_ms: int | None = None
        self._metrics: dict[str, Metric] = {}

    def samples(self, family: str, name: str) -> Iterable[tuple[float, Mapping[str, str]]]:
        """Return the values of a family's series of this name, with their labels."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._at_ms is None or now_ms - self._at_ms > SAME_MS:
                self._at_ms = now_ms
                self._metrics = {each.name: each for each in self._collector.collect()}
            metric = self._metrics.get(family)
        if metric is None:
            return []
        return [(each.value, each.labels) for each in metric.samples if each.name == name]


def _observe(meter: Meter, family: MetricFamily, seen: _Seen) -> None:
    """Make the instruments of a family. Histograms cannot be observed: their series are counters, by the bound `le`."""
    unit = next((unit for word, unit in _UNITS.items() if family.name.endswith(word)), "")
    match family.kind:
        case MetricKind.GAUGE:
            meter.create_observable_gauge(
                family.name,
                [_callback(seen, family.name, family.name)],
                unit=unit,
                description=family.meaning,
            )
        case MetricKind.COUNTER:
            meter.create_observable_counter(
                family.name,
                [_callback(seen, family.name, family.exported)],
                unit=unit,
                description=family.meaning,
            )
        case MetricKind.HISTOGRAM:
            for end in ("bucket", "sum", "count"):
                name = f"{family.name}_{end}"
                meter.create_observable_counter(
                    name, [_callback(seen, family.name, name)], description=family.meaning
                )


def _callback(
    seen: _Seen, family: str, name: str
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observed(_: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        return [Observation(value, dict(labels)) for value, labels in seen.samples(family, name)]

    return observed
