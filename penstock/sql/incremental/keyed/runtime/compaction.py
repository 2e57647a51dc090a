# ruff: noqa: S608  this module writes SQL of positions and names that it gives
"""Merges files of keyed state beside the batches, and removes what no manifest names any more.

Size-tiered: files of a like size become one, so that each row is written a logarithmic number of times. A merge is
made valid by the manifest of a later batch, in which it stands for the files that it was made of. Nothing here is
needed for a right answer: a merge that fails, or is lost with the process, leaves the files as they were.
"""

from __future__ import annotations

import atexit
import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import Condition, Lock, Thread
from uuid import uuid4

import duckdb
import pyarrow as pa

from penstock.connector.failpoints import reach
from penstock.sql.incremental.keyed.files.manifest import (
    MOST_FILES,
    RETAINED,
    BucketFiles,
    BucketId,
    StateFile,
    StateManifest,
    files_to_merge,
    merges_of,
    most_files,
)
from penstock.sql.incremental.keyed.files.manifest_folder import Manifests
from penstock.sql.incremental.keyed.files.spooled_rows import BATCH_ROWS
from penstock.sql.incremental.keyed.files.state_files import StateFiles, last_batch
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.runtime.merged_rows import (
    RowsOfFile,
    create_table,
    fill_table,
    fold_rows,
    in_parts,
    lasting_rows,
    rows_that_last,
)
from penstock.sql.incremental.keyed.tables import positional

log = logging.getLogger(__name__)

OVERDUE_FILES = 2 * MOST_FILES
"""Files that are merged on the batch's path: of runs of few batches none lives to see the end of a merge beside it."""

MOST_BEHIND = 4 * MOST_FILES
"""Files of a bucket with which merges beside have fallen behind: batches merge them, too, and take longer."""

_ORPHAN_BATCHES = 10
"""Batches after which files are removed that were there when the run began, and that no manifest names."""

_RETRY_BATCHES = 10
"""Batches from a merge that failed until that of the same bucket is tried again."""

_IDLE_S = 30.0

