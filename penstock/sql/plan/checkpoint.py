"""A query's checkpoint directory on any Hadoop file system, and the query shape kept there beside Spark's files."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.connector.spark.hadoop_files import read_text, write_text
from penstock.sql.plan.shape import QueryShape, check_fits

__all__ = ["check_checkpoint", "checkpoint_location", "record_shape"]

SHAPE_FILE = "penstock-query.json"
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")


def checkpoint_location(base: str, project: Path, pipeline: str, sink: str) -> str:
    """Give `<base>/<pipeline>/<sink>`; a base without a scheme is relative to the project."""
    root = base if _URL.match(base) else str(project / base)
    return f"{root.rstrip('/')}/{_safe(pipeline)}/{_safe(sink)}"


def check_checkpoint(spark: SparkSession, location: str, shape: QueryShape) -> None:
    """Check that an existing checkpoint is of a query of this shape. Raises StateMismatchError."""
    text = read_text(spark, f"{location}/{SHAPE_FILE}")
    if text is not None:
        check_fits(QueryShape.from_text(text), shape, location)


def record_shape(spark: SparkSession, location: str, shape: QueryShape) -> None:
    """Keep the shape in the checkpoint; what is there stays."""
    if read_text(spark, f"{location}/{SHAPE_FILE}") is None:
        write_text(spark, f"{location}/{SHAPE_FILE}", shape.to_text())


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
