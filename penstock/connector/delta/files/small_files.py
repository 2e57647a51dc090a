"""The small files of a Delta table, known by its log, and which of them are put together next. No engine, no clock.

`compaction.py` asks it behind the batches of a query. What is known is of one version of the table, and follows the
log from there: a look reads the commits that came since the look before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc
from pyarrow import parquet

from penstock.connector.delta.files.deletion_vector import Descriptor
from penstock.connector.delta.files.live_files import LOG
from penstock.connector.storage import Folder

MOST_KNOWN = 100_000
"""Files that are held in memory, some 300 bytes each; of a table with more small files the oldest wait for OPTIMIZE."""
MOST_FILES = 1_000
"""Files that one compaction puts together: it ends within seconds."""

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_COMMIT = re.compile(r"(\d{20})\.json")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_LARGER = 2
"""A file that is larger than so many times all that are taken before it is not written again for their sake."""


class LogGapError(Exception):
    """The log lacks a commit that is needed to know which files a table has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFile:
    """A file of a table. `path` and `partition` are as the log has them; `deleted_share`: of its rows, by `vector`."""

    path: str
    size_bytes: int
    partition: Mapping[str, str | None]
    vector: Descriptor | None = None
    deleted_share: float = 0.0

    @property
    def live_bytes(self) -> int:
        """What its rows that are of the table take."""
        return round(self.size_bytes * (1 - self.deleted_share))

    @property
    def group(self) -> tuple[tuple[str, str | None], ...]:
        """What files have in common that may become one."""
        return tuple(sorted(self.partition.items()))

    def removed(self, at_ms: int) -> dict[str, Any]:
        """Return the action of the log that removes it, without a change of rows."""
        action = {
            "path": self.path,
            "deletionTimestamp": at_ms,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": dict(self.partition),
            "size": self.size_bytes,
        }
        return action if self.vector is None else {**action, "deletionVector": dict(self.vector)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """When files are put together: `enough` files below `small_bytes` in a partition, into ones of `file_bytes`."""

    enough: int = 50
    small_bytes: int = 64 << 20
    file_bytes: int = 128 << 20


@dataclass(slots=True, kw_only=True)
class SmallFiles:
    """The small files of one table. One thread.

    Files of a checkpoint in parts, or with sidecars, are not known: they wait for OPTIMIZE.
    """

    limits: CompactionLimits
    _version: int = field(default=-1, init=False)
    _files: dict[str, SmallFile] = field(default_factory=dict, init=False)

    def follow(self, table: Folder, version: int) -> None:
        """Read the log up to a version. Raises LogGapError, OSError and what the forms of its files raise."""
        log = table.below(LOG)
        if self._version > version:
            self._version, self._files = -1, {}
        if self._version < 0 or not self._advance(log, version):
            self._begin(log, version)
            if not self._advance(log, version):
                raise LogGapError(f"commit {self._version + 1} is missing")

    def due(self) -> list[SmallFile]:
        """Return the files that are to become one, at least two of one partition, in the order they came in."""
        groups: dict[tuple[tuple[str, str | None], ...], list[SmallFile]] = {}
        for file in self._files.values():
            groups.setdefault(file.group, []).append(file)
        for files in groups.values():
            if len(files) >= self.limits.enough:
                chosen = choose(files, self.limits)
                if len(chosen) > 1:
                    return chosen
        return []

    def pass_over(self, files: Sequence[SmallFile]) -> None:
        """Forget files that cannot be put together."""
        for file in files:
            self._files.pop(file.path, None)

    def _begin(self, log: Folder, version: int) -> None:
        """Begin at the last whole checkpoint up to a version; without one at the first commit there is."""
        names = log.names()
        checkpoints = [int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))]
        start = max((one for one in checkpoints if one <= version), default=None)
        self._files = {}
        if start is None:
            commits = [int(found[1]) for name in names if (found := _COMMIT.fullmatch(name))]
            self._version = min(commits, default=0) - 1
            return
        for file in _of_checkpoint(log, f"{start:020}.checkpoint.parquet", self.limits.small_bytes):
            self._know(file)
        self._version = start

    def _advance(self, log: Folder, version: int) -> bool:
        while self._version < version:
            text = log.text(f"{self._version + 1:020}.json")
            if text is None:
                return False
            self._apply(text)
            self._version += 1
        return True

    def _apply(self, commit: str) -> None:
        added = []
        for line in commit.split("\n"):
            if '"add"' not in line and '"remove"' not in line:
                continue
            action = json.loads(line)
            if (gone := action.get("remove") or action.get("add")) is not None:
                # added again: with a deletion vector, or with other statistics
                self._files.pop(gone["path"], None)
            if action.get("add") is not None:
                added.append(action["add"])
        for add in added:
            file = _small_file(add, self.limits.small_bytes)
            if file is not None:
                self._know(file)

    def _know(self, file: SmallFile) -> None:
        """Add a file; those of partitions that nobody writes any more are to leave room for it."""
        if len(self._files) >= MOST_KNOWN:
            del self._files[next(iter(self._files))]
        self._files[file.path] = file


