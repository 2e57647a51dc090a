"""A query's checkpoint directory on any Hadoop file system, and the query shape kept there beside Spark's files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

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
    text = _read(spark, f"{location}/{SHAPE_FILE}")
    if text is not None:
        check_fits(QueryShape.from_text(text), shape, location)


def record_shape(spark: SparkSession, location: str, shape: QueryShape) -> None:
    """Keep the shape in the checkpoint; what is there stays."""
    if _read(spark, f"{location}/{SHAPE_FILE}") is None:
        _write(spark, f"{location}/{SHAPE_FILE}", shape.to_text())


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)


def _file(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm = spark._jvm  # noqa: SLF001  PySpark has no public door to Hadoop's file systems
    assert jvm is not None, "checkpoints need a classic Spark session"
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    return hadoop_path.getFileSystem(conf), hadoop_path


def _read(spark: SparkSession, path: str) -> str | None:
    system, file = _file(spark, path)
    if not system.exists(file):
        return None
    stream = system.open(file)
    try:
        return bytes(stream.readAllBytes()).decode("utf-8")
    finally:
        stream.close()


def _write(spark: SparkSession, path: str, text: str) -> None:
    system, file = _file(spark, path)
    temporary = file.suffix(".tmp")
    stream = system.create(temporary, True)
    try:
        stream.write(bytearray(text.encode("utf-8")))
    finally:
        stream.close()
    system.rename(temporary, file)
