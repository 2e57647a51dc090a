"""Fixtures of the fault tests: a seed that is printed, a topic of records, pipelines that do not outlive their test."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.faulty import FaultyPipeline
from tests.faults.workload import Workload
from tests.kafka_server import KafkaServer

SEED_VARIABLE = "PENSTOCK_FAULT_SEED"
KILLS_VARIABLE = "PENSTOCK_FAULT_KILLS"
QUICK_START = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Pipelines that live for seconds gain more from a quick start than from the last optimisation."""

ROWS_VARIABLE = "PENSTOCK_FAULT_ROWS"


@pytest.fixture
def seed() -> int:
    """The seed of everything that the test draws; a failing test shows it, and the variable brings it back."""
    given = os.environ.get(SEED_VARIABLE)
    seed = int(given) if given else random.randrange(1 << 30)
    print(f"{SEED_VARIABLE}={seed}")
    return seed


@pytest.fixture
def kills() -> int:
    """How often a test of random moments kills: a hundred times, unless the variable says otherwise."""
    return int(os.environ.get(KILLS_VARIABLE, "100"))


@pytest.fixture
def rows() -> int:
    """How many records the largest workload has: two millions, unless the variable says otherwise."""
    return int(os.environ.get(ROWS_VARIABLE, "2000000"))


@pytest.fixture
def workload(kafka: KafkaServer, seed: int) -> Workload:
    """An empty topic of two partitions."""
    return Workload(kafka, seed)


@pytest.fixture
def pipeline(project: Path) -> Iterator[Callable[..., FaultyPipeline]]:
    """Makes pipelines of a text of SQL; what still runs after the test is killed."""
    made: list[FaultyPipeline] = []

    def make(
        text: str, *arguments: str, name: str = "job", folder: Path | None = None
    ) -> FaultyPipeline:
        place = folder or project
        script = place / f"{name}.sql"
        script.write_text(text, encoding="utf-8")
        made.append(FaultyPipeline(place, script, ("--conf", QUICK_START, *arguments)))
        return made[-1]

    yield make
    for each in made:
        if each.process is not None and each.process.poll() is None:
            each.kill()
