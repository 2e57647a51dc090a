"""Metrics of all pipelines of a supervisor: asked of their processes at a scrape, with figures of the processes.

Series of pipelines are passed on as they are, by their label `pipeline`; those of a process itself (`process_*`,
`python_info`) are left out, as there would be several of one name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, build_opener

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from penstock.sql.metrics.families import STATUS
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.processes.overview import pipeline_documents
from penstock.sql.processes.process_end import ProcessState

if TYPE_CHECKING:
    from penstock.sql.clock import Clock
    from penstock.sql.processes.supervisor import ProcessView


log = logging.getLogger(__name__)

RESTARTS = "penstock_process_restarts"
STATE = "penstock_process_state"
ANSWERS = "penstock_process_answers"
"""The figures of the processes themselves, whose label is `process`."""

ANSWER_S = 3.0
"""How long a process may take to answer: it is this machine, and Prometheus waits ten seconds."""

MOST_BYTES = 64_000_000
"""Of an answer that are read."""

_OWN = "penstock_"
_DIRECT = build_opener(ProxyHandler({}))


class ProjectCollector(Collector):
    """Collects the metrics of processes, all asked at once; one that does not answer has its status alone."""

    def __init__(
        self,
        processes: Callable[[], Sequence[ProcessView]],
        clock: Clock,
        fetch: Callable[[str], str] | None = None,
    ) -> None:
        self._processes = processes
        self._clock = clock
        self._fetch = fetch or fetch_metrics

    def describe(self) -> Iterable[Metric]:
        """Return no names, so that registering asks no process."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Ask all processes, and put together what they answer."""
        processes = self._processes()
        answers = self._answers(processes)
        merged: dict[str, Metric] = {}
        for families in answers.values():
            for family in families:
                _merge(merged, family)
        silent = [each for each in processes if each.name not in answers]
        _merge(merged, _statuses(silent, self._clock.now_ms()))
        yield from merged.values()
        yield from _of_processes(processes)
        yield _answering(processes, answers)

    def _answers(self, processes: Sequence[ProcessView]) -> Mapping[str, Sequence[Metric]]:
        """Return the answer of each process that gives one, by its name."""
        asked = [(each.name, url) for each in processes if (url := each.metrics_url) is not None]
        if not asked:
            return {}
        with ThreadPoolExecutor(max_workers=len(asked)) as pool:
            answers = pool.map(self._answer, [url for _, url in asked])
            return {
                name: families
                for (name, _), families in zip(asked, answers, strict=True)
                if families is not None
            }

    def _answer(self, url: str) -> Sequence[Metric] | None:
        """Return the series of a process; None for one that does not answer, or not with metrics."""
        try:
            found = text_string_to_metric_families(self._fetch(url))
            return [family for family in found if family.name.startswith(_OWN)]
        except Exception as error:  # noqa: BLE001  the parser raises what it likes; the others have answered
            log.debug("no metrics from %s: %s", url, error)
            return None


def _merge(merged: dict[str, Metric], family: Metric) -> None:
    if not family.samples:
        return
    whole = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
    whole.samples += family.samples


def _statuses(silent: Sequence[ProcessView], now_ms: int) -> Metric:
    """Return the statuses of pipelines whose process is gone, or is starting again: alerts need them."""
    metric = GaugeMetricFamily(STATUS.name, STATUS.meaning, labels=["pipeline", *STATUS.labels])
    for process in silent:
        failed = process.state is ProcessState.FAILED
        if not failed and not process.restarts and process.state is not ProcessState.RESTARTING:
            continue
        for document in pipeline_documents([process], now_ms):
            status = _job_status(str(document["status"]))
            if status in {JobStatus.FAILED, JobStatus.RESTARTING}:
                for each in JobStatus:
                    metric.add_metric([str(document["name"]), each.value], int(each is status))
    return metric


def _job_status(text: str) -> JobStatus | None:
    if text in {ProcessState.STARTING, ProcessState.WAITING}:
        return JobStatus.RESTARTING
    return JobStatus(text) if text in set(JobStatus) else None


def _answering(processes: Sequence[ProcessView], answers: Collection[str]) -> Metric:
    """Return which processes have answered: one that is stopped, or hangs, has no other series."""
    metric = GaugeMetricFamily(
        ANSWERS, "1 where a running process has answered, else 0.", labels=["process"]
    )
    for process in processes:
        if process.metrics_url is not None:
            metric.add_metric([process.name], int(process.name in answers))
    return metric


def _of_processes(processes: Sequence[ProcessView]) -> Iterable[Metric]:
    restarts = CounterMetricFamily(
        RESTARTS, "Starts of a pipeline's process after it had died.", labels=["process"]
    )
    states = GaugeMetricFamily(
        STATE,
        "1 for the state that the process has, 0 for the others.",
        labels=["process", "state"],
    )
    for process in processes:
        restarts.add_metric([process.name], process.restarts)
        for state in ProcessState:
            states.add_metric([process.name, state.value], int(state is process.state))
    return (restarts, states)


def project_registry(
    processes: Callable[[], Sequence[ProcessView]], clock: Clock
) -> CollectorRegistry:
    """Return a registry of the metrics of processes, of this one and of its Python."""
    registry = CollectorRegistry()
    registry.register(ProjectCollector(processes, clock))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


def fetch_metrics(url: str) -> str:
    """Fetch the metrics of a process of this machine, past any proxy. Raises OSError."""
    with _DIRECT.open(url, timeout=ANSWER_S) as answer:
        return str(answer.read(MOST_BYTES).decode())
