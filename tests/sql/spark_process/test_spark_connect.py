"""Spark Connect: a session over it is refused; its clients read what the server's process has published."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql.connect.session import SparkSession as ConnectSession

import penstock
from penstock.catalog.errors import UnsupportedError

ROOT = Path(__file__).resolve().parents[3]
SERVER = """
import socket, subprocess, sys, penstock
from penstock.sql.spark_process.spark_session import start_spark

with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
spark = start_spark("local[2]", {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": str(port),
})
with penstock.connect(spark) as session:
    session.sql("CREATE TABLE t (a BIGINT, b AS a + 1) "
                "WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json')")
    session.sql("CREATE VIEW v AS SELECT b FROM t")
    ended = subprocess.run([sys.executable, "client.py", f"sc://127.0.0.1:{port}"], timeout=200)
sys.exit(ended.returncode)
"""
CLIENT = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
try:
    spark.readStream.table("t").schema
    refused = ""
except Exception as error:
    refused = str(error)
found = {
    "rows": [list(row) for row in spark.sql("SELECT a, b FROM t").collect()],
    "view": [list(row) for row in spark.table("v").collect()],
    "source": spark.readStream.format("penstock").option("table", "t").load().isStreaming,
    "refused": refused,
}
open("found.json", "w").write(json.dumps(found))
"""


def test_a_session_over_spark_connect_is_refused() -> None:
    """Before anything is looked at, with what to do."""
    with pytest.raises(UnsupportedError, match="Spark Connect session") as raised:
        penstock.connect(ConnectSession.__new__(ConnectSession))

    assert "in the server's process" in str(raised.value.hint)


@pytest.mark.slow
@pytest.mark.spark
def test_clients_of_a_server_read_what_it_published(project: Path) -> None:
    """By plain names; streams of them take the data source, as a published view does not stream there."""
    (project / "t").mkdir()
    (project / "t" / "a.json").write_text('{"a": 1}\n', encoding="utf-8")
    (project / "client.py").write_text(CLIENT, encoding="utf-8")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PENSTOCK_CATALOG": f"sqlite:///{project}/.penstock/catalog.db",
    }
    ended = subprocess.run(
        [sys.executable, "-c", SERVER],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads((project / "found.json").read_text(encoding="utf-8"))

    assert (found["rows"], found["view"]) == ([[1, 2]], [[2]])
    assert found["source"] is True
    assert "not supported by streaming reading API" in found["refused"]
