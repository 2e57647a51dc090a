"""`penstock run` with metrics and status page as a person starts it, and what that person sees of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.integration.pipeline import COMMAND, wait_until

_SERVED = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


def penstock(project: Path, *arguments: str, wrapper: Sequence[str] = ()) -> str:
    """Run a command that starts no Spark; its stdout."""
    done = subprocess.run(
        [*wrapper, *COMMAND, *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


class RunningPipeline:
    """A run of `job.sql` in a project. The pipeline `job/<sink>` is the only one."""

    def __init__(
        self, project: Path, sink: str, *arguments: str, wrapper: Sequence[str] = ()
    ) -> None:
        self._project, self._name, self._wrapper = project, f"job/{sink}", wrapper
        self._log = project / f"run-{len(list(project.glob('run-*')))}.log"
        served = ("--metrics-port", "0", "--ui-port", "0", "--progress-interval", "1")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*wrapper, *COMMAND, "run", "job.sql", *served, *arguments],
                cwd=project,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        wait_until(self._serves, seconds=240, what="metrics and page")

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def metrics(self) -> str:
        """Where its metrics are."""
        return next(url for url in self._served() if url.endswith("/metrics"))

    def _serves(self) -> bool:
        assert self.process.poll() is None, self.log
        return len(self._served()) == 2

    def _served(self) -> list[str]:
        return sorted(set(_SERVED.findall(self.log)))

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        """The series of a metric, by the values of their labels but the pipeline's."""
        with urlopen(self.metrics, timeout=10) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        return {
            tuple(value for key, value in sorted(sample.labels.items()) if key != "pipeline"): (
                sample.value
            )
            for family in families
            for sample in family.samples
            if sample.name == name
        }

    def value(self, name: str, *labels: str) -> float | None:
        """The value of one series; None where it is not there."""
        return self.series(name).get(labels)

    @property
    def sentence(self) -> str:
        """What the page says of the pipeline."""
        page = next(url for url in self._served() if not url.endswith("/metrics"))
        with suppress(OSError), urlopen(f"{page}api/v1/pipelines", timeout=10) as answer:
            for one in json.loads(answer.read()):
                if one["name"] == self._name:
                    return str(one.get("sentence", ""))
        return ""

    def expect(self, words: str, *, seconds: float = 120) -> str:
        """Wait until the sentence has these words; the sentence."""
        last = ""

        def says() -> bool:
            nonlocal last
            last = self.sentence
            return words in last

        try:
            wait_until(says, seconds=seconds, what=words)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {last!r}\n{self.log[-3000:]}") from error
        return last

    def listed(self) -> str:
        """What `penstock jobs` says of it, as a program reads it."""
        found = penstock(self._project, "jobs", "--format", "json", wrapper=self._wrapper)
        rows: list[dict[str, Any]] = json.loads(found)
        (row,) = [row for row in rows if row["name"] == self._name]
        return f"{row['status']}: {row.get('sentence', '')}"

    def end(self, seconds: float = 120) -> int:
        """Wait for its end; its exit status."""
        return self.process.wait(seconds)

    def stop(self) -> int:
        """End it as Ctrl-C does; its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.end()


@contextmanager
def running(
    project: Path, sink: str, *arguments: str, wrapper: Sequence[str] = ()
) -> Iterator[RunningPipeline]:
    """Start it, and stop it where it still runs."""
    made = RunningPipeline(project, sink, *arguments, wrapper=wrapper)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.stop()
