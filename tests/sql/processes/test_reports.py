"""Lines of reports among lines of log."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.output.progress import json_line
from penstock.sql.processes.reports import (
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


@pytest.mark.parametrize(
    "line",
    [
        "",
        "starting Spark on local[2]",
        "{not json",
        '{"name": "a", "status": "running"}',
        '{"time": "", "name": "a", "status": 1}',
        '{"metrics": 9090}',
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
