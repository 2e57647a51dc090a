"""Those who look at pipelines while they are measured: an open status page, and a scraper of Prometheus.

`observing` serves metrics and page of the jobs of a session, and starts `python -m benchmarks.observers` beside it: a
client of server-sent events that loads the page again at each event, as `page.js` does in a browser, and a scraper with
the headers of Prometheus. A line on its standard input is answered by a line of JSON with what it asked for so far.
"""

from __future__ import annotations

import contextlib
import gzip
import http
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from benchmarks.workers import Worker, running

if TYPE_CHECKING:
    from penstock.sql.jobs.job import Job
    from penstock.sql.session.session import Session

SCRAPE_INTERVAL_S = 2.0
"""Time between two scrapes: Prometheus asks every 15 s or more."""

ANSWER_S = 30
"""How long an answer may take. A silent stream of events is an error sooner: it has a comment each second."""

SCRAPE_HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "Prometheus/3.0.0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for: events that came, pages loaded for them, scrapes, and the series of the last one."""

    events: int = 0
    pages: int = 0
    scrapes: int = 0
    series: int = 0

    def __add__(self, other: Asked) -> Asked:
        """Add up what was asked for in two turns."""
        return Asked(
            events=self.events + other.events,
            pages=self.pages + other.pages,
            scrapes=self.scrapes + other.scrapes,
            series=max(self.series, other.series),
        )


def asked_between(before: Asked, after: Asked) -> Asked:
    """Return what was asked for between two answers."""
    return Asked(
        events=after.events - before.events,
        pages=after.pages - before.pages,
        scrapes=after.scrapes - before.scrapes,
        series=after.series,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observers:
    """The process that looks."""

    worker: Worker

    @property
    def pid(self) -> int:
        """The id of the process, whose CPU time is not the pipeline's."""
        return self.worker.process.pid

    def asked(self) -> Asked:
        """Return what it asked for so far. Raises LostWorkerError where one of its clients has failed."""
        return Asked(**self.worker.ask("asked", within_s=ANSWER_S))


@contextlib.contextmanager
def observing(session: Session, jobs: Sequence[Job], folder: Path) -> Iterator[Observers]:
    """Serve metrics and page of these jobs, and let them be looked at, while the block runs."""
    from penstock.sql.metrics.endpoint import serving_metrics
    from penstock.sql.ui.application import StatusView
    from penstock.sql.ui.documents.stored import StoredPipelines
    from penstock.sql.ui.server import serving_pages

    stored = StoredPipelines(namespace=session.namespace, project=folder)
    view = StatusView(jobs=lambda: jobs, stored=stored)
    with (
        serving_metrics(lambda: jobs, host="127.0.0.1", port=0) as metrics,
        serving_pages(view, port=0) as page,
        running([sys.executable, "-m", "benchmarks.observers", metrics, page]) as worker,
    ):
        worker.answer(within_s=ANSWER_S)
        yield Observers(worker=worker)


class OpenPage:
    """The page in a browser: one stream of events, and one load of what has changed at each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.events = 0
        self.pages = 0

    def follow(self) -> None:
        """Open the list of pipelines and follow its events, for ever. Raises OSError where the stream ends."""
        self._load(self._url)
        request = urllib.request.Request(
            f"{self._url}api/v1/events", headers={"Accept": "text/event-stream"}
        )
        with urllib.request.urlopen(request, timeout=ANSWER_S) as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    self.events += 1
                    self._changed(json.loads(line[len(b"data: ") :]))
        raise ConnectionError("the stream of events has ended")

    def _changed(self, names: Sequence[str]) -> None:
        """Load the page of the pipeline that has changed, with its splits, batches and operators."""
        self._load(f"{self._url}pipelines/{quote(names[-1])}" if names else self._url)

    def _load(self, url: str) -> None:
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            if error.code != http.HTTPStatus.NOT_FOUND:  # of a pipeline that is over
                raise
        self.pages += 1


class Scraper:
    """Prometheus, with one target."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.scrapes = 0
        self.series = 0

    def scrape(self) -> None:
        """Ask for the metrics again and again, for ever. Raises OSError."""
        while True:
            request = urllib.request.Request(self._url, headers=SCRAPE_HEADERS)
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                packed = answer.headers.get("Content-Encoding") == "gzip"
                text = gzip.decompress(answer.read()) if packed else answer.read()
            lines = text.splitlines()
            self.series = sum(1 for line in lines if line and not line.startswith(b"#"))
            self.scrapes += 1
            time.sleep(SCRAPE_INTERVAL_S)


def main() -> None:
    """Look at a page and its metrics until standard input ends, or one of them fails: then nothing is answered."""
    metrics, url = sys.argv[1:]
    page, scraper = OpenPage(url), Scraper(metrics)
    threads = [threading.Thread(target=each, daemon=True) for each in (page.follow, scraper.scrape)]
    for thread in threads:
        thread.start()
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        if not all(thread.is_alive() for thread in threads):
            sys.exit(1)  # why is on standard error
        asked = {
            "events": page.events,
            "pages": page.pages,
            "scrapes": scraper.scrapes,
            "series": scraper.series,
        }
        print(json.dumps(asked), flush=True)


if __name__ == "__main__":
    main()
