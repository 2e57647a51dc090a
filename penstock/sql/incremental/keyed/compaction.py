# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""Merges files of keyed state beside the batches, and removes what no manifest names any more.

Size-tiered: files of a like size become one, so that each row is written a logarithmic number of times. A merge is
made valid by the manifest of a later batch, in which it stands for the files that it was made of. Nothing here is
needed for a right answer: a merge that fails, or is lost with the process, leaves the files as they were.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Condition, Thread

import duckdb
import pyarrow as pa

from penstock.sql.incremental.keyed.bucket_state import folded_rows
from penstock.sql.incremental.keyed.manifest import (
    RETAINED,
    BucketFiles,
    BucketId,
    StateFile,
    StateManifest,
)
from penstock.sql.incremental.keyed.manifest_folder import Manifests
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.state_files import StateFiles
from penstock.sql.incremental.keyed.tables import positional

log = logging.getLogger(__name__)

MOST_FILES = 16
"""Files of a bucket from which on some are merged."""

OVERDUE_FILES = 2 * MOST_FILES
"""Files that are merged on the batch's path: of runs of few batches none lives to see the end of a merge beside it."""

_NEWEST = 2
"""The newest files are never merged: caches stand on them."""

_PART_ROWS = 2_000_000
"""Rows of a file; as many are in memory at once."""

_ORPHAN_BATCHES = 10
"""Batches after which files are removed that were there when the run began, and that no manifest names."""

_IDLE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMerge:
    """Files that stand for others of a bucket. `dropped`: the file of a database with rows that have expired.

    They are put back where later files name their keys, as these count on them.
    """

    bucket: BucketId
    replaced: tuple[StateFile, ...]
    files: tuple[StateFile, ...]
    dropped: Path | None = None


def files_to_merge(files: tuple[StateFile, ...], most: int = MOST_FILES) -> tuple[StateFile, ...]:
    """Return the consecutive files that are worth merging; none where there are few.

    From the newest backwards, for as long as a file has at most twice the rows of those behind it.
    """
    settled = files[:-_NEWEST]
    if len(files) < most:
        return ()
    rows, start = 0, len(settled)
    while start and (start == len(settled) or settled[start - 1].rows <= 2 * rows):
        start -= 1
        rows += settled[start].rows
    run = settled[start:]
    return run if len(run) > 1 else ()


