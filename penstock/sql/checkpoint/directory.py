"""A query's checkpoint directory on any Hadoop file system, and the query shape kept there beside Spark's files."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError
from penstock.connector.source.state import SourceState
from penstock.connector.spark.hadoop_files import (
    list_names,
    read_text,
    rename,
    replace_text,
    write_text,
)
from penstock.connector.urls import is_remote
from penstock.sql.checkpoint.failure_record import (
    FAILURES_FILE,
    FailureRecord,
    failures_text,
    last_failures,
    stored_failures,
)
from penstock.sql.checkpoint.fingerprint import QueryFingerprint, check_fits
from penstock.sql.checkpoint.identity import (
    QueryLocation,
    check_identity,
    check_untaken,
    identity_path,
    next_entry,
    read_identity,
)
from penstock.sql.checkpoint.plan_record import PLAN_FILE, PlanRecord
from penstock.sql.checkpoint.reader import (
    CHANGED,
    SHAPE_FILE,
    CheckpointFiles,
    LocalFiles,
    SavedCheckpoint,
    damaged_error,
    read_checkpoint,
    read_offsets,
    read_planned,
    read_shape,
)
from penstock.sql.checkpoint.search import OpenFiles
from penstock.sql.checkpoint.watermarks import Watermarks

log = logging.getLogger(__name__)

_CHECKSUM = "ChecksumException"  # Hadoop's, where a file is not what its .crc says


@dataclass(frozen=True, slots=True, kw_only=True)
class _HadoopFiles:
    """The files of a checkpoint, by Spark's Hadoop (`CheckpointFiles`)."""

    spark: SparkSession
    location: str

    def names(self, folder: str) -> Sequence[str]:
        return list_names(self.spark, f"{self.location}/{folder}" if folder else self.location)

    def text(self, path: str) -> str | None:
        try:
            return read_text(self.spark, f"{self.location}/{path}")
        except UnicodeDecodeError as error:
            raise damaged_error(self.location, path, "is not text") from error
        except Py4JJavaError as error:
            why = str(error.java_exception.toString())
            if _CHECKSUM in why:
                why = CHANGED
            else:
                why = f"cannot be read: {why}"
            raise damaged_error(self.location, path, why) from error


def saved_checkpoint(spark: SparkSession, location: str) -> SavedCheckpoint | None:
    """Read a checkpoint without starting anything; None where there is none. Raises StateMismatchError."""
    return read_checkpoint(_HadoopFiles(spark=spark, location=location))


def saved_shape(spark: SparkSession, location: str) -> QueryFingerprint | None:
    """Read what a checkpoint was made for, as `read_shape`."""
    return read_shape(_HadoopFiles(spark=spark, location=location))


