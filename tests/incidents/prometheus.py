"""A Prometheus that scrapes a run and evaluates the alert rules, with their times shortened so that a test can wait."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import yaml

from tests.integration.pipeline import wait_until
from tests.postgres_server import free_port

RULES = Path(__file__).parents[2] / "docs" / "monitoring" / "alerts.yaml"
FASTER = 30
"""A minute of a rule is two seconds here, and so are its bounds in seconds and the records of a quarter of an hour."""

_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}
_SPAN = re.compile(r"\b(\d+)([mhd])\b")
_BOUND = re.compile(r"> (\d{3,})\b")


def shortened(expression: str) -> str:
    """Return a rule's expression, or a span of it, with its times divided by FASTER."""
    spans = _SPAN.sub(lambda found: f"{int(found[1]) * _SECONDS[found[2]] // FASTER}s", expression)
    return _BOUND.sub(lambda found: f"> {int(found[1]) // FASTER}", spans)


def shortened_rules() -> str:
    """Return the alert file with its times shortened."""
    file = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for rule in file["groups"][0]["rules"]:
        rule["expr"] = shortened(rule["expr"])
        if "for" in rule:
            rule["for"] = shortened(rule["for"])
    text: str = yaml.safe_dump(file)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A running server."""

    url: str

    def fired(self) -> set[str]:
        """Name the alerts that fired at any time so far, but PenstockPipelineDown."""
        query = 'max_over_time(ALERTS{alertstate="firing"}[1h])'
        with urlopen(f"{self.url}/api/v1/query?query={quote(query)}", timeout=10) as answer:
            found = json.loads(answer.read())["data"]["result"]
        # while Spark starts there is no pipeline, for longer than what five minutes are here
        return {each["metric"]["alertname"] for each in found} - {"PenstockPipelineDown"}

    def wait_for(self, alert: str, *, seconds: float = 60) -> None:
        """Wait until an alert fires."""
        wait_until(lambda: alert in self.fired(), seconds=seconds, what=f"{alert} fires")


@contextmanager
def prometheus(folder: Path, metrics: str) -> Iterator[Prometheus | None]:
    """Scrape the address `metrics` every second; None where Prometheus is not installed."""
    program = shutil.which("prometheus")
    if program is None:
        yield None
        return
    (folder / "alerts.yaml").write_text(shortened_rules(), encoding="utf-8")
    address = metrics.split("/")[2]
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [{"job_name": "penstock", "static_configs": [{"targets": [address]}]}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    url = f"http://127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            program,
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'prometheus-data'}",
            f"--web.listen-address={url.removeprefix('http://')}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: _is_ready(url), seconds=30, what="Prometheus")
        yield Prometheus(url=url)
    finally:
        process.terminate()
        process.wait(30)


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready", timeout=5):
            return True
    except OSError:
        return False
