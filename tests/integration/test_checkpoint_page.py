"""`penstock ui --checkpoint` beside a pipeline of another project that runs, is killed, runs again and is stopped."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from penstock.sql.ui.documents.stored import ALONE
from tests.integration.pipeline import COMMAND, Pipeline, wait_until
from tests.kafka_server import KafkaServer

ROWS = 200
BATCH = 20
SQL = """
CREATE TEMPORARY TABLE clicks (id BIGINT, page STRING) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-batch' = '{batch}', 'format' = 'json'
);
CREATE TABLE IF NOT EXISTS counts (clicks BIGINT, pages BIGINT, PRIMARY KEY (clicks) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'counts');
INSERT INTO counts SELECT clicks, COUNT(*) FROM
(SELECT page, COUNT(*) AS clicks FROM clicks GROUP BY page) GROUP BY clicks;
"""
ADDRESS = re.compile(r"status page: (http://\S+)")

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.broker]


@dataclass(frozen=True)
class Page:
    """A `penstock ui` of an empty project, with the checkpoint of another."""

    url: str

    def document(self) -> dict[str, Any]:
        """The only pipeline; its page and the list can be drawn, too."""
        (summary,) = json.loads(self._read("api/v1/pipelines"))
        assert (summary["name"], summary["sentence"]) == ("clicks/counts", ALONE)
        assert "status" not in summary
        for path in ("", "pipelines/clicks/counts"):
            assert "clicks/counts" in self._read(path)
        found: dict[str, Any] = json.loads(self._read("api/v1/pipelines/clicks/counts"))
        return found

    def position(self) -> int:
        """The position of the only split in the last batch that was planned."""
        (table,) = self.document()["tables"]
        (split,) = table["splits"]
        return int(split["position"])

    def _read(self, path: str) -> str:
        with urlopen(f"{self.url}{path}", timeout=30) as answer:
            return str(answer.read().decode())


@pytest.fixture
def script(tmp_path: Path, kafka: KafkaServer) -> Path:
    """A pipeline in a project of its own, over a topic with all its records."""
    topic = kafka.create_topic(partitions=1)
    records = [json.dumps({"id": number, "page": f"p{number % 7}"}) for number in range(ROWS)]
    kafka.produce(topic, records)
    file = tmp_path / "shop" / "clicks.sql"
    file.parent.mkdir()
    text = SQL.format(topic=topic, bootstrap=kafka.bootstrap, batch=BATCH)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def checkpoint(script: Path) -> Path:
    """The checkpoint of the pipeline."""
    return script.parent / ".penstock" / "checkpoints" / "clicks" / "counts"


@pytest.fixture
def page(tmp_path: Path, checkpoint: Path) -> Iterator[Any]:
    """Starts `penstock ui` once the checkpoint is there."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> Page:
        folder, said = tmp_path / "desk", tmp_path / "page.err"
        folder.mkdir()
        with said.open("wb") as err:
            command = [*COMMAND, "ui", "--port", "0", "--checkpoint", str(checkpoint)]
            started.append(subprocess.Popen(command, cwd=folder, stderr=err))
        wait_until(
            lambda: ADDRESS.search(said.read_text()) is not None, seconds=60, what="its address"
        )
        found = ADDRESS.search(said.read_text())
        assert found is not None
        return Page(url=found[1])

    yield start
    for each in started:
        each.terminate()
        assert each.wait(30) == 0, "the page ends by SIGTERM"
        assert not list((tmp_path / "desk").rglob("checkpoints/*")), "the page makes none"


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a checkpoint."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.nightly
def test_a_page_follows_a_checkpoint_of_another_process(
    script: Path, checkpoint: Path, page: Any
) -> None:
    """While its batch is written, after kill -9, while it runs again and once it has stopped; nothing is changed."""
    project = script.parent
    held, taken = project / "held", project / "taken"
    held.touch()
    taken.mkdir()
    run = Pipeline(
        project,
        script,
        ("--continuous",),
        {
            "PENSTOCK_FAILPOINTS": f"written=wait:{held}@3",
            "PENSTOCK_FAILPOINTS_TAKEN": str(taken),
        },
    )
    run.start()
    again = Pipeline(project, script, ("--continuous",))
    try:
        wait_until((taken / "written").exists, seconds=240, what="the third batch is held")
        shown = page()
        running = shown.document()
        assert running["batch_id"] == 2
        assert shown.position() == 3 * BATCH
        assert running["operators"][-1]["mechanism"] == "reading tasks"
        assert running["sinks"][0]["name"].endswith("counts")

        run.kill()
        before = contents(checkpoint)
        killed = shown.document()
        assert killed == running, "what a checkpoint tells is the same: nobody wrote it"
        assert contents(checkpoint) == before, "the page reads only"

        again.start()
        # asked all the time while it is written, which must never look damaged
        wait_until(lambda: shown.position() == ROWS, seconds=240, what="it has read all")
        assert again.process is not None
        again.process.terminate()
        again.finish(120)
    finally:
        for each in (run, again):
            if each.process is not None and each.process.poll() is None:
                each.kill()
    stopped = shown.document()
    assert stopped["batch_id"] >= ROWS // BATCH - 1
    assert shown.position() == ROWS
    keyed = [each for each in stopped["operators"] if each["mechanism"] == "keyed operator"]
    # those of its files, which hold each change of a key until they are merged
    assert [each["rows"] >= keys for each, keys in zip(keyed, (2, 7), strict=True)] == [True, True]
