"""Which folders of an arrangement hold its state: `batch=<id>` for each micro-batch, `base=<id>` for all up to one.

A folder counts when its list of files is there, which is written last. Spark starts a batch only when the one before
is committed, so the state before batch N is the newest base below N and every batch from there to N - 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError
from penstock.connector.spark.hadoop_files import (
    delete,
    list_files,
    list_names,
    read_text,
    replace_text,
)
from penstock.sql.plan.shape import ANEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FILES", "MOST_BATCHES", "Folders", "StateFolders"]

FILES = "_files.json"
"""The files of a folder with their sizes in bytes. Spark's reader passes over names that begin with `_`."""

MOST_BATCHES = 16
"""Batches with rows since the base from which on they are put together; twice as many beside a base that is large."""
_MOST_EMPTY = 256
"""Batches in all; those without rows cost a folder that is listed at a start."""
_LARGE_BYTES = 16 * 1024 * 1024
"""A base that takes longer to write than a few more folders to read."""

_BATCH, _BASE = "batch=", "base="


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The state before a batch: paths of the folders that have rows, in bytes what the base and the batches hold."""

    base: int | None
    paths: tuple[str, ...]
    base_bytes: int
    batch_bytes: int
    batches: int
    empty: int

    @property
    def to_consolidate(self) -> bool:
        """Whether reading one folder in the place of these is worth writing it."""
        if self.batches >= 2 * MOST_BATCHES or self.batches + self.empty >= _MOST_EMPTY:
            return True
        if self.batches >= MOST_BATCHES:
            return self.base_bytes < max(_LARGE_BYTES, 4 * self.batch_bytes)
        # of small ones the number counts: a folder costs about the same however few rows it holds
        return self.batches >= MOST_BATCHES // 2 and self.batch_bytes > self.base_bytes


class StateFolders:
    """The folders of one arrangement; what was listed is remembered between batches. For the driver's thread."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        self._whole: dict[str, int] = {}
        self._names: set[str] = set()

    def batch(self, batch_id: int) -> str:
        """Give the path of a batch's folder."""
        return f"{self._path}/{_BATCH}{batch_id}"

    def base(self, batch_id: int) -> str:
        """Give the path of the base that holds every batch up to `batch_id`, inclusive."""
        return f"{self._path}/{_BASE}{batch_id}"

    def begin(self, path: str) -> None:
        """Remove what a folder holds, which is about to be written."""
        name = path.rpartition("/")[2]
        self._whole.pop(name, None)
        if name in self._names:
            delete(self._spark, path)

    def finish(self, path: str, *, empty: bool = False) -> None:
        """Declare a folder whole."""
        files = {} if empty else _data(list_files(self._spark, path))
        replace_text(self._spark, f"{path}/{FILES}", json.dumps(files))
        name = path.rpartition("/")[2]
        self._whole[name] = sum(files.values())
        self._names.add(name)

    def before(self, batch_id: int) -> Folders:
        """Give the state before a batch. Raises StateMismatchError, naming a folder that is missing or damaged."""
        if batch_id > 0 and f"{_BATCH}{batch_id - 1}" not in self._whole:
            self._look()
        base = max((n for n in _ids(self._whole, _BASE) if n < batch_id), default=None)
        since = range(0 if base is None else base + 1, batch_id)
        for number in since:
            if f"{_BATCH}{number}" not in self._whole:
                raise _damaged(self.batch(number), "is missing, or was not written whole")
        sizes = {self.batch(number): self._whole[f"{_BATCH}{number}"] for number in since}
        base_bytes = 0 if base is None else self._whole[f"{_BASE}{base}"]
        paths = [path for path, size in sizes.items() if size]
        if base is not None and base_bytes:
            paths.insert(0, self.base(base))
        filled = sum(1 for size in sizes.values() if size)
        return Folders(
            base=base,
            paths=tuple(paths),
            base_bytes=base_bytes,
            batch_bytes=sum(sizes.values()),
            batches=filled,
            empty=len(sizes) - filled,
        )

    def clean(self, base: int) -> None:
        """Remove the folders that `base` holds the rows of; called when a batch after it is committed."""
        old = [f"{_BATCH}{n}" for n in _ids(self._names, _BATCH) if n <= base]
        old += [f"{_BASE}{n}" for n in _ids(self._names, _BASE) if n < base]
        for name in old:
            delete(self._spark, f"{self._path}/{name}")
            self._names.discard(name)
            self._whole.pop(name, None)

    def _look(self) -> None:
        """List what is there, as after a restart; folders whose files are not those that were written are damaged."""
        self._names = set(list_names(self._spark, self._path))
        found: dict[str, dict[str, int]] = {name: {} for name in self._names}
        for file, size in list_files(self._spark, self._path).items():
            name, _, inner = file.partition("/")
            found.setdefault(name, {})[inner] = size
        self._whole = {}
        for name, files in found.items():
            if FILES in files and name.startswith((_BATCH, _BASE)):
                self._whole[name] = self._check(f"{self._path}/{name}", _data(files))

    def _check(self, path: str, found: dict[str, int]) -> int:
        """Give the bytes of a folder."""
        text = read_text(self._spark, f"{path}/{FILES}")
        try:
            files = json.loads(text or "")
        except ValueError:
            raise _damaged(f"{path}/{FILES}", "was cut or is not what was written") from None
        for name, size in files.items():
            if found.get(name) != size:
                why = "is missing" if name not in found else f"has {found[name]} bytes of {size}"
                raise _damaged(f"{path}/{name}", why)
        return sum(files.values())


def _ids(names: Iterable[str], prefix: str) -> list[int]:
    found = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return [int(text) for text in found if text.isdecimal()]


def _data(files: dict[str, int]) -> dict[str, int]:
    """Leave out what Spark and file systems keep beside the data."""
    return {name: size for name, size in files.items() if not name.startswith(("_", "."))}


def _damaged(path: str, why: str) -> StateMismatchError:
    return StateMismatchError(
        f"the state of the query is damaged: {path} {why}",
        hint="restore it from a copy of the checkpoint; or " + "; or ".join(ANEW),
    )
