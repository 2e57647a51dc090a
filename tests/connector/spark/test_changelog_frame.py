"""Changes in Spark frames: the kind of each travels beside the columns, in batches and in streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.scan import Scan
from penstock.connector.spark.source.frame import read_scan_frame
from tests.connector.kafka.tables import kafka_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka_server import KafkaServer

COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING"}
CHANGES = [
    {"op": "c", "before": None, "after": {"id": 1, "name": "a"}},
    {"op": "u", "before": {"id": 1, "name": "a"}, "after": {"id": 1, "name": "b"}},
    {"op": "d", "before": {"id": 1, "name": "b"}, "after": None},
]
ROWS = [
    (1, "a", RowKind.INSERT),
    (1, "a", RowKind.UPDATE_BEFORE),
    (1, "b", RowKind.UPDATE_AFTER),
    (1, "b", RowKind.DELETE),
]


def test_a_frame_of_changes_has_their_kinds(
    spark: SparkSession, kafka: KafkaServer, topic, tmp_path: Path
) -> None:
    """A debezium table read once and as a stream: four rows of three changes, with kinds that Spark can compare."""
    name = topic()
    kafka.produce(name, [*map(json.dumps, CHANGES), None])
    table = kafka_table(
        {
            "properties.bootstrap.servers": kafka.bootstrap,
            "topic": name,
            "format": "debezium-json",
            "scan.bounded.mode": "latest-offset",
        },
        columns=COLUMNS,
        key=("id",),
    )
    scan = Scan(
        table=table,
        columns=("id", "name", ROW_KIND),
        rowtime=None,
        time_zone="UTC",
        project=str(tmp_path),
    )
    frames = {
        streaming: read_scan_frame(
            spark,
            scan,
            view=f"changes_{streaming}",
            workdir=tmp_path,
            streaming=streaming,
            computed={},
        ).frame
        for streaming in (False, True)
    }
    stream = frames[True].writeStream.format("memory").queryName("changes_seen")
    stream.trigger(availableNow=True).start().awaitTermination()

    assert frames[False].schema[ROW_KIND].dataType.simpleString() == "tinyint"
    assert [tuple(row) for row in frames[False].collect()] == ROWS
    assert [tuple(row) for row in spark.table("changes_seen").collect()] == ROWS
    assert frames[False].filter(f"{ROW_KIND} <> 1").count() == 3
