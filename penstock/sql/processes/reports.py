"""What a pipeline's process reports: lines of JSON among the others on its stderr, by `--progress json`.

A line with `time`, `name` and `status` is the document of a pipeline (`job_document` of `sql/ui/documents/live.py`),
`{"metrics": "URL"}` says where its metrics are served, `{"page": "URL"}` its status page. All other lines are log.

Each has the mark that the supervisor gave the process: records, drivers and functions of users write onto the same
stderr, and must not say for a pipeline that it has failed, nor where the supervisor's token is sent. The process takes
it out of its environment before it starts others, which run these functions. It keeps off mistakes, not whoever has
this user's account: Linux shows the environment that a process began with to its own user, who may trace it as well.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.catalog.errors import PenstockError
from penstock.catalog.masking import without_secrets
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.ui.documents.fields import Document, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """A pipeline as its process sees it."""

    document: Document

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return str(self.document["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReport:
    """Where the process serves its metrics."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReport:
    """Where the process serves its status page."""

    url: str


Report = PipelineReport | MetricsReport | PageReport
"""What a line reports."""


MARK_VARIABLE = "PENSTOCK_REPORT_MARK"
"""The variable by which a supervisor gives a process the mark of its reports."""

MARK = "mark"
"""The field of a line that has it."""


class ReportMark:
    """The mark of this process's reports; None where there is no supervisor, and until it is taken."""

    def __init__(self) -> None:
        self._text: str | None = None

    @property
    def text(self) -> str | None:
        """The mark."""
        return self._text

    def take(self) -> None:
        """Move the mark out of the environment, which Java and Python's workers inherit."""
        self._text = os.environ.pop(MARK_VARIABLE, None)


REPORT_MARK = ReportMark()
"""Taken by `penstock run` as the first thing."""


def marked(report: Mapping[str, object]) -> str:
    """Write a report as one line; without a mark where there is no supervisor."""
    mark = REPORT_MARK.text
    return json.dumps(report if not mark else {**report, MARK: mark})


def page_line(url: str) -> str:
    """Write where the status page is served as one line, without its token."""
    return marked({"page": url})


def metrics_line(url: str) -> str:
    """Write where metrics are served as one line."""
    return marked({"metrics": url})


def failure_line(name: str, error: PenstockError, now_ms: int) -> str:
    """Write the document of a pipeline that could not be started, as a running one's is written."""
    reason = without_secrets(error.message)
    said = f"failed: {reason.splitlines()[0] if reason else type(error).__name__}"
    document = {"name": name, "status": JobStatus.FAILED.value, "reason": reason, "sentence": said}
    return marked({"time": time_text(now_ms), **document})


def read_report(line: str, mark: str | None = None) -> Report | None:
    """Read a line; None for one that is no report, or not of the process that was given `mark`."""
    if not line.startswith('{"'):
        return None
    try:
        value: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or value.pop(MARK, None) != mark:
        return None
    match value:
        case {"time": str(), "name": str(), "status": str(status)} if status in set(JobStatus):
            return PipelineReport(document={k: v for k, v in value.items() if k != "time"})
        case {"metrics": str(url)} if len(value) == 1 and _is_here(url):
            return MetricsReport(url=url)
        case {"page": str(url)} if len(value) == 1 and _is_here(url):
            return PageReport(url=url)
    return None


def _is_here(url: str) -> bool:
    """Return whether a URL is served by this machine, at an address that no other one reaches."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme in {"http", "https"} and ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
