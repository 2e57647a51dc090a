"""What a pipeline's process reports: lines of JSON among the others on its stderr, by `--progress json`.

A line with `time`, `name` and `status` is the document of a pipeline (`job_document` of `sql/ui/documents/live.py`),
`{"metrics": "URL"}` says where its metrics are served, `{"page": "URL"}` its status page. All other lines are log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

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


def page_line(url: str) -> str:
    """Write where the status page is served as one line, without its token."""
    return json.dumps({"page": url})


def metrics_line(url: str) -> str:
    """Write where metrics are served as one line."""
    return json.dumps({"metrics": url})


def failure_line(name: str, error: PenstockError, now_ms: int) -> str:
    """Write the document of a pipeline that could not be started, as a running one's is written."""
    reason = without_secrets(error.message)
    said = f"failed: {reason.splitlines()[0] if reason else type(error).__name__}"
    document = {"name": name, "status": JobStatus.FAILED.value, "reason": reason, "sentence": said}
    return json.dumps({"time": time_text(now_ms), **document})


def read_report(line: str) -> Report | None:
    """Read a line; None for one that is no report."""
    if not line.startswith('{"'):
        return None
    try:
        value: Any = json.loads(line)
    except ValueError:
        return None
    match value:
        case {"time": str(), "name": str(), "status": str()}:
            return PipelineReport(document={k: v for k, v in value.items() if k != "time"})
        case {"metrics": str(url)} if len(value) == 1:
            return MetricsReport(url=url)
        case {"page": str(url)} if len(value) == 1:
            return PageReport(url=url)
    return None
