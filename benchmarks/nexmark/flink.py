"""Flink SQL as an engine of `benchmarks.nexmark`, in an environment with apache-flink: `python flink.py JARS PLACE`.

A cluster in one Java process, set as `benchmarks/flink_sql.py` has it but for `LEFT_OUT`.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.flink_sql import CONF, SOURCE_CONF, execute, keep_output, log_end
from benchmarks.nexmark.orders import (
    LEFT_OUT,
    RUN,
    START,
    STOP,
    Order,
    Place,
    insert,
    result_table,
    serve,
)
from benchmarks.nexmark.queries import Query, read_tables


class Flink:
    """A table environment for streams."""

    def __init__(self, jars: str, place: Place) -> None:
        from pyflink.common import Configuration  # type: ignore[import-not-found]
        from pyflink.table import (  # type: ignore[import-not-found]
            EnvironmentSettings,
            TableEnvironment,
        )

        conf = Configuration()
        for key, (value, _) in CONF.items():
            if key not in LEFT_OUT:
                conf.set_string(key, value)
        conf.set_string("pipeline.jars", jars)
        if place.checkpoint_ms:
            conf.set_string("execution.checkpointing.interval", f"{place.checkpoint_ms} ms")
            conf.set_string("execution.checkpointing.dir", _checkpoints(place).as_uri())
        mode = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(conf)
        self._environment = TableEnvironment.create(mode.build())
        self._place = place
        self._job: Any = None
        options = {
            "connector": "kafka",
            "topic": place.topic,
            "properties.bootstrap.servers": place.bootstrap,
            "format": "json",
            "scan.startup.mode": "earliest-offset",
            **({"scan.bounded.mode": "latest-offset"} if place.bounded else {}),
            **{key: value for key, (value, _) in SOURCE_CONF.items()},
        }
        events, views = read_tables()
        given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        for statement in (events.replace("{options}", given), *views):
            self._environment.execute_sql(statement)

    def perform(self, order: Order, query: Query) -> dict[str, Any]:
        """Run a query to the end of the topic."""
        self._environment.execute_sql(result_table(order, query, self._place.bootstrap))
        execute(self._environment, insert(order, query), self._place.events)
        return {}

    def start(self, order: Order, query: Query) -> dict[str, Any]:
        """Start a query that has no end."""
        self._environment.execute_sql(result_table(order, query, self._place.bootstrap))
        result = self._environment.execute_sql(insert(order, query))
        self._job = result.get_job_client()
        return {}

    def stop(self, order: Order, query: Query) -> dict[str, Any]:  # noqa: ARG002  it runs one
        """End it. Raises RuntimeError where it does not run any more."""
        state = self._job.get_job_status().result().name
        if state != "RUNNING":
            raise RuntimeError(f"its job is {state}")
        # the checkpoints go with the job
        found = {"state_bytes": newest_checkpoint_bytes(_checkpoints(self._place))}
        self._job.cancel().result()
        return found


def newest_checkpoint_bytes(folder: Path) -> int:
    """Return the size of the newest complete checkpoint; 0 where there is none. Older ones are deleted meanwhile."""
    sizes: dict[int, int] = {}
    for metadata in folder.glob("*/chk-*/_metadata"):
        with suppress(FileNotFoundError):
            number = int(metadata.parent.name.removeprefix("chk-"))
            files = [one for one in metadata.parent.iterdir() if one.is_file()]
            sizes[number] = sum(one.stat().st_size for one in files)
    return sizes[max(sizes)] if sizes else 0


def _checkpoints(place: Place) -> Path:
    """Where its checkpoints are."""
    return Path(place.folder) / "checkpoints"


def main() -> None:
    """Serve orders until standard input ends."""
    jars, given = sys.argv[1:]
    place = Place(**json.loads(given))
    folder = Path(place.folder)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries and processes print must not mix with the answers
    keep_output(folder, place.flink_heap_mb)
    flink = Flink(jars, place)
    actions = {RUN: flink.perform, START: flink.start, STOP: flink.stop}
    serve(actions, answers, lambda: f"Java wrote:\n{log_end(folder)}")


if __name__ == "__main__":
    main()
