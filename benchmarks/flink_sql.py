"""Flink SQL as a contestant of `make bench`: runs in an environment with apache-flink, and imports nothing of Penstock.

Orders and answers as `contestants.py` has them. `python flink_sql.py JARS BOOTSTRAP TOPIC FOLDER` starts one: a cluster
in one Java process, with two slots. What is left of a run is nothing: rows go into `blackhole`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

CONF = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "table.exec.source.idle-timeout": "1 s",
}

COLUMNS = """
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING
"""

SOURCE = """
CREATE TABLE bids ({columns}, WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '10' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'properties.max.poll.records' = '20000', 'properties.max.partition.fetch.bytes' = '8388608',
  'properties.receive.buffer.bytes' = '1048576', 'properties.check.crcs' = 'false'
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


def start(jars: str, bootstrap: str, topic: str, *, streaming: bool) -> Any:
    """Make an environment for streams or for batches, and define the tables."""
    from pyflink.common import Configuration  # type: ignore[import-not-found]
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    conf = Configuration()
    for key, value in {**CONF, "pipeline.jars": jars}.items():
        conf.set_string(key, value)
    mode = EnvironmentSettings.new_instance()
    mode = mode.in_streaming_mode() if streaming else mode.in_batch_mode()
    environment = TableEnvironment.create(mode.with_configuration(conf).build())
    source = SOURCE.format(columns=COLUMNS, topic=topic, bootstrap=bootstrap)
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


def main() -> None:
    """Serve orders until standard input ends."""
    jars, bootstrap, topic, _ = sys.argv[1:]
    answer = sys.stdout
    sys.stdout = sys.stderr  # whatever libraries print must not mix with the answers
    rows = count(start(jars, bootstrap, topic, streaming=False))
    environment = start(jars, bootstrap, topic, streaming=True)
    answer.write('{"ready": true}\n')
    answer.flush()
    for line in sys.stdin:
        sink = line.split()[0]
        began = time.perf_counter()
        environment.execute_sql(QUERIES[sink]).wait()
        seconds = time.perf_counter() - began
        answer.write(json.dumps({"rows": rows, "seconds": seconds}) + "\n")
        answer.flush()


if __name__ == "__main__":
    main()