class StateCompaction:
    """The compaction of one run's state. `taken` and `consider` are called by the thread of the batch."""

    def __init__(
        self,
        files: StateFiles,
        manifests: Manifests,
        layouts: Mapping[tuple[str, str], KeyedLayout],
    ) -> None:
        self._files = files
        self._manifests = manifests
        self._layouts = layouts
        self._work = Condition()
        self._due: tuple[StateManifest, int] | None = None
        self._thread: Thread | None = None
        self._merged: list[FileMerge] = []
        self._known: list[StateManifest] = []
        self._orphans: frozenset[tuple[BucketId, str]] | None = None
        self._batches = 0
        self._stopped = False
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-merge-")
        self.failures = 0
        """Merges and removals that failed."""

    # --- the thread of the batch ---

    def taken(self, manifest: StateManifest, now_ms: int) -> StateManifest:
        """Return the manifest with the merges that are done. Their files stand for those they were made of."""
        if not self._batches:
            self._merge_overdue(manifest, now_ms)
        with self._work:
            merged, self._merged = self._merged, []
        files = dict(manifest.files)
        for merge in merged:
            with self._reporting("merge"):
                found = self._applied(files.get(merge.bucket, BucketFiles()), merge)
                if found is not None:
                    files[merge.bucket] = found
        return replace(manifest, files=files)

    def consider(self, manifest: StateManifest, now_ms: int) -> None:
        """Have done what is due after a batch, whose manifest is written."""
        self._batches += 1
        with self._work:
            if self._stopped:
                return
            self._due = (manifest, now_ms)
            self._work.notify_all()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="penstock state", daemon=True)
                self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is left to do; False where something is."""
        with self._work:
            return self._work.wait_for(lambda: self._due is None, seconds)

    def _merge_overdue(self, manifest: StateManifest, now_ms: int) -> None:
        for bucket, of in manifest.files.items():
            if len(of.files) >= OVERDUE_FILES:
                with self._reporting("merge"):
                    self._merge(bucket, of, now_ms)

    def _applied(self, of: BucketFiles, merge: FileMerge) -> BucketFiles | None:
        """Return the files of a bucket with a merge; None where its files are not there as they were."""
        names = [file.name for file in of.files]
        first = merge.replaced[0].name
        start = names.index(first) if first in names else -1
        end = start + len(merge.replaced)
        if start < 0 or of.files[start:end] != merge.replaced:
            return None
        revived: tuple[StateFile, ...] = ()
        if merge.dropped is not None:
            revived = self._revived(merge, of.files[end:])
        files = (*of.files[:start], *merge.files, *revived, *of.files[end:])
        return BucketFiles(files=files, epoch=of.epoch + (merge.dropped is not None))

    def _revived(self, merge: FileMerge, later: tuple[StateFile, ...]) -> tuple[StateFile, ...]:
        """Write the dropped rows whose keys later files name."""
        layout = self._layout(merge.bucket)
        assert merge.dropped is not None, "asked for"
        with _database(merge.dropped) as tables:
            _create(tables, "later", layout)
            for file in later:
                _fill(tables, "later", self._files.read(merge.bucket, file, positional(layout)))
            same = " AND ".join(
                f"dropped.c{n} IS NOT DISTINCT FROM later.c{n}"
                for n in (layout.names.index(name) for name in layout.key)
            )
            rows = tables.sql(
                f"SELECT * FROM dropped WHERE EXISTS (SELECT 1 FROM later WHERE {same or 'TRUE'}) ORDER BY ALL"
            ).to_arrow_table()
        merge.dropped.unlink(missing_ok=True)
        if not rows.num_rows:
            return ()
        return (self._write(merge, rows, layout),)

    # --- the thread beside ---

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(lambda: self._due is not None, _IDLE_S)
                due = self._due
                if due is None:
                    self._thread = None
                    return
            manifest, now_ms = due
            for bucket, of in manifest.files.items():
                with self._reporting("merge"):
                    self._merge(bucket, of, now_ms)
            with self._reporting("removal"):
                self._remove(manifest)
            with self._work:
                if self._due is due:
                    self._due = None
                    self._work.notify_all()

    def _merge(self, bucket: BucketId, of: BucketFiles, now_ms: int) -> None:
        run = files_to_merge(of.files)
        with self._work:
            waiting = any(merge.bucket == bucket for merge in self._merged)
        if not run or waiting:
            return
        layout = self._layout(bucket)
        database = Path(self._folder.name) / f"{abs(hash((bucket, run[-1].name)))}.duckdb"
        database.unlink(missing_ok=True)
        with _database(database) as tables:
            _create(tables, "rows", layout)
            for file in run:
                _fill(tables, "rows", self._files.read(bucket, file, positional(layout)))
            dropped = _fold(tables, layout, now_ms, whole=run[0] == of.files[0])
            tables.execute("DROP TABLE rows")
            merge = FileMerge(bucket=bucket, replaced=run, files=())
            parts = tables.sql("SELECT * FROM folded ORDER BY ALL").to_arrow_reader(_PART_ROWS)
            files = tuple(
                self._write(merge, pa.Table.from_batches([part]), layout) for part in parts
            )
        if not dropped:
            database.unlink(missing_ok=True)
        with self._work:
            self._merged.append(replace(merge, files=files, dropped=database if dropped else None))

    def _write(self, merge: FileMerge, rows: pa.Table, layout: KeyedLayout) -> StateFile:
        first, last = merge.replaced[0].first, merge.replaced[-1].last
        typed = rows.cast(positional(layout))
        return self._files.write(merge.bucket, first, last, typed)

    def _layout(self, bucket: BucketId) -> KeyedLayout:
        return self._layouts[bucket.stage, bucket.input]

    # --- removal ---

    def _remove(self, manifest: StateManifest) -> None:
        """Remove manifests that no replay needs, and files that only those name."""
        batches = self._manifests.batches()
        if not batches or batches[-1] != manifest.batch_id:
            # a successor goes on from here: what is there is not ours to remove
            self._stopped = bool(batches) and batches[-1] > manifest.batch_id
            return
        oldest = manifest.batch_id - RETAINED + 1
        if self._orphans is None:
            before = [self._manifests.read(batch_id) for batch_id in batches[:-1]]
            self._known = [known for known in before if known is not None]
            self._orphans = self._unnamed(manifest)
        self._known.append(manifest)
        old = [known for known in self._known if known.batch_id < oldest]
        self._known = [known for known in self._known if known.batch_id >= oldest]
        needed = {name for known in self._known for name in known.names}
        unused = {name for known in old for name in known.names} - needed
        if self._orphans and self._batches >= _ORPHAN_BATCHES:
            unused |= self._orphans - needed
            self._orphans = frozenset()
        for batch_id in batches:
            if batch_id < oldest:
                self._manifests.forget(batch_id)
        with self._work:
            waiting = {(m.bucket, f.name) for m in self._merged for f in m.files}
        for bucket, name in sorted(unused - waiting):
            self._files.delete(bucket, name)

    def _unnamed(self, manifest: StateManifest) -> frozenset[tuple[BucketId, str]]:
        """Return the files that no manifest names as the run begins: of attempts that failed."""
        named = {name for known in (*self._known, manifest) for name in known.names}
        there = {
            (bucket, name)
            for bucket in manifest.files
            for name in self._files.names(bucket)
            if _last_batch(name) < manifest.batch_id
        }
        return frozenset(there - named)

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        """Tell and count an error: it is none of the query."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the state is as it was
            self.failures += 1
            log.warning("%s of files of keyed state failed: %s", what, error)


