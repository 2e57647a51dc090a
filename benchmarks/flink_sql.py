"""Flink SQL as a contestant of `make bench`: runs in an environment with apache-flink, and imports nothing of Penstock.

Orders and answers as `contestants.py` has them. `python flink_sql.py JARS BOOTSTRAP TOPIC FOLDER` starts one: a cluster
in one Java process, with two slots. What is left of a run is nothing: rows go into `blackhole`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

CONF = {
    "parallelism.default": ("2", "a task for each core"),
    "pipeline.object-reuse": ("true", "rows are not copied from operator to operator"),
    "table.local-time-zone": ("UTC", "as everyone's"),
    "table.exec.source.idle-timeout": (
        "1 s",
        "a partition that is read to its end does not hold windows",
    ),
}
"""What an expert sets on two cores, and why."""

HEAP_MB = 4096
"""As both Sparks have; the memory outside of it is Flink's default for a cluster in one process."""

SOURCE_CONF = {
    "properties.max.poll.records": ("20000", "500 by default: a call for each 500 records"),
    "properties.max.partition.fetch.bytes": (
        "8388608",
        "1 MiB by default: more answers of the broker",
    ),
    "properties.receive.buffer.bytes": ("1048576", "64 KiB by default"),
    "properties.check.crcs": ("false", "broker and reader share a machine"),
}
"""Options of its Kafka table; those of Spark's own source."""

LEAST_RATE = 5_000
"""Rows a second; below, a job is taken for one that hangs."""

LEAST_WAIT_S = 120

ASKED_S = 10
"""For the state of a job that hangs, and for its end."""

LONGEST_REASON = 2_000
"""Characters of the end of Java's log in an answer."""

LOG = "flink.log"

COLUMNS = """
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING
"""

SOURCE = """
CREATE TABLE bids ({columns}, WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '10' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', {options}
)
"""

WINDOWED = """
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), channel STRING, bids BIGINT
"""

QUERIES = {
    "noop": "INSERT INTO nothing SELECT * FROM bids",
    "window": """
      INSERT INTO no_windows SELECT window_start, window_end, channel, COUNT(*) AS bids
      FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
      GROUP BY window_start, window_end, channel
    """,
}


def keep_output(folder: Path, heap_mb: int = HEAP_MB) -> None:
    """Let Java write its output into a file: what PyFlink does with it, once it has started, is to leave it in a pipe.

    A pipe that nobody reads is full after 64 KiB, and then whoever writes a line stands still for ever; and what Java
    prints on standard output would stand between the answers. PyFlink starts the Java of JAVA_HOME.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=None if home is None else str(Path(home) / "bin"))
    if java is None:
        raise SystemExit("error: Flink needs Java")
    program = folder / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    log = shlex.quote(str(folder / LOG))
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(java)} "$@" >>{log} 2>&1\n', encoding="utf-8")
    program.chmod(0o755)
    os.environ["JAVA_HOME"] = str(folder / "java")
    os.environ["JVM_ARGS"] = f"-Xmx{heap_mb}m"
    os.environ["FLINK_LOG_DIR"] = str(folder)


def start(jars: str, bootstrap: str, topic: str, *, streaming: bool) -> Any:
    """Make an environment for streams or for batches, and define the tables."""
    from pyflink.common import Configuration  # type: ignore[import-not-found]
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    conf = Configuration()
    for key, (value, _) in CONF.items():
        conf.set_string(key, value)
    conf.set_string("pipeline.jars", jars)
    mode = EnvironmentSettings.new_instance()
    mode = mode.in_streaming_mode() if streaming else mode.in_batch_mode()
    environment = TableEnvironment.create(mode.with_configuration(conf).build())
    options = ", ".join(f"'{key}' = '{value}'" for key, (value, _) in SOURCE_CONF.items())
    source = SOURCE.format(columns=COLUMNS, topic=topic, bootstrap=bootstrap, options=options)
    environment.execute_sql(source)
    nothing = "WITH ('connector' = 'blackhole')"
    environment.execute_sql(f"CREATE TABLE nothing ({COLUMNS}) {nothing}")
    environment.execute_sql(f"CREATE TABLE no_windows ({WINDOWED}) {nothing}")
    return environment


def count(environment: Any) -> int:
    """Count the rows of the topic in a batch, as `blackhole` tells nothing (a stream gives a count for each row)."""
    with environment.execute_sql("SELECT COUNT(*) FROM bids").collect() as results:
        ((rows,),) = results
    return int(rows)


def execute(environment: Any, insert: str, rows: int) -> None:
    """Run an INSERT to its end. Raises TimeoutError for one that hangs, and ends its job."""
    result = environment.execute_sql(insert)
    within_s = LEAST_WAIT_S + rows // LEAST_RATE
    if ended_within(result, within_s):
        return
    job, state = result.get_job_client(), "of an unknown state"
    with suppress(Exception):
        state = answer_of(job.get_job_status()).name
    with suppress(Exception):
        answer_of(job.cancel())
    raise TimeoutError(f"no end within {within_s} s; its job is {state}")


def answer_of(future: Any) -> Any:
    """Return the result of a future of PyFlink, which waits without an end itself. Raises TimeoutError."""
    deadline = time.monotonic() + ASKED_S
    while not future.done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no answer within {ASKED_S} s")
        time.sleep(0.1)
    return future.result()


def ended_within(result: Any, seconds: int) -> bool:
    """Wait for a job. Raises what it failed with."""
    from py4j.protocol import Py4JJavaError

    try:
        result.wait(seconds * 1000)
    except Py4JJavaError as failure:
        java = failure.java_exception
        if java.getClass().getName() == "java.util.concurrent.TimeoutException":
            return False
        raise
    return True


def log_end(folder: Path) -> str:
    """Return the last lines of what Java wrote."""
    log = folder / LOG
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return text[-LONGEST_REASON:].strip()


def main() -> None:
    """Serve orders until standard input ends."""
    jars, bootstrap, topic, given = sys.argv[1:]
    folder = Path(given)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries and processes print must not mix with the answers

    def answer(document: dict[str, Any]) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    keep_output(folder)
    rows = count(start(jars, bootstrap, topic, streaming=False))
    environment = start(jars, bootstrap, topic, streaming=True)
    answer({"ready": True})
    for line in sys.stdin:
        sink = line.split()[0]
        began = time.perf_counter()
        try:
            execute(environment, QUERIES[sink], rows)
        except Exception as error:  # noqa: BLE001  what goes wrong with one query must not cost the other
            answer({"error": f"{type(error).__name__}: {error}; Java wrote:\n{log_end(folder)}"})
        else:
            answer({"rows": rows, "seconds": time.perf_counter() - began})


if __name__ == "__main__":
    main()
