"""Upserts by position: the rows of a batch in new files, the rows before them in deletion vectors, in one commit.

The argument, beside that of `task_commit.py`, whose files these are: which rows a batch replaces is decided by the
snapshot of the transaction that commits it. For each file of that snapshot the index knows the positions of all keys
(`key_index.py`), also of files that others wrote; a position that is deleted already is deleted twice, which changes
nothing. The transaction counts as one that read the whole table, so whoever removes a file or a row in between is a
conflict, and the batch's files are committed to the next snapshot instead: they say nothing of the table. Nothing is
kept beside the table: a runner that has no index, an old one, or one of an attempt that failed, reads the keys of the
files that it does not know. `txn` and note are those of every commit of a query.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s

from penstock.catalog.errors import SinkError
from penstock.catalog.model.identifier import quoted
from penstock.catalog.model.table import PrimaryKey
from penstock.connector.contract import MicroBatch
from penstock.connector.delta.files.deletion_vector import DamagedVectorError, VectorFolder
from penstock.connector.delta.files.file_keys import (
    FileKeys,
    KeyField,
    KeysAhead,
    UnreadableKeysError,
)
from penstock.connector.delta.files.key_digests import KeyDigests
from penstock.connector.delta.files.key_index import KeyIndex
from penstock.connector.delta.files.live_files import LOG, LiveFile, LiveFiles
from penstock.connector.delta.files.roaring import Positions, sorted_positions
from penstock.connector.delta.files.upsert_task import (
    KeyColumn,
    UpsertTask,
    WrittenChanges,
    by_number,
    numbered,
    write_changes,
)
from penstock.connector.delta.log import LogForm
from penstock.connector.delta.merge import until_committed
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.delta.table import stored_schema, translate_errors
from penstock.connector.delta.task_commit import (
    UncommittedFiles,
    add_actions,
    check_there,
    differ,
    for_session,
)
from penstock.connector.delta.task_output import upsert_output, upserts_by
from penstock.connector.delta.transaction import BehindCommits, CommittedBatches, Transaction
from penstock.connector.failpoints import reach
from penstock.connector.file_output import FileOutput, WrittenByEngine
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.micro_batch import discard_batch
from penstock.connector.spark.sink.target_rows import IS_DELETE, last_changes
from penstock.connector.storage import Folder, open_folder
from penstock.connector.urls import local_path

log = logging.getLogger(__name__)

MOST_ROWS = 200_000_000
"""Rows of a table whose keys the driver keeps, 16 to 24 bytes each on its disk; those of a larger one are merged."""
MOST_FILES = 50_000
"""Files of a table that the driver knows, one to two KB each."""
_VECTOR_WRITES = 2
"""Times that deletion vectors are written in an attempt, where others remove them before the commit."""
_SETTINGS = {
    # Spark turns it off for queries with state; this is a batch job all the same
    "spark.sql.adaptive.enabled": "true",
}


class TooLargeError(Exception):
    """The table has more files or rows than a driver keeps the keys of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertForm:
    """How the rows of a table are written and found: by its metadata and protocol, `text`."""

    text: str
    output: FileOutput
    table_id: str