def _last_batch(name: str) -> int:
    """Return the last batch of a file, by its name; of other files more than any."""
    parts = name.split("-")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else 2**62


# --- tables ---


@contextmanager
def _database(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": "512MB",
        "temp_directory": f"{path}.tmp",
    }
    connection = duckdb.connect(str(path), config=config)
    try:
        yield connection
    finally:
        connection.close()


def _create(tables: duckdb.DuckDBPyConnection, name: str, layout: KeyedLayout) -> None:
    tables.register("nothing", positional(layout).empty_table())
    tables.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM nothing")
    tables.unregister("nothing")


def _fill(tables: duckdb.DuckDBPyConnection, name: str, parts: Iterator[pa.Table]) -> None:
    for part in parts:
        tables.register("more", part)
        tables.execute(f"INSERT INTO {name} SELECT * FROM more")
        tables.unregister("more")


def _fold(
    tables: duckdb.DuckDBPyConnection, layout: KeyedLayout, now_ms: int, *, whole: bool
) -> bool:
    """Make the table `folded` of the rows added up; returns whether some that expired are in `dropped` instead.

    `whole`: there is nothing before them, so that rows of the count 0 are gone.
    """
    tables.execute(f"CREATE TABLE folded AS {folded_rows(layout, 'rows', whole=whole)}")
    if not (whole and layout.time_to_live_ms):
        return False
    expired = f"c{len(layout.schema) - 1} <= {now_ms - layout.time_to_live_ms}"
    tables.execute(f"CREATE TABLE dropped AS SELECT * FROM folded WHERE {expired}")
    tables.execute(f"DELETE FROM folded WHERE {expired}")
    ((rows,),) = tables.execute("SELECT COUNT(*) FROM dropped").fetchall()
    return bool(rows)
