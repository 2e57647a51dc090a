"""The alert rules, the dashboard and their page name metrics and labels that are exported."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from penstock.sql.clock import SystemClock
from penstock.sql.metrics.families import FAMILIES, MetricKind
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.processes.scrape import ProjectCollector
from penstock.sql.processes.supervisor import ProcessView

DOCS = Path(__file__).parents[3] / "docs"
ALERTS = DOCS / "monitoring" / "alerts.yaml"
CASES = Path(__file__).with_name("alerts.test.yaml")
NAME = re.compile(r"\bpenstock_\w+")
SELECTED = re.compile(r"(penstock_\w+)\{([^}]*)\}")


def exported():
    """The labels of each exported name."""
    names = {}
    for family in FAMILIES:
        labels = {"pipeline", *family.labels}
        if family.kind is MetricKind.HISTOGRAM:
            names |= {f"{family.name}_{end}": labels | {"le"} for end in ("bucket", "sum", "count")}
        else:
            names[family.exported] = labels
    url = "http://127.0.0.1:1/metrics"
    process = ProcessView(name="a.sql", state=ProcessState.RUNNING, pipelines=(), metrics_url=url)
    collected = ProjectCollector(lambda: [process], SystemClock(), lambda _: "").collect()
    samples = [sample for metric in collected for sample in metric.samples]
    return names | {sample.name: set(sample.labels) for sample in samples}


def alerts():
    return yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]


def expressions():
    """Each expression of the alert rules and of the dashboard."""
    found = [rule["expr"] for rule in alerts()]
    board = json.loads((DOCS / "monitoring" / "grafana.json").read_text())
    found += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found += [
        each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"
    ]
    return found


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_metrics_and_labels_that_are_exported(expression):
    """Rules over metrics that nobody exports never fire."""
    names = NAME.findall(expression)

    assert names
    assert set(names) <= exported().keys()
    for name, selected in SELECTED.findall(expression):
        assert set(re.findall(r"(\w+)\s*=", selected)) <= exported()[name]


def test_the_page_has_each_metric_and_a_paragraph_for_each_alert():
    """docs/operations.md says what a figure means and what to do at an alert."""
    page = (DOCS / "operations.md").read_text()

    assert [f.exported for f in FAMILIES if f"`{f.exported}`" not in page] == []
    assert [rule["alert"] for rule in alerts() if f"### {rule['alert']}\n" not in page] == []


def test_each_alert_has_series_of_which_it_fires():
    """And no case is of a rule that is gone."""
    cases = [
        case
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]

    assert {case["alertname"] for case in cases if case["exp_alerts"]} == {
        rule["alert"] for rule in alerts()
    }


def test_the_series_of_cases_are_exported():
    """A rule that fires of labels that nobody exports proves nothing."""
    names = exported()
    series = [
        each["series"]
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for each in test["input_series"]
    ]

    for one in series:
        ((name, selected),) = SELECTED.findall(one) or [("up", "")]
        assert set(re.findall(r"(\w+)\s*=", selected)) <= names.get(name, set()), one


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not here"
)
@pytest.mark.parametrize("command", [("check", ALERTS), ("test", CASES)], ids=["check", "test"])
def test_prometheus_accepts_the_rules_and_they_fire(command):
    """`promtool check rules` parses the expressions, `promtool test rules` evaluates them over series."""
    verb, file = command
    checked = subprocess.run(
        ["promtool", verb, "rules", str(file)], capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
