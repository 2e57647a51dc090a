"""Which files are the state of keyed operators as of a batch: one manifest a batch, in the checkpoint.

A file belongs to the state when a manifest names it, and not before: what an attempt left behind that did not come to
its manifest is not read. The driver writes the manifest of a batch when the sink has the batch, and before Spark
commits it; so the batch that Spark runs next finds the one before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from penstock.catalog.errors import StateMismatchError
from penstock.connector.spark.hadoop_files import delete, list_names, read_text, replace_text
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS

VERSION = 1
"""Version of the format of manifests and state files."""

RETAINED = 3
"""Manifests that stay: of the last batch, of the one that is run again after a failure, and one more."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BucketId:
    """One bucket of the state of an input of a stage."""

    stage: str
    input: str
    bucket: int

    @property
    def folder(self) -> str:
        """The folder of its files, below that of the state."""
        return f"{self.stage}-{self.input}/{self.bucket}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A Parquet file of the changes of the batches `first` to `last`, inclusive, with its size in bytes."""

    name: str
    first: int
    last: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The files of a bucket in order. `epoch` grows each time that expired rows are left out of files."""

    files: tuple[StateFile, ...] = ()
    epoch: int = 0

    @property
    def rows(self) -> int:
        """Rows of all files: more than the rows of the state, as a row may be in several."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateManifest:
    """The state as of a batch. `state_id` is the state's own, `buckets` the number of them for stages with a key."""

    state_id: str
    buckets: int
    batch_id: int
    files: Mapping[BucketId, BucketFiles] = field(default_factory=dict)

    def with_batch(self, batch_id: int, written: Mapping[BucketId, StateFile]) -> StateManifest:
        """Return the state with the files that a batch has written."""
        files = dict(self.files)
        for bucket, file in written.items():
            before = files.get(bucket, BucketFiles())
            files[bucket] = replace(before, files=(*before.files, file))
        return replace(self, batch_id=batch_id, files=files)

    @property
    def names(self) -> frozenset[tuple[BucketId, str]]:
        """All files."""
        return frozenset(
            (bucket, file.name) for bucket, of in self.files.items() for file in of.files
        )

    def to_text(self) -> str:
        """Write it as JSON."""
        buckets = [
            {
                "stage": bucket.stage,
                "input": bucket.input,
                "bucket": bucket.bucket,
                "epoch": of.epoch,
                "files": [[f.name, f.first, f.last, f.rows, f.bytes] for f in of.files],
            }
            for bucket, of in sorted(self.files.items())
        ]
        value = {
            "version": VERSION,
            "state": self.state_id,
            "buckets": self.buckets,
            "batch": self.batch_id,
            "files": buckets,
        }
        return json.dumps(value)

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> StateManifest:
        """Read the JSON that `to_text` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        files = {
            BucketId(
                stage=one["stage"], input=one["input"], bucket=int(one["bucket"])
            ): BucketFiles(
                files=tuple(_file(found) for found in one["files"]), epoch=int(one["epoch"])
            )
            for one in value["files"]
        }
        return cls(
            state_id=str(value["state"]),
            buckets=int(value["buckets"]),
            batch_id=int(value["batch"]),
            files=files,
        )


def _file(found: Sequence[Any]) -> StateFile:
    name, first, last, rows, size = found
    return StateFile(
        name=str(name), first=int(first), last=int(last), rows=int(rows), bytes=int(size)
    )


class Manifests:
    """The manifests of a folder of state. For the driver's thread."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder

    def read(self, batch_id: int) -> StateManifest | None:
        """Read that of a batch; None where there is none. Raises StateMismatchError for one that cannot be read."""
        text = read_text(self._spark, self._path(batch_id))
        if text is None:
            return None
        try:
            value = json.loads(text)
            if value["version"] != VERSION:
                raise StateMismatchError(
                    f"{self._path(batch_id)} was written by another version of Penstock (state {value['version']!r})",
                    hint="run that version; or " + "; or ".join(START_OVER_HINTS),
                )
            return StateManifest.from_value(value)
        except (ValueError, KeyError, TypeError) as error:
            raise damaged_state(self._path(batch_id), "is damaged") from error

    def write(self, manifest: StateManifest) -> None:
        """Write a manifest, whole or not at all; it replaces the same of an earlier attempt."""
        replace_text(self._spark, self._path(manifest.batch_id), manifest.to_text())

    def forget(self, batch_id: int) -> None:
        """Remove a manifest."""
        delete(self._spark, self._path(batch_id))

    def batches(self) -> Sequence[int]:
        """List the batches that have one."""
        names = (
            name.partition(".") for name in list_names(self._spark, f"{self._folder}/{_MANIFESTS}")
        )
        return sorted(int(stem) for stem, _, end in names if end == "json" and stem.isdecimal())

    def _path(self, batch_id: int) -> str:
        return f"{self._folder}/{_MANIFESTS}/{batch_id}.json"


_MANIFESTS = "manifests"


def damaged_state(path: str, why: str) -> StateMismatchError:
    """Make the error for a file of the state that is not as it was written."""
    return StateMismatchError(
        f"the state of a query is damaged: {path} {why}",
        hint="restore the file from a copy of the checkpoint; or " + "; or ".join(START_OVER_HINTS),
    )
