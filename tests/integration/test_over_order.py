"""OVER over rows of one time in several partitions: what a table and a state hold does not depend on fetches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.connector.failpoints import KILLED, VARIABLE
from tests.integration.pipeline import Pipeline, delta_rows
from tests.integration.turned_kafka import installed
from tests.kafka_server import KafkaServer

TABLE = """
CREATE TEMPORARY TABLE bids{number} (id BIGINT, auction STRING, price BIGINT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'turned', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'format' = 'json', 'scan.startup.mode' = 'earliest-offset', 'scan.parallelism' = '{tasks}');
"""
FRAMED = """
CREATE TEMPORARY TABLE framed (id BIGINT, total BIGINT, first_id BIGINT, last_id BIGINT)
WITH ('connector' = 'delta', 'path' = 'framed');
INSERT INTO framed SELECT id, SUM(price) OVER last_two, FIRST_VALUE(id) OVER last_two, LAST_VALUE(id) OVER last_two
FROM {bids} WINDOW last_two AS (PARTITION BY auction ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW);
"""
COLUMNS = "id, auction, price, ts"
BOTH = f"(SELECT {COLUMNS} FROM bids0 UNION ALL SELECT {COLUMNS} FROM bids1) AS b"
FORMS = {"by bucket": ("bids0", 1, 1), "on two tasks": ("bids0", 1, 2), "as rows": (BOTH, 2, 1)}
"""The relation, the number of its topics, and the tasks that read each of them in the replay."""
AT_ONCE = 5
"""Bids of one time in each partition."""


@dataclass(frozen=True, kw_only=True)
class Bid:
    """A bid, as far as the answer needs it."""

    id: int
    price: int


def give(kafka: KafkaServer, topics: Sequence[str], *, minute: int) -> list[Bid]:
    """Write bids of one time into all partitions, and behind them what moves the watermark; gives them in order."""
    given = []
    for number, (topic, partition) in enumerate((topic, p) for topic in topics for p in (0, 1)):
        bids = [
            Bid(id=minute * 1000 + number * 100 + n, price=1 << (number * 8 + n))
            for n in range(AT_ONCE)
        ]
        rows = [
            {
                "id": bid.id,
                "auction": "a",
                "price": bid.price,
                "ts": f"2026-01-31 10:{minute:02}:00Z",
            }
            for bid in bids
        ]
        end = {"id": -1, "auction": None, "price": None, "ts": f"2026-01-31 10:{minute:02}:30Z"}
        kafka.produce_json(topic, [*rows, end], partition=partition)
        given += bids
    return given


def answer(bids: Sequence[Bid]) -> list[tuple[int, ...]]:
    """What OVER gives of the bids in this order."""
    pairs = zip([None, *bids], bids, strict=False)
    return sorted(
        (bid.id, bid.price + (before.price if before else 0), (before or bid).id, bid.id)
        for before, bid in pairs
    )


def states(project: Path) -> dict[str, bytes]:
    """The files of keyed state, whole."""
    folder = project / ".penstock" / "checkpoints" / "job" / "framed" / "keyed"
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.parquet")}


@pytest.fixture
def pipeline(project: Path) -> Iterator[Pipeline]:
    """A run of `job.sql`, which ends with the test."""
    made = Pipeline(project, project / "job.sql", ("--available-now",))
    yield made
    if made.process is not None and made.process.poll() is None:
        with suppress(ProcessLookupError):
            made.kill()


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", list(FORMS))
def test_a_batch_that_is_replayed_is_the_same_in_whatever_order_partitions_are_fetched(
    kafka: KafkaServer, project: Path, tmp_path: Path, pipeline: Pipeline, form: str
) -> None:
    """It dies when the table has a batch and the state has not; later frames begin with what had been sent as last."""
    relation, count, tasks_again = FORMS[form]
    topics = [kafka.create_topic(partitions=2) for _ in range(count)]
    bids = give(kafka, topics, minute=1)

    def start(*, backward: bool, tasks: int, failpoints: str = "") -> None:
        tables = (
            TABLE.format(number=n, topic=topic, bootstrap=kafka.bootstrap, tasks=tasks)
            for n, topic in enumerate(topics)
        )
        script = "".join(tables) + FRAMED.format(bids=relation)
        pipeline.script.write_text(script, encoding="utf-8")
        pipeline.environment = {
            **installed(tmp_path / "installed", backward=backward),
            VARIABLE: failpoints,
        }
        pipeline.start()

    start(backward=False, tasks=1, failpoints="state-sent=kill")
    assert pipeline.process is not None
    pipeline.process.communicate(timeout=300)
    assert pipeline.process.returncode == KILLED, pipeline.log[-4000:]
    sent, kept = table(project), states(project)
    bids += give(kafka, topics, minute=2)
    start(backward=True, tasks=tasks_again)
    pipeline.finish(300)

    assert sent == answer(bids[: len(bids) // 2])
    assert table(project) == answer(bids)
    assert kept
    again = {name: found for name, found in states(project).items() if name in kept}
    assert again == kept
    assert {name for name in states(project) if "/0-0-" in name} == kept.keys()


def table(project: Path) -> list[tuple[int, ...]]:
    """The rows of the target."""
    query = "SELECT * FROM {table} WHERE id >= 0 ORDER BY id"
    return [tuple(row) for row in delta_rows(project / "framed", query)]