def choose(files: Sequence[SmallFile], limits: CompactionLimits) -> list[SmallFile]:
    """Choose those of a partition that become one file: the smallest half, and what is not much larger than these.

    So each row is written again a number of times that grows with the logarithm of the file's size.
    """
    chosen: set[str] = set()
    total = 0
    for file in sorted(files, key=lambda one: one.live_bytes):
        beyond = len(chosen) >= limits.enough // 2 and file.live_bytes > _LARGER * total
        full = chosen and total + file.live_bytes > limits.file_bytes
        if beyond or full or len(chosen) >= MOST_FILES:
            break
        chosen.add(file.path)
        total += file.live_bytes
    return [file for file in files if file.path in chosen]


def _small_file(add: Mapping[str, Any], small_bytes: int) -> SmallFile | None:
    """Read an `add`; None for a file that stays as it is, or that lies elsewhere (a clone's)."""
    if add.get("clusteringProvider") or _ABSOLUTE.match(add["path"]):
        return None
    vector = add.get("deletionVector")
    found = SmallFile(
        path=add["path"],
        size_bytes=int(add["size"]),
        partition=dict(add.get("partitionValues") or {}),
        vector=None if vector is None else {k: v for k, v in vector.items() if v is not None},
        deleted_share=0.0 if vector is None else _share(vector, add.get("stats")),
    )
    return found if found.live_bytes < small_bytes else None


def _share(vector: Descriptor, stats: str | None) -> float:
    """Return how much of a file is deleted; nothing where the log does not say how many rows there are."""
    rows = json.loads(stats or "{}").get("numRecords")
    return min(1.0, int(vector["cardinality"]) / int(rows)) if rows else 0.0


def _of_checkpoint(log: Folder, name: str, small_bytes: int) -> Iterator[SmallFile]:
    with parquet.ParquetFile(log.system.open_input_file(f"{log.path}/{name}")) as file:
        kind = file.schema_arrow.field("add").type
        there = {part.name for part in kind}
        odd = there & {"deletionVector", "clusteringProvider", "stats"}
        wanted = [f"add.{part}" for part in ("path", "size", "partitionValues", *sorted(odd))]
        for batch in file.iter_batches(columns=wanted):
            adds = batch.column("add").drop_null()
            small = pc.less(pc.struct_field(adds, "size"), small_bytes)
            if "deletionVector" in odd:
                # of a large file most rows may be gone
                small = pc.or_(small, pc.is_valid(pc.struct_field(adds, "deletionVector")))
            small = adds.filter(small)
            for add in small.to_pylist():
                found = _small_file(add, small_bytes)
                if found is not None:
                    yield found