@dataclass(slots=True, kw_only=True)
class Upserts:
    """The upserts of this process into one table. The thread of the batch.

    `committed` is the table. `ahead`: has keys of files that are put together beside the batches.
    """

    committed: CommittedBatches
    ahead: KeysAhead = field(default_factory=KeysAhead)
    _form: UpsertForm | WrittenByEngine | None = field(default=None, init=False)
    _form_text: str = field(default="", init=False)
    _logged: str | None = field(default="", init=False)
    _live: LiveFiles = field(default_factory=LiveFiles, init=False)
    _index: KeyIndex | None = field(default=None, init=False)
    _index_of: tuple[str, tuple[KeyField, ...]] | None = field(default=None, init=False)

    @property
    def target(self) -> DeltaTarget:
        """The table."""
        return self.committed.target

    def write(self, frame: DataFrame, batch: MicroBatch, behind: BehindCommits) -> bool:
        """Write the changes of a batch in one commit; False where they have to be merged, and nothing is done.

        Raises SinkError for a NULL in the key and for a row that the table does not take, and when other writers'
        commits got in the way each time; StateMismatchError as `CommittedBatches`.
        """
        try:
            return self._write(frame, batch, behind)
        except BaseException:
            # it may lack the keys of files that it counts as known
            self._index = None
            raise

    def _write(self, frame: DataFrame, batch: MicroBatch, behind: BehindCommits) -> bool:
        with translate_errors(self.target.shown), configured(batch.spark, _SETTINGS):
            transaction = self.committed.begin(batch)
            if transaction is None:
                discard_batch(frame)
                return True
            form = self._form_of(transaction)
            if isinstance(form, WrittenByEngine):
                self._log_change(form.reason)
                return False
            if not self._takes(frame):
                self._log_change("columns of the query are cast to their types of the table")
                return False
            try:
                self._follow(transaction, form)
            except (UnreadableKeysError, DamagedVectorError, TooLargeError) as error:
                self._log_change(str(error))
                return False
            self._log_change(None)
            changes = self._changes(frame, form)
            if changes.empty:
                return True
            reach("files-written")
            batch.check_lease()
            _Commit(upserts=self, form=form, batch=batch, behind=behind).run(transaction, changes)
            return True

    # --- what is written ---

    @property
    def _key(self) -> PrimaryKey:
        key = self.target.table.schema.primary_key
        assert key is not None, "rows are replaced by a key"
        return key

    def _form_of(self, transaction: Transaction) -> UpsertForm | WrittenByEngine:
        """Decide by the table as it is."""
        metadata, protocol = transaction.metadata, transaction.protocol
        text = f"{metadata}{protocol}"
        if self._form is None or self._form_text != text:
            output = upsert_output(self.target, LogForm(metadata=metadata, protocol=protocol))
            if isinstance(output, FileOutput):
                output = for_session(transaction.spark, self.target, output)
            if isinstance(output, WrittenByEngine):
                self._form = output
            else:
                self._form = UpsertForm(text=text, output=output, table_id=metadata["id"])
            self._form_text = text
        return self._form

    def log_start(self) -> None:
        """Log how a run that starts replaces rows, as far as the table's log says it."""
        found = upserts_by(self.target)
        self._log_change(found.reason if isinstance(found, WrittenByEngine) else None)

    def _log_change(self, reason: str | None) -> None:
        """Log why rows are merged, None: they are not; again where that changes."""
        if reason != self._logged:
            self._logged = reason
            log_way(self.target, reason)

    def _takes(self, frame: DataFrame) -> bool:
        """Tell whether the columns of a frame have the types of the table; others are cast or refused by Delta."""
        declared = {f.name.lower(): f.dataType for f in stored_schema(self.target.table).fields}
        return all(
            _plain(found.dataType) == _plain(declared[found.name.lower()])
            for found in frame.schema.fields
            if found.name.lower() in declared
        )

    def _changes(self, frame: DataFrame, form: UpsertForm) -> WrittenChanges:
        """Have tasks write the last change of each key."""
        columns = [(c.name, c.dataType) for c in stored_schema(self.target.table).fields]
        rows = last_changes(frame, self._key.columns, columns)
        names = [name for name, _ in columns]
        # by position: mapInArrow does not quote names
        plain = rows.select(
            *(F.col(quoted(name)).alias(numbered(n)) for n, name in enumerate(names)),
            F.coalesce(F.col(IS_DELETE), F.lit(False)).alias(numbered(len(names))),
        )
        lower = [name.lower() for name in names]
        partitions = {name.lower() for name in form.output.partitions}
        keys = tuple(
            KeyColumn(
                name=name, number=lower.index(name.lower()), partition=name.lower() in partitions
            )
            for name in self._key.columns
        )
        task = UpsertTask(
            output=by_number(form.output, lower),
            keys=keys,
            wide=self._reader(form).wide,
            table=str(self.target.table.identifier),
        )
        return write_changes(plain, task)

    # --- where the rows before are ---

    def _reader(self, form: UpsertForm) -> FileKeys:
        by_name = {column.name.lower(): column for column in form.output.columns}
        fields = []
        for name in self._key.columns:
            column = by_name[name.lower()]
            by = column.name in form.output.partitions
            fields.append(KeyField(name=column.name, type=column.type, partition=by))
        return FileKeys(folder=self._folder, fields=tuple(fields))

    @property
    def _folder(self) -> Path:
        return Path(local_path(self.target.location))

    def _table_folder(self) -> Folder:
        return open_folder(self.target.location, shown=self.target.shown)

    def _follow(self, transaction: Transaction, form: UpsertForm) -> None:
        """Know the files of the snapshot of a transaction, and their keys."""
        reader = self._reader(form)
        self.ahead.follow(reader)
        of = (form.table_id, reader.fields)
        if self._index is None or self._index_of != of:
            self._live, self._index, self._index_of = LiveFiles(), KeyIndex(wide=reader.wide), of
        live = self._live
        if not self._followed(transaction):
            live.begin(transaction.version, transaction.read_files())
        if len(live) > MOST_FILES:
            raise TooLargeError(f"it has more than {MOST_FILES:,} files")
        index = self._index
        index.forget_other(live.paths)
        unknown = index.unknown(live.paths)
        if index.keys + sum(live[path].rows or 0 for path in unknown) > MOST_ROWS:
            self._index = None
            if sum(file.rows or 0 for file in live) > MOST_ROWS:
                raise TooLargeError(f"it has more than {MOST_ROWS:,} rows")
            # without the keys of files that are gone
            self._index, unknown = KeyIndex(wide=reader.wide), sorted(live.paths)
        if unknown := self._not_ahead(unknown):
            self._read_keys(reader, [live[path] for path in unknown])

    def _followed(self, transaction: Transaction) -> bool:
        """Follow the log; False where Delta has to say which files there are."""
        live, table = self._live, self._table_folder()
        found = live.follow(table, transaction.version)
        if not found and transaction.from_first_commit:
            live.begin(-1, ())
            found = live.follow(table, transaction.version)
        return found and transaction.known_files in (None, len(live))

    def _not_ahead(self, unknown: Sequence[str]) -> list[str]:
        """Take the keys of files that were read ahead, and return the other files."""
        assert self._index is not None, "made before"
        left = []
        for path in unknown:
            if (found := self.ahead.take(path)) is None:
                left.append(path)
            else:
                self._index.add(path, *found)
        return left

    def _read_keys(self, reader: FileKeys, files: Sequence[LiveFile]) -> None:
        assert self._index is not None, "made before"
        began, rows = time.monotonic(), 0
        for file in files:
            keys, positions = reader.read(file)
            rows += len(keys)
            self._index.add(file.path, keys, positions)
        took_s = time.monotonic() - began
        values = (len(files), self.target.shown, rows, took_s)
        log.info("read the keys of %d files of the Delta table at %s: %d rows in %.1f s", *values)

    def read_new(self, form: UpsertForm, adds: Sequence[Mapping[str, Any]]) -> list[_NewKeys]:
        """Read the keys of files that are not committed."""
        reader = self._reader(form)
        return [_NewKeys(str(add["path"]), *reader.read(LiveFile(add=add))) for add in adds]

    def learn(self, new: Sequence[_NewKeys]) -> None:
        """Know the keys of files that are committed now."""
        assert self._index is not None, "made before"
        for one in new:
            self._index.add(one.path, one.keys, one.positions)

    def refollow(self, transaction: Transaction, form: UpsertForm) -> None:
        """Know the files of a later snapshot. Raises SinkError where the table is no longer what the files are for."""
        found = self._form_of(transaction)
        if isinstance(found, WrittenByEngine) or differ(found.output, form.output):
            raise SinkError(
                f"the Delta table at {self.target.shown} was changed while a batch was written",
                hint="the batch is tried again from the checkpoint",
            )
        try:
            self._follow(transaction, found)
        except (UnreadableKeysError, TooLargeError) as error:
            raise SinkError(
                f"the keys of the Delta table at {self.target.shown} cannot be read: {error}",
                hint="the batch is tried again from the checkpoint, by MERGE",
            ) from error

    def replaced(self, keys: KeyDigests) -> dict[str, tuple[LiveFile, Positions]]:
        """Return the files that have rows of some keys, with their positions."""
        assert self._index is not None, "made before"
        return {
            path: (self._live[path], positions)
            for path, positions in self._index.positions_of(keys).items()
            if path in self._live
        }