_Offsets = Sequence[SourceState | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A batch that Spark has planned: its time, ms since the epoch, and the offsets of its sources, with those before.

    The same on a replay. `before` is None of the first batch. A source that is none of ours has a text, or nothing.
    """

    time_ms: int
    offsets: _Offsets
    before: _Offsets | None

    @property
    def watermarks(self) -> Watermarks:
        """The watermarks of its sources; one without splits has none."""
        before = [None] * len(self.offsets) if self.before is None else _watermarks(self.before)
        return Watermarks(before_ms=before, now_ms=_watermarks(self.offsets))

    @property
    def records(self) -> int | None:
        """The positions of all splits that it reads, of sources whose positions are records; None where it has others.

        A source without news has the offset of the batch before, and nothing is read of it.
        """
        before = [None] * len(self.offsets) if self.before is None else self.before
        found = 0
        for state, last in zip(self.offsets, before, strict=True):
            if not isinstance(state, SourceState):
                return None
            if state != last:
                found += sum(split.end - split.start for split in state.splits)
        return found


class PlannedBatches:
    """Reads what is planned of the batches of a run with so many `sources`, each file once."""

    def __init__(self, sources: int) -> None:
        self._sources = sources
        self._last: tuple[int, _Offsets] | None = None

    def read(self, spark: SparkSession, location: str, batch_id: int) -> PlannedBatch:
        """Read a batch of the checkpoint at `location`. Raises StateMismatchError for a damaged file."""
        files = _HadoopFiles(spark=spark, location=location)
        time_ms, offsets = read_planned(files, batch_id, self._sources)
        before: _Offsets | None = None
        if batch_id and self._last is not None and self._last[0] == batch_id - 1:
            before = self._last[1]
        elif batch_id:
            before = read_offsets(files, batch_id - 1, self._sources)
        self._last = batch_id, offsets
        return PlannedBatch(time_ms=time_ms, offsets=offsets, before=before)


def _watermarks(offsets: _Offsets) -> Sequence[int | None]:
    return [o.watermark_ms if isinstance(o, SourceState) else None for o in offsets]


def checkpoint_files(spark: SparkSession) -> OpenFiles:
    """Return what opens folders of checkpoints by Spark's Hadoop."""
    return lambda location: _HadoopFiles(spark=spark, location=location)


def check_checkpoint(spark: SparkSession, location: QueryLocation, shape: QueryFingerprint) -> None:
    """Check that an existing checkpoint is whole, of the query of this name and shape. Raises StateMismatchError."""
    check_identity(_HadoopFiles(spark=spark, location=location.checkpoint), location.identity)
    saved = saved_checkpoint(spark, location.checkpoint)
    if saved is not None:
        check_fits(saved.shape, shape, location.checkpoint)


def record_query(spark: SparkSession, location: QueryLocation, shape: QueryFingerprint) -> None:
    """Store identity and fingerprint in the checkpoint; an existing fingerprint stays.

    The caller holds the query's leases. Raises StateMismatchError for a checkpoint that has become another's.
    """
    checkpoint = location.checkpoint
    files = _HadoopFiles(spark=spark, location=checkpoint)
    check_identity(files, location.identity)
    found = read_identity(files)
    check_untaken(found, location.identity, location.before, checkpoint)
    if found is not None and found.text == location.before:
        log.warning(
            "%s: the INSERT was changed and resumes from its checkpoint %s; before it was: %s",
            location.job,
            checkpoint,
            location.before,
        )
    if found != location.identity:
        entry = identity_path(next_entry(files))
        if not write_text(spark, f"{checkpoint}/{entry}", location.identity.to_text()):
            check_identity(
                files, location.identity
            )  # leases of another catalog do not keep another target off
    if read_text(spark, f"{checkpoint}/{SHAPE_FILE}") is None:
        write_text(spark, f"{checkpoint}/{SHAPE_FILE}", shape.to_text())


def record_plan(spark: SparkSession, checkpoint: str, plan: PlanRecord) -> None:
    """Store the plan that a query is started with, in place of the one before. The caller holds the query's leases."""
    path, text = f"{checkpoint}/{PLAN_FILE}", plan.to_text()
    if read_text(spark, path) != text:
        replace_text(spark, path, text)


def record_failures(
    spark: SparkSession, checkpoint: str, failures: Iterable[FailureRecord]
) -> None:
    """Add failures to those of a checkpoint, each once; nothing where there is no checkpoint yet.

    The caller holds the query's leases. Raises StateMismatchError where those that are there cannot be read; they stay.
    """
    files: CheckpointFiles = _HadoopFiles(spark=spark, location=checkpoint)
    if not is_remote(checkpoint):
        files = LocalFiles(location=checkpoint)  # which waits for no pipe, and follows no link
    if SHAPE_FILE in files.names(""):
        text = failures_text(last_failures(stored_failures(files), failures))
        replace_text(spark, f"{checkpoint}/{FAILURES_FILE}", text)


def set_aside(spark: SparkSession, checkpoint: str, now_ms: int) -> str | None:
    """Rename a checkpoint, so that the next start finds none; nothing of it is removed.

    `now_ms` (epoch ms) becomes part of the new name, which is given; None where there is no checkpoint. The caller
    holds the pipeline's lease. Raises ConfigError when the file system refuses.
    """
    if not list_names(spark, checkpoint):
        return None
    stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
    target = f"{checkpoint}.set-aside-{stamp}"
    if not rename(spark, checkpoint, target):
        raise ConfigError(
            f"the checkpoint {checkpoint} cannot be set aside as {target}: the file system does not rename it",
            hint="rename the directory by hand, then run without --from-scratch",
        )
    return target
