"""Reads and writes the manifests of keyed state by Spark's Hadoop, for the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from penstock.connector.spark.hadoop_files import delete, list_names, read_text, replace_text
from penstock.connector.spark.internals import running_context
from penstock.sql.incremental.keyed.files.manifest import (
    MANIFESTS,
    StateManifest,
    batch_of_manifest,
    read_manifest,
)


class Manifests:
    """The manifests of a folder of state. For the driver's thread."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder

    @property
    def ended(self) -> bool:
        """Whether Spark has stopped, so that nothing can be read or written."""
        context, _ = running_context()
        return context is None or context is not self._spark.sparkContext

    def read(self, batch_id: int) -> StateManifest | None:
        """Read that of a batch; None where there is none. Raises StateMismatchError for one that cannot be read."""
        text = read_text(self._spark, self._path(batch_id))
        if text is None:
            return None
        return read_manifest(text, self._path(batch_id))

    def write(self, manifest: StateManifest) -> None:
        """Write a manifest, whole or not at all; it replaces the same of an earlier attempt."""
        replace_text(self._spark, self._path(manifest.batch_id), manifest.to_text())

    def forget(self, batch_id: int) -> None:
        """Remove a manifest."""
        delete(self._spark, self._path(batch_id))

    def batches(self) -> Sequence[int]:
        """List the batches that have one."""
        names = list_names(self._spark, f"{self._folder}/{MANIFESTS}")
        return sorted(batch for name in names if (batch := batch_of_manifest(name)) is not None)

    def behind(self, batch_id: int) -> Mapping[int, StateManifest | None]:
        """Read those of batches behind one: a checkpoint that lost its newest batches, or is a copy, has them again."""
        return {batch: self.read(batch) for batch in self.batches() if batch > batch_id}

    def _path(self, batch_id: int) -> str:
        return f"{self._folder}/{MANIFESTS}/{batch_id}.json"
