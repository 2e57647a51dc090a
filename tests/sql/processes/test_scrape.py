"""Metrics of several processes in one answer."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.sql.metrics.endpoint import metrics_registry, serving_registry
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.processes.scrape import ProjectCollector, fetch_metrics, project_registry
from penstock.sql.processes.supervisor import ProcessView
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of
from tests.sql.run.scripted import MovedClock


def answer_of(name: str) -> str:
    """What the process of one pipeline answers."""
    text = generate_latest(metrics_registry(lambda: [job(read_batch(7, source_of(*SPLITS)))]))
    return text.decode().replace("shop/totals", name)


def series(processes: list[ProcessView], answers: dict[str, str]) -> dict[str, float]:
    """The series of a scrape, as text with their labels."""

    def fetch(url: str) -> str:
        if url not in answers:
            raise ConnectionRefusedError
        return answers[url]

    registry = CollectorRegistry()
    registry.register(ProjectCollector(lambda: processes, MovedClock(), fetch))
    text = generate_latest(registry).decode()
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names)), "each family is there once"
    return {
        f"{sample.name} {' '.join(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def process(name: str, state: ProcessState = ProcessState.RUNNING, **more: object) -> ProcessView:
    """A process whose metrics are at its name."""
    values = {"name": name, "state": state, "pipelines": (f"shop/{name}",), "metrics_url": name}
    return ProcessView(**(values | more))  # type: ignore[arg-type]


def test_pipelines_of_all_processes_are_in_one_answer() -> None:
    """By their label; what each process says of itself is left out."""
    found = series(
        [process("a"), process("b", restarts=2)],
        {"a": answer_of("shop/a"), "b": answer_of("shop/b")},
    )

    assert found["penstock_pipeline_status shop/a running"] == 1
    assert found["penstock_pipeline_status shop/b running"] == 1
    assert found["penstock_rows_read_total shop/a orders"] > 0
    assert found["penstock_process_restarts_total b"] == 2
    assert found["penstock_process_state a running"] == 1
    assert not any(name.startswith(("process_", "python_")) for name in found)


def test_a_pipeline_without_a_process_has_its_status() -> None:
    """An alert needs it; one that has ended well has no series, as in a process alone."""
    found = series(
        [
            process("a", ProcessState.FAILED, metrics_url=None, reason="killed"),
            process("b", ProcessState.RESTARTING, metrics_url=None),
            process("c", ProcessState.FINISHED, metrics_url=None),
            process("d", ProcessState.STARTING, metrics_url=None),
        ],
        {},
    )

    statuses = {name for name, value in found.items() if "pipeline_status" in name and value}
    assert statuses == {
        "penstock_pipeline_status shop/a failed",
        "penstock_pipeline_status shop/b restarting",
    }


def test_one_that_does_not_answer_costs_no_other() -> None:
    """Its pipelines have no series for this scrape; that it is silent has one."""
    found = series([process("a"), process("b")], {"a": answer_of("shop/a")})

    assert found["penstock_pipeline_status shop/a running"] == 1
    assert not any("shop/b" in name for name in found)
    answers = {name: value for name, value in found.items() if "process_answers" in name}
    assert answers == {"penstock_process_answers a": 1, "penstock_process_answers b": 0}


@pytest.mark.parametrize(
    "garbage",
    [
        "penstock_rows_read_total{pipeline=",
        "penstock_rows_read_total many\n",
        "# TYPE penstock_x\n# TYPE penstock_x gauge\n}{",
        "<html><body>502</body></html>",
    ],
)
def test_an_answer_that_is_no_metrics_costs_no_other(garbage: str) -> None:
    """As of another server at the port: it counts as one that does not answer."""
    found = series([process("a"), process("b")], {"a": garbage, "b": answer_of("shop/b")})

    assert found["penstock_pipeline_status shop/b running"] == 1
    assert not any("shop/a" in name for name in found)
    answers = {name: value for name, value in found.items() if "process_answers" in name}
    assert answers == {"penstock_process_answers a": 0, "penstock_process_answers b": 1}


def test_answers_are_fetched_by_http() -> None:
    """From an endpoint as each process has one, with what is the supervisor's own besides."""
    own = metrics_registry(lambda: [job(read_batch(7, source_of(*SPLITS)))])
    with serving_registry(own, host="127.0.0.1", port=0) as url:
        whole = project_registry(lambda: [process("a", metrics_url=url)], MovedClock())
        with serving_registry(whole, host="127.0.0.1", port=0) as outer:
            text = fetch_metrics(outer)

    assert 'penstock_pipeline_status{pipeline="shop/totals",status="running"} 1.0' in text
    assert "python_info" in text
