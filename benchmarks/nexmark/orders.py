"""What the driver tells an engine's process, a line of JSON each way, and the SQL of it that all engines share."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from benchmarks.flink_sql import HEAP_MB
from benchmarks.nexmark.queries import Query, read_query

LONGEST_ERROR = 1_000
"""Characters of an answer."""

RUN, START, STOP = "run", "start", "stop"
"""What is to be done."""

LEFT_OUT = ("table.exec.source.idle-timeout",)
"""Of the settings in `benchmarks/flink_sql.py`: a partition that is read slowly must not be left out of a watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an engine reads and keeps its state; limits of its batches and checkpoints, 0 for none.

    `bounded`: it reads to the end that the topic has when the query starts.
    """

    bootstrap: str
    topic: str
    folder: str
    events: int
    batch_rows: int
    checkpoint_ms: int
    flink_heap_mb: int = HEAP_MB
    bounded: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Run a query once over the whole topic; `name` was not used before. Without `topic` the result goes nowhere.

    Of a topic without an end: START a query, and STOP it when all has come out.
    """

    query: str
    name: str
    topic: str
    action: str = RUN

    def as_line(self) -> str:
        """Write the order for a process."""
        return json.dumps(asdict(self))


def result_table(order: Order, query: Query, bootstrap: str) -> str:
    """Write the definition of the table that takes the result."""
    if not order.topic:
        options = "'connector' = 'blackhole'"
    else:
        options = f"'topic' = '{order.topic}', 'properties.bootstrap.servers' = '{bootstrap}', "
        options += (
            "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
            if query.key
            else "'connector' = 'kafka', 'format' = 'json'"
        )
    return f"CREATE TABLE `{order.name}` ({query.declared}) WITH ({options})"


def insert(order: Order, query: Query) -> str:
    """Write the statement that is measured."""
    return f"INSERT INTO `{order.name}` {query.select}"


Perform = Callable[[Order, Query], dict[str, Any]]
"""Does what an order says; what it returns is added to the answer. Its time is taken."""


def serve(actions: Mapping[str, Perform], answers: TextIO, log: Callable[[], str] = str) -> None:
    """Serve orders until standard input ends; `log` gives what else is known of an error."""
    _say(answers, {"ready": True})
    for line in sys.stdin:
        order = Order(**json.loads(line))
        query = read_query(order.query)
        began = time.perf_counter()
        try:
            found = actions[order.action](order, query)
        except Exception as error:  # noqa: BLE001  what goes wrong with one query must not cost the others
            text = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
            _say(answers, {"error": f"{text} {log()}".strip()})
        else:
            _say(answers, {"seconds": time.perf_counter() - began, **found})


def _say(answers: TextIO, document: dict[str, Any]) -> None:
    answers.write(json.dumps(document) + "\n")
    answers.flush()
