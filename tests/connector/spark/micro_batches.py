"""Micro-batches that tests hand to sinks, as a query would with a checkpoint of its own."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

from penstock.connector.contract import MicroBatch

QUERY = "0b5e0a4e-4f8e-4f7c-9d0e-111111111111"


def micro_batch(
    spark: SparkSession,
    checkpoint: Path,
    batch_id: int,
    *,
    offsets: str = "",
    sink: str = "",
    query: str = QUERY,
) -> MicroBatch:
    """A batch whose `offsets` are in the checkpoint; the same again where it is replayed."""
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    # Renamed into place, as Spark does: two runners of one batch write and read it at the same time.
    unfinished = folder / f".{batch_id}.{uuid4().hex}.tmp"
    unfinished.write_text(offsets or f"to {batch_id}", encoding="utf-8")
    unfinished.replace(folder / str(batch_id))
    return MicroBatch(
        spark=spark, checkpoint=str(checkpoint), query_id=query, batch_id=batch_id, sink=sink
    )
