"""Which files are the state of keyed operators as of a batch: one manifest a batch, in the checkpoint.

A file belongs to the state when a manifest names it, and not before: what an attempt left behind that did not come to
its manifest is not read. The driver writes the manifest of a batch when the sink has the batch, and before Spark
commits it; so the batch that Spark runs next finds the one before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from penstock.catalog.errors import StateMismatchError
from penstock.sql.checkpoint.fingerprint import START_OVER_HINTS
from penstock.sql.checkpoint.reader import CheckpointFiles

VERSION = 1
"""Version of the format of manifests and state files."""

FOLDER, MANIFESTS = "keyed", "manifests"
"""The folder of keyed state in a checkpoint, and that of manifests in it."""

MOST_FILES = 16
"""Files of a bucket from which on some are merged; parts of one merge count as one."""

_NEWEST = 2
"""The newest files are never merged: caches stand on them."""

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
    """A Parquet file of the changes of the batches `first` to `last`, inclusive, with its size in bytes.

    `ends` is the last time by which one of its rows ends, in microseconds since the epoch; None: rows do not end.
    """

    name: str
    first: int
    last: int
    rows: int
    bytes: int
    ends: int | None = None

    def to_values(self) -> list[str | int]:
        """Return what a manifest has of it."""
        values: list[str | int] = [self.name, self.first, self.last, self.rows, self.bytes]
        return values if self.ends is None else [*values, self.ends]


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

    def without_ended(self, ended: Mapping[tuple[str, str], int]) -> StateManifest:
        """Return the state without files whose rows have all ended, up to a time by stage and input."""
        files = {
            bucket: replace(of, files=tuple(file for file in of.files if not _is_over(file, until)))
            if (until := ended.get((bucket.stage, bucket.input))) is not None
            else of
            for bucket, of in self.files.items()
        }
        return replace(self, files=files)

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
                "files": [file.to_values() for file in of.files],
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
    name, first, last, rows, size, *ends = found
    (end,) = ends or (None,)
    return StateFile(
        name=str(name),
        first=int(first),
        last=int(last),
        rows=int(rows),
        bytes=int(size),
        ends=None if end is None else int(end),
    )


def _is_over(file: StateFile, until: int) -> bool:
    return file.ends is not None and file.ends <= until


def read_manifest(text: str, path: str) -> StateManifest:
    """Read the text of a manifest. Raises StateMismatchError for one that cannot be read, or of another version."""
    try:
        value = json.loads(text)
        version = value["version"]
        if version == VERSION:
            return StateManifest.from_value(value)
    except (ValueError, KeyError, TypeError) as error:
        raise damaged_state(path, "is damaged") from error
    which = "a newer" if isinstance(version, int) and version > VERSION else "another"
    raise StateMismatchError(
        f"{path} was written by {which} version of Penstock: it has state of the format {version!r}, this one reads "
        f"the format {VERSION}",
        hint="run that version; or " + "; or ".join(START_OVER_HINTS),
    )


def batch_of_manifest(name: str) -> int | None:
    """Return the batch of a manifest by the name of its file; None for other files."""
    stem, _, end = name.partition(".")
    return int(stem) if end == "json" and stem.isdecimal() else None


def newest_manifest(files: CheckpointFiles) -> StateManifest | None:
    """Read the newest manifest of a checkpoint; None where there is none. Raises StateMismatchError."""
    folder = f"{FOLDER}/{MANIFESTS}"
    batches = [batch_of_manifest(name) for name in files.names(folder)]
    newest = max((batch for batch in batches if batch is not None), default=None)
    if newest is None:
        return None
    path = f"{folder}/{newest}.json"
    return read_manifest(files.text(path) or "", f"{files.location}/{path}")


def damaged_state(path: str, why: str) -> StateMismatchError:
    """Make the error for a file of the state that is not as it was written."""
    return StateMismatchError(
        f"the state of a query is damaged: {path} {why}",
        hint="restore the file from a copy of the checkpoint; or " + "; or ".join(START_OVER_HINTS),
    )


# --- sizes, for people ---


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStateSize:
    """What is kept of an input of a stage as of a batch; rows and bytes of files, and files of the bucket with most."""

    stage: str
    input: str
    batch_id: int
    buckets: int
    rows: int
    largest_bucket: int
    bytes: int
    files: int
    most_files: int


def merges_of(files: tuple[StateFile, ...]) -> list[tuple[StateFile, ...]]:
    """Group files that were written by one batch or one merge, in order."""
    return [tuple(parts) for _, parts in groupby(files, key=lambda file: (file.first, file.last))]


def files_to_merge(files: tuple[StateFile, ...]) -> tuple[StateFile, ...]:
    """Return the consecutive files that are worth merging; none where there are few.

    From the newest backwards, for as long as what one merge wrote has at most twice the rows of all behind it.
    """
    merges = merges_of(files)
    settled = merges[:-_NEWEST]
    if len(merges) < MOST_FILES:
        return ()
    rows, start = 0, len(settled)
    while start:
        more = sum(file.rows for file in settled[start - 1])
        if start < len(settled) and more > 2 * rows:
            break
        start, rows = start - 1, rows + more
    run = settled[start:]
    return tuple(file for parts in run for file in parts) if len(run) > 1 else ()


def most_files(manifest: StateManifest) -> int:
    """Return the number of files of the bucket that has most."""
    return max((len(of.files) for of in manifest.files.values()), default=0)


def state_sizes(manifest: StateManifest) -> list[OperatorStateSize]:
    """Return the sizes of all states, in the order of their names."""
    names = sorted({(bucket.stage, bucket.input) for bucket in manifest.files})
    found = []
    for stage, name in names:
        own = [of for b, of in manifest.files.items() if (b.stage, b.input) == (stage, name)]
        found.append(
            OperatorStateSize(
                stage=stage,
                input=name,
                batch_id=manifest.batch_id,
                buckets=sum(1 for of in own if of.rows),
                rows=sum(of.rows for of in own),
                largest_bucket=max(of.rows for of in own),
                bytes=sum(of.bytes for of in own),
                files=sum(len(of.files) for of in own),
                most_files=max(len(of.files) for of in own),
            )
        )
    return found
