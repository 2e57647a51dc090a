"""Reports of event time from tasks to planning: the highest watermark of each range, as the name of a file.

Planning peeks at one record of each range before its batch runs; the highest event time of all rows, by which
Flink's watermark advances, is known after the batch. A task writes one empty file for each range with rows
above the known watermark, and none for the others (rows in order of time). The folder is in the query's
checkpoint, with a folder per batch named after the batch's ranges: planning finds it from the offset alone,
also after a restart, and a range that is read again writes the same file.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from penstock.catalog.errors import ConfigError, SinkError
from penstock.connector.bad_records.files import split_name
from penstock.connector.source.split import Split
from penstock.connector.source.state import SourceState
from penstock.connector.storage import BY_ITSELF, Folder, StorageAccess, open_folder

log = logging.getLogger(__name__)

FOLDER = "event-times"
"""Name of the folder in a checkpoint directory."""

MARK = "_driver"
"""Name of the file by which a task knows that it sees the driver's storage."""

_NAME = re.compile(r"range-(?P<split>.+)\.(?P<start>\d+)\.(?P<highest>-?\d+)?\.(?P<late>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimes:
    """What is reported of a split, or of one range of it.

    `highest_ms` is the highest watermark of its rows (epoch ms), None where it is not above what planning knew; `late`
    counts rows that were behind the table's watermark, where they are counted.
    """

    highest_ms: int | None = None
    late: int = 0

    def __or__(self, other: EventTimes) -> EventTimes:
        """Join what two ranges of a split say."""
        known = [ms for ms in (self.highest_ms, other.highest_ms) if ms is not None]
        return EventTimes(highest_ms=max(known, default=None), late=self.late + other.late)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFolder:
    """Where the tasks of one batch report. `folder` is that of the scan, `batch` the name of the batch in it.

    `replayed`: the batch may have run before, and a report of a range replaces the former one.
    """

    folder: str
    batch: str
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _RangeFile:
    """What a file's name says; `split` is the split's id as names have it."""

    split: str
    start: int
    found: EventTimes

    @property
    def name(self) -> str:
        highest = "" if self.found.highest_ms is None else self.found.highest_ms
        return f"range-{self.split}.{self.start}.{highest}.{self.found.late}"

    @classmethod
    def parse(cls, name: str) -> _RangeFile | None:
        """Read a file's name; None for one that is not of a range."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        highest = found["highest"]
        times = EventTimes(
            highest_ms=None if highest is None else int(highest), late=int(found["late"])
        )
        return cls(split=found["split"], start=int(found["start"]), found=times)


class RangeReporter:
    """A task's side. `splits` are the task's ranges; `known_ms` what planning knows of each split's watermark.

    `access` is how the folder's store is opened.
    """

    def __init__(
        self,
        report_folder: ReportFolder | None,
        splits: Sequence[Split],
        known_ms: Mapping[str, int],
        *,
        access: StorageAccess = BY_ITSELF,
    ) -> None:
        """Touch nothing yet; without a place nothing is reported."""
        self._report_folder = report_folder
        self._access = access
        self._known_ms = known_ms
        self._starts = {split.split_id: split.start for split in splits}
        self._found: dict[str, EventTimes] = {}
        self._folder: Folder | None = None

    def take(self, split_id: str, found: EventTimes) -> None:
        """Note what a batch of rows of a split has."""
        self._found[split_id] = self._found.get(split_id, EventTimes()) | found

    def finish(self, split_ids: Collection[str]) -> None:
        """Report the ranges that were read to their end. Raises SinkError."""
        if self._report_folder is None:
            return
        for split_id in sorted(split_ids & self._starts.keys()):
            report = self._report(split_id)
            if self._report_folder.replayed or report is not None:
                with _storage_errors(self._report_folder.folder):
                    self._write(self._report_folder, split_id, report)

    def _report(self, split_id: str) -> EventTimes | None:
        found = self._found.pop(split_id, EventTimes())
        known_ms, highest_ms = self._known_ms.get(split_id), found.highest_ms
        if highest_ms is not None and known_ms is not None and highest_ms <= known_ms:
            found = EventTimes(late=found.late)
        return found if found != EventTimes() else None

    def _write(self, report_folder: ReportFolder, split_id: str, report: EventTimes | None) -> None:
        root = open_folder(report_folder.folder, access=self._access)
        if not root.system.get_file_info(f"{root.path}/{MARK}").is_file:
            return  # a disk of this machine alone: planning goes by its peeks
        folder = root.below(report_folder.batch)
        name = split_name(split_id)
        named = None
        if report is not None:
            named = _RangeFile(split=name, start=self._starts[split_id], found=report).name
            folder.system.create_dir(folder.path, recursive=True)
            folder.system.open_output_stream(f"{folder.path}/{named}").close()
        if report_folder.replayed:
            for earlier in _files(folder):
                same = (earlier.split, earlier.start) == (name, self._starts[split_id])
                if same and earlier.name != named:
                    with suppress(FileNotFoundError):
                        folder.system.delete_file(f"{folder.path}/{earlier.name}")


class EventTimesReader:
    """Planning's side: the process that plans the batches of one scan.

    `location` is the scan's folder, or None; `access` is how its store is opened.
    """

    def __init__(self, location: str | None, *, access: StorageAccess = BY_ITSELF) -> None:
        """Touch nothing yet."""
        self._location = location
        self._access = access
        self._root: Folder | None = None
        self._batch: str | None = None
        self._has_reports = False  # whether there is a folder of that batch
        self._earlier: set[str] = (
            set()
        )  # folders that are not needed when another batch is complete

    def report_folder(self, state: SourceState, *, replayed: bool) -> ReportFolder | None:
        """Return where the tasks of a planned batch report; None where they cannot, or have nothing to read.

        Raises SinkError.
        """
        batch = _batch_name(state)
        if batch is None or self._open() is None:
            return None
        assert self._location is not None, "it was opened"
        return ReportFolder(folder=self._location, batch=batch, replayed=replayed)

    def after(self, state: SourceState) -> Mapping[str, EventTimes]:
        """Return what the tasks of a completed batch reported, by split; batches before it are forgotten.

        Raises SinkError.
        """
        batch = _batch_name(state)
        if batch is None or (root := self._open()) is None:
            return {}
        with _storage_errors(root.shown):
            self._forget(root, batch)
            names = {split_name(split.split_id): split.split_id for split in state.splits}
            found: dict[str, EventTimes] = {}
            files = list(_files(root.below(batch)))
            self._has_reports = bool(files)
            for file in files:
                if (split_id := names.get(file.split)) is not None:
                    found[split_id] = found.get(split_id, EventTimes()) | file.found
        return found

    def _forget(self, root: Folder, batch: str) -> None:
        """Remove the folders of batches before `batch`, whose offset says what they said.

        Most batches have none, and on an object store each removal takes several requests. What a task leaves that is
        slower than its double goes with the next start.
        What an earlier process left waits for one more batch: a table that is read twice by a query (a self-join) is
        planned by two processes, whose ranges may differ.
        """
        if self._batch == batch:
            return
        if self._batch is None:
            self._earlier = set(root.folders()) - {batch}
        else:
            done = {self._batch} if self._has_reports else set()
            for name in {*self._earlier, *done} - {batch}:
                with suppress(FileNotFoundError):
                    root.system.delete_dir(f"{root.path}/{name}")
            self._earlier.clear()
        self._batch, self._has_reports = batch, False

    def _open(self) -> Folder | None:
        """Open the folder and mark it; None where peeks have to do.

        So it is where pyarrow does not know the file system, and where a store lets Spark in alone, by credentials that
        pyarrow does not find. A folder of this machine that cannot be written is an error.
        """
        if self._location is None:
            return None
        if self._root is None:
            try:
                root = open_folder(self._location, access=self._access)
            except ConfigError:
                self._location = None
                return None
            try:
                with _storage_errors(root.shown):
                    root.system.create_dir(root.path, recursive=True)
                    root.system.open_output_stream(f"{root.path}/{MARK}").close()
            except SinkError as error:
                if root.system.type_name == "local":
                    raise
                log.warning("%s; watermarks go by the last record of each range", error)
                self._location = None
                return None
            self._root = root
        return self._root


def _batch_name(state: SourceState) -> str | None:
    """Name a batch by its ranges, which no other batch of the query has; None for one that reads nothing."""
    ranges = [f"{s.split_id} {s.start} {s.end}" for s in state.splits if s.end > s.start]
    return hashlib.sha256("\n".join(ranges).encode()).hexdigest()[:16] if ranges else None


def _files(folder: Folder) -> Iterator[_RangeFile]:
    return filter(None, map(_RangeFile.parse, folder.names()))


@contextmanager
def _storage_errors(shown: str) -> Iterator[None]:
    """Make errors of the storage the query's own."""
    try:
        yield
    except OSError as error:
        raise SinkError(
            f"the event times of a batch cannot be kept in {shown}: {error}",
            hint="they belong to the query's checkpoint directory: its tasks need permission and space to write",
        ) from error
