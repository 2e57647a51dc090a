"""Lines of reports among lines of log."""

from __future__ import annotations

import os

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.output.progress import json_line
from penstock.sql.processes.reports import (
    REPORT_MARK,
    MetricsReport,
    PageReport,
    PipelineReport,
    failure_line,
    metrics_line,
    page_line,
    read_report,
)
from penstock.sql.ui.documents.live import job_document
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of


def test_a_pipeline_is_read_as_it_is_written() -> None:
    """The document of a running job, without the time of the line."""
    observed = job(read_batch(7, source_of(*SPLITS))).observed

    report = read_report(json_line(observed, 0))

    assert isinstance(report, PipelineReport)
    assert report.name == "shop/totals"
    assert report.document == job_document(observed, 0)


def test_addresses_are_read_as_they_were_written() -> None:
    """Those of metrics and of the page."""
    assert read_report(page_line("http://127.0.0.1:2/")) == PageReport(url="http://127.0.0.1:2/")
    assert read_report(metrics_line("http://127.0.0.1:1/metrics")) == MetricsReport(
        url="http://127.0.0.1:1/metrics"
    )


def test_a_process_of_a_supervisor_marks_its_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the mark that it was given; what another has written, who does not know it, is log."""
    address = "http://127.0.0.1:2/"
    monkeypatch.setenv("PENSTOCK_REPORT_MARK", "0123")
    REPORT_MARK.take()
    lines = [
        page_line(address),
        metrics_line(address),
        failure_line("shop/a", ConfigError("no"), 0),
        json_line(job(read_batch(7, source_of(*SPLITS))).observed, 0),
    ]
    assert "PENSTOCK_REPORT_MARK" not in os.environ, "Java and functions of users inherit it"
    REPORT_MARK.take()

    assert [read_report(line) for line in lines] == [None] * 4
    assert [read_report(line, "4567") for line in lines] == [None] * 4
    kinds = [type(read_report(line, "0123")) for line in lines]
    assert kinds == [PageReport, MetricsReport, PipelineReport, PipelineReport]
    assert read_report(lines[0], "0123") == PageReport(url=address)
    assert read_report(page_line(address), "0123") is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "starting Spark on local[2]",
        "{not json",
        '{"name": "a", "status": "running"}',
        '{"time": "", "name": "a", "status": 1}',
        '{"metrics": 9090}',
        '{"time": "", "name": "a", "status": "purple"}',
        '{"time": "", "name": "a", "status": "running", "mark": "guessed"}',
        '{"page": "http://10.1.2.3:80/"}',
        '{"page": "http://127.0.0.1.example.org/"}',
        '{"page": "http://[half/"}',
        '{"page": "file:///etc/passwd"}',
        '{"metrics": "http://metrics.example.org/"}',
        '["name"]',
    ],
)
def test_all_else_is_log(line: str) -> None:
    """A line that only looks like a report is shown."""
    assert read_report(line) is None


def test_a_pipeline_that_could_not_be_started_is_reported_as_failed() -> None:
    """By the first line of its error."""
    report = read_report(failure_line("shop/a", ConfigError("no such topic\nmore"), 0))

    assert report == PipelineReport(
        document={
            "name": "shop/a",
            "status": "failed",
            "reason": "no such topic\nmore",
            "sentence": "failed: no such topic",
        }
    )