_END_WAIT_S = 5.0
"""What the end of the process waits for a merge that is told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMerge:
    """Files that stand for others of a bucket. `dropped`: the file of a database with rows that have expired.

    They are put back where later files name their keys, as these count on them.
    """

    bucket: BucketId
    replaced: tuple[StateFile, ...]
    files: tuple[StateFile, ...] = ()
    dropped: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """What a batch makes due: its manifest, its time, and up to which time rows have ended, by stage and input."""

    manifest: StateManifest
    now_ms: int
    ended: Mapping[tuple[str, str], int]


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
        self._merging = Lock()
        """One merge at a time: memory and disk of it are bounded, and no bucket is merged twice."""
        self._thread: Thread | None = None
        self._due: _Due | None = None
        self._stopped = False
        self._running: duckdb.DuckDBPyConnection | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-merge-")
        self._token = uuid4().hex[:8]
        self._numbers = count()
        self._merged: list[FileMerge] = []
        self._known: dict[int, StateManifest] = {}
        self._ahead: Mapping[int, StateManifest | None] | None = None
        self._unused: set[tuple[BucketId, str]] = set()
        self._orphans: frozenset[tuple[BucketId, str]] | None = None
        self._retry: dict[BucketId, int] = {}
        self._batches = 0
        self.failures = 0
        """Merges and removals that failed."""

    # --- the thread of the batch ---

    def taken(
        self,
        manifest: StateManifest,
        now_ms: int,
        ended: Mapping[tuple[str, str], int] | None = None,
    ) -> StateManifest:
        """Return the manifest with the merges that are done. Their files stand for those they were made of.

        `ended`: by stage and input, up to which time rows have ended, in microseconds; files of such rows are left out.
        """
        due = _Due(manifest=manifest, now_ms=now_ms, ended=ended or {})
        if self._ahead is None:
            self._ahead = {}
            with self._reporting("removal"):
                self._ahead = self._manifests.behind(manifest.batch_id)
        self._merge_overdue(due)
        with self._work:
            merged, self._merged = self._merged, []
        files = dict(manifest.files)
        for merge in merged:
            found = None
            with self._reporting("merge"):
                found = self._applied(files.get(merge.bucket, BucketFiles()), merge)
            if found is not None:
                files[merge.bucket] = found
            else:
                self._discard(merge)
        made = replace(manifest, files=files).without_ended(due.ended)
        with self._work:
            # before it is written: what is found there must be known to be of this run
            self._known[made.batch_id] = made
        return made

    def consider(
        self,
        manifest: StateManifest,
        now_ms: int,
        ended: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        """Have done what is due after a batch, whose manifest is written. `ended` as in `taken`."""
        self._batches += 1
        with self._work:
            if self._stopped:
                return
            self._due = _Due(manifest=manifest, now_ms=now_ms, ended=ended or {})
            self._work.notify_all()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="penstock state", daemon=True)
                self._thread.start()
                atexit.register(self.close, _END_WAIT_S)

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is left to do; False where something is."""
        with self._work:
            return self._work.wait_for(lambda: self._due is None, seconds)

    def close(self, wait_s: float) -> None:
        """Stop for good: a merge that runs is given up. The files of merges that no manifest has go.

        Those of one that goes on for longer than `wait_s` are removed by a later run.
        """
        with self._work:
            self._stopped = True
            self._work.notify_all()
            thread, running = self._thread, self._running
            if running is not None:
                running.interrupt()
        if thread is not None:
            thread.join(wait_s)
        with self._work:
            # the thread of the batch takes a merge or finds none
            merged, self._merged = self._merged, []
        for merge in merged:
            self._discard(merge)
        with self._work:
            named = {name for manifest in self._known.values() for name in manifest.names}
            unused, self._unused = self._unused - named, set()
        # as of runs of few batches each would leave some, and none is there for long enough to remove those of others
        with self._reporting("removal"):
            for bucket, name in sorted(unused):
                self._files.delete(bucket, name)

    def _merge_overdue(self, due: _Due) -> None:
        """Merge on the batch's path what merges beside have left behind; it waits for one that runs."""
        most, merged = MOST_BEHIND if self._batches else OVERDUE_FILES, 0
        for bucket, of in due.manifest.files.items():
            if len(of.files) < most or len(merges_of(of.files)) < most or not self._is_due(bucket):
                continue
            with self._merging:
                if self._is_due(bucket):  # a merge beside may have come meanwhile
                    self._merge_now(bucket, of, due)
                    merged += 1
        if merged and self._batches:
            batch_id, files = due.manifest.batch_id, most_files(due.manifest)
            text = "merges of keyed state lag: batch %d merged %d buckets itself, of up to %d files"
            log.warning(text, batch_id, merged, files)

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
            revived = self._revived(merge, merge.dropped, of.files[end:])
        files = (*of.files[:start], *merge.files, *revived, *of.files[end:])
        return BucketFiles(files=files, epoch=of.epoch + (merge.dropped is not None))

    def _revived(
        self, merge: FileMerge, dropped: Path, later: tuple[StateFile, ...]
    ) -> tuple[StateFile, ...]:
        """Write the dropped rows whose keys later files name."""
        layout = self._layout(merge.bucket)
        with self._database(dropped) as tables:
            create_table(tables, "later", layout)
            for file in later:
                fill_table(
                    tables, "later", self._files.read(merge.bucket, file, positional(layout))
                )
            same = " AND ".join(
                f"dropped.c{n} IS NOT DISTINCT FROM later.c{n}"
                for n in (layout.names.index(name) for name in layout.expires_by)
            )
            rows = (
                f"SELECT * FROM dropped WHERE EXISTS (SELECT 1 FROM later WHERE {same or 'TRUE'})"
            )
            revived = self._write_rows(tables, rows, merge)
        dropped.unlink(missing_ok=True)
        return revived

    def _discard(self, merge: FileMerge) -> None:
        """Have the files of a merge removed that no manifest will name."""
        if merge.dropped is not None:
            merge.dropped.unlink(missing_ok=True)
        with self._work:
            self._unused |= {(merge.bucket, file.name) for file in merge.files}

    # --- the thread beside ---

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(lambda: self._due is not None or self._stopped, _IDLE_S)
                due = self._due
                if due is None or self._stopped:
                    self._due, self._thread = None, None
                    self._work.notify_all()
                    if not self._merged:
                        atexit.unregister(self.close)
                    return
            for bucket in due.manifest.files:
                self._merge_beside(bucket, due)
            with self._reporting("removal"):
                self._remove(due.manifest)
            with self._work:
                if self._due is due:
                    self._due = None
                    self._work.notify_all()

    def _merge_beside(self, bucket: BucketId, due: _Due) -> None:
        """Merge files of a bucket as the newest batch has them: an older manifest has files that were replaced."""
        with self._merging:
            if not self._is_due(bucket):
                return
            with self._work:
                of = self._known[max(self._known)].files[bucket]
            self._merge_now(bucket, of, due)

    def _is_due(self, bucket: BucketId) -> bool:
        """Return whether a bucket may be merged: no merge waits to be taken, and none has failed of late."""
        with self._work:
            waiting = any(merge.bucket == bucket for merge in self._merged)
        return not (waiting or self._stopped or self._batches < self._retry.get(bucket, 0))

    def _merge_now(self, bucket: BucketId, of: BucketFiles, due: _Due) -> None:
        if self._batches:  # else beside at once: a run may have few
            self._retry[bucket] = self._batches + _RETRY_BATCHES
        with self._reporting("merge"):
            self._merge(bucket, of, due)
            self._retry.pop(bucket, None)

    def _merge(self, bucket: BucketId, of: BucketFiles, due: _Due) -> None:
        run = files_to_merge(of.files)
        if not run:
            return
        layout, ended = self._layout(bucket), due.ended.get((bucket.stage, bucket.input))
        merge = FileMerge(bucket=bucket, replaced=run)
        if layout.inserts:
            files = self._write_parts(self._lasting(merge, ended), merge)
            self._give(replace(merge, files=files))
            return
        database = Path(self._folder.name) / f"{uuid4().hex}.duckdb"
        dropped = False
        try:
            with self._database(database) as tables:
                create_table(tables, "rows", layout)
                for file in run:
                    if self._stopped:
                        return
                    fill_table(tables, "rows", self._files.read(bucket, file, positional(layout)))
                dropped = fold_rows(tables, layout, due.now_ms, whole=run[0] == of.files[0])
                tables.execute("DROP TABLE rows")
                lasting = rows_that_last(layout, "SELECT * FROM folded", ended)
                files = self._write_rows(tables, lasting, merge)
                tables.execute("DROP TABLE folded")
        finally:
            if not dropped:
                database.unlink(missing_ok=True)
        self._give(replace(merge, files=files, dropped=database if dropped else None))

    def _give(self, merge: FileMerge) -> None:
        """Let the thread of the batch take a merge."""
        reach("state-merged")
        with self._work:
            self._merged.append(merge)

    def _lasting(self, merge: FileMerge, ended: int | None) -> Iterator[pa.RecordBatch]:
        """Read the rows of files one behind the other: they are added up with none."""
        layout = self._layout(merge.bucket)
        for file in merge.replaced:
            for rows in self._files.read(merge.bucket, file, positional(layout)):
                if self._stopped:
                    raise InterruptedError("the merge is told to stop")
                yield from lasting_rows(layout, rows, ended).to_batches()

    def _write_rows(
        self, tables: duckdb.DuckDBPyConnection, rows: str, merge: FileMerge
    ) -> tuple[StateFile, ...]:
        """Write rows in order."""
        found = tables.sql(f"{rows} ORDER BY ALL").to_arrow_reader(BATCH_ROWS)
        return self._write_parts(found, merge)

    def _write_parts(
        self, found: Iterable[pa.RecordBatch], merge: FileMerge
    ) -> tuple[StateFile, ...]:
        """Write rows as files of a bounded size, as they come."""
        layout = self._layout(merge.bucket)
        first, last = merge.replaced[0].first, merge.replaced[-1].last
        files: list[StateFile] = []
        try:
            for part in in_parts(found):
                rows = RowsOfFile(layout, part)
                # never the name of a file that a merge which failed has left, and that is to be removed
                writer = f"{self._token}.{next(self._numbers)}"
                file = self._files.write_batches(merge.bucket, first, last, rows, writer=writer)
                files.append(replace(file, ends=rows.ends))
        except BaseException:
            self._discard(replace(merge, files=tuple(files)))
            raise
        return tuple(files)

    def _layout(self, bucket: BucketId) -> KeyedLayout:
        return self._layouts[bucket.stage, bucket.input]

    @contextmanager
    def _database(self, path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a database file that `close` can interrupt."""
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": 1,
            "memory_limit": "512MB",
            "temp_directory": f"{path}.tmp",
        }
        connection = duckdb.connect(str(path), config=config)
        with self._work:
            self._running = connection
        try:
            yield connection
        finally:
            with self._work:
                self._running = None
            connection.close()

    # --- removal ---

    def _remove(self, newest: StateManifest) -> None:
        """Remove manifests that no replay needs, and files that only those name."""
        batches = self._manifests.batches()
        if not batches or batches[-1] < newest.batch_id:
            return
        last = batches[-1]
        there = self._manifests.read(last)
        with self._work:
            ours = [found[last] for found in (self._known, self._ahead or {}) if last in found]
            if there not in ours:
                # a successor goes on from here: what is there is not ours to remove
                self._stopped = True
                text = (
                    "another run has written the keyed state of batch %d: this one merges no more"
                )
                log.warning(text, last)
                return
        if self._orphans is None:
            self._orphans = self._before(newest, batches)
        with self._work:  # those of earlier runs, too
            known, unused = dict(self._known), set(self._unused)
        oldest = newest.batch_id - RETAINED + 1
        old = {name for n, manifest in known.items() if n < oldest for name in manifest.names}
        needed = {name for n, manifest in known.items() if n >= oldest for name in manifest.names}
        unused |= old
        if self._batches >= _ORPHAN_BATCHES:
            unused |= self._orphans
        # manifests last: by them a run after one that dies here knows the files
        for bucket, name in sorted(unused - needed):
            self._files.delete(bucket, name)
        for batch_id in batches:
            if batch_id < oldest:
                self._manifests.forget(batch_id)
        self._orphans -= unused
        with self._work:
            self._unused -= unused
            for batch_id in known:
                if batch_id < oldest:
                    del self._known[batch_id]

    def _before(
        self, newest: StateManifest, batches: Sequence[int]
    ) -> frozenset[tuple[BucketId, str]]:
        """Take up the manifests of earlier runs, and return the files that none names: of attempts that failed."""
        with self._work:
            begun = min(self._known)
        found = [self._manifests.read(batch_id) for batch_id in batches if batch_id < begun]
        there = {
            (bucket, name)
            for bucket in newest.files
            for name in self._files.names(bucket)
            if last_batch(name) <= begun and self._token not in name
        }
        with self._work:
            self._known |= {manifest.batch_id: manifest for manifest in found if manifest}
            every = [*self._known.values(), *(self._ahead or {}).values()]
            named = {name for known in every if known for name in known.names}
        return frozenset(there - named)

    @contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        """Tell and count an error: it is none of the query."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the state is as it was
            if self._stopped or self._manifests.ended:
                log.info("%s of files of keyed state is left undone", what)
                return
            self.failures += 1
            with self._work:
                newest = self._known[max(self._known)] if self._known else None
            log.warning(
                "%s of files of keyed state failed (%d so far), and is tried again; a bucket has up to %d files: %s",
                what,
                self.failures,
                0 if newest is None else most_files(newest),
                error,
            )