@dataclass(frozen=True, slots=True)
class _NewKeys:
    """The keys of a file that a batch adds."""

    path: str
    keys: KeyDigests
    positions: Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """Commits the changes that tasks wrote for a batch."""

    upserts: Upserts
    form: UpsertForm
    batch: MicroBatch
    behind: BehindCommits

    @property
    def _target(self) -> DeltaTarget:
        return self.upserts.target

    def run(self, transaction: Transaction, changes: WrittenChanges) -> None:
        """Commit, to later snapshots where others' commits are in the way."""
        written = UncommittedFiles(files=changes.files, output=self.form.output)
        check_there(self._target, written)
        adds = [action["add"] for action in add_actions(written, self.batch.spark)]
        new = self.upserts.read_new(self.form, adds)
        parts = [*(one.keys for one in new), changes.deleted]
        keys = KeyDigests.joined(parts, wide=changes.deleted.high is not None)
        first: list[Transaction] = [transaction]

        def attempt() -> None:
            with self.behind.alone():
                begun = first.pop() if first else None
                if begun is None or self._overtaken(begun):
                    begun = self.upserts.committed.begin(self.batch)
                    if begun is None:
                        # another run has it, or this one, whose commit was taken for a conflict: the files are left
                        # for VACUUM
                        return
                    self.upserts.refollow(begun, self.form)
                    check_there(self._target, written)
                version = self._attempt(begun, adds, keys, written)
            self.behind.done(begun, version, len(adds))

        until_committed(attempt, self._target.shown)
        self.upserts.learn(new)

    def _overtaken(self, transaction: Transaction) -> bool:
        """Tell that the table has a later version, with which the commit may be in conflict."""
        log = Path(self.form.output.folder) / LOG
        return (log / f"{transaction.version + 1:020}.json").exists()

    def _attempt(
        self,
        transaction: Transaction,
        adds: Sequence[Mapping[str, Any]],
        keys: KeyDigests,
        written: UncommittedFiles,
    ) -> int:
        transaction.read_table()
        if adds:
            transaction.compact_in_commit(True)
        self.behind.prepare(transaction)
        changed = self._changed_and_there(keys)
        check_there(self._target, written)
        actions = [*changed, *({"add": add} for add in adds)]
        counts = {
            "numAddedFiles": len(adds) + sum("add" in action for action in changed),
            "numRemovedFiles": sum("remove" in action for action in changed),
            "numOutputRows": sum(file.rows for file in written.files),
            "numOutputBytes": sum(file.size_bytes for file in written.files),
        }
        return transaction.commit(transaction.parsed(actions), counts, updates=True)

    def _changed_and_there(self, keys: KeyDigests) -> list[dict[str, Any]]:
        """Delete the rows of some keys. Raises the error of a runner that is none any more, and SinkError.

        A process may be paused here, for as long as another needs to remove what no commit names.
        """
        vectors = VectorFolder(folder=Path(self.form.output.folder))
        for _ in range(_VECTOR_WRITES):
            changed = self._changed(keys)
            reach("positions-known")
            self.batch.check_lease()
            new = [action["add"]["deletionVector"] for action in changed if "add" in action]
            if all(map(vectors.has, new)):
                return changed
        raise SinkError(
            f"deletion vectors of the Delta table at {self._target.shown} were removed before they were committed",
            hint="VACUUM with a retention above the time that a batch takes; the batch is tried again from the "
            "checkpoint",
        )

    def _changed(self, keys: KeyDigests) -> list[dict[str, Any]]:
        """Delete the rows of some keys: a file with deletions is added again, one without other rows is removed."""
        vectors = VectorFolder(folder=Path(self.form.output.folder))
        now_ms = time.time_ns() // 1_000_000
        actions: list[dict[str, Any]] = []
        again: dict[str, tuple[LiveFile, int]] = {}
        written: dict[str, Positions] = {}
        for path, (file, positions) in self.upserts.replaced(keys).items():
            deleted = positions
            if file.vector is not None:
                before = self._read_vector(vectors, file)
                deleted = sorted_positions(iter([before, positions]))
                if len(deleted) == len(before):
                    continue
            actions.append({"remove": file.removed(now_ms)})
            rows = file.rows if file.rows is not None else _rows_in(vectors.folder, file)
            if len(deleted) < rows:
                again[path], written[path] = (file, rows), deleted
        described = vectors.write(written)
        for path, (file, rows) in again.items():
            actions.append({"add": file.with_vector(described[path], rows)})
        return actions

    def _read_vector(self, vectors: VectorFolder, file: LiveFile) -> Positions:
        assert file.vector is not None, "asked before"
        try:
            return vectors.read(file.vector)
        except DamagedVectorError as error:
            raise SinkError(
                f"a deletion vector of the Delta table at {self._target.shown} cannot be read: {error}",
                hint="see whether Spark reads the table; restore the file",
            ) from error


def _rows_in(folder: Path, file: LiveFile) -> int:
    from pyarrow import parquet

    return int(parquet.read_metadata(folder / file.local_path).num_rows)


def _plain(kind: s.DataType) -> Any:
    """Return a type without what says nothing of its values."""
    return kind.simpleString().lower()


def log_way(target: DeltaTarget, reason: str | None) -> None:
    """Log how rows of a table are replaced; by MERGE for a reason."""
    if reason is None:
        log.info("rows of the Delta table at %s are replaced by position", target.shown)
    else:
        values = (target.shown, reason)
        log.info("rows are merged into the Delta table at %s, as %s", *values)
