"""What all Kafka clients share."""

from __future__ import annotations

import subprocess
import sys

CLOSE_TO_THE_LIMIT = """
import resource
from pathlib import Path
from penstock.connector.kafka.client.client import KafkaClient
from penstock.connector.kafka.client.connection import Connection

def limit(free_bytes):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + free_bytes, resource.RLIM_INFINITY))

client = KafkaClient(Connection.of({"bootstrap.servers": "localhost:1"}))
limit(1 << 30)
assert client.make(lambda settings: "made") == "made"
limit(200 << 20)
try:
    client.make(lambda settings: "made")
except MemoryError as error:
    print(error)
"""


def test_no_client_is_started_close_to_the_limit_of_memory() -> None:
    """It would wait for its own thread for ever, and the task with it."""
    run = subprocess.run(
        [sys.executable, "-c", CLOSE_TO_THE_LIMIT], capture_output=True, text=True, check=True
    )

    assert run.stdout.startswith(
        "a Kafka client needs 288 MB more, and this Python worker has used"
    )
    assert "spark.executor.pyspark.memory sets that limit" in run.stdout
