"""Moving a batch's files from where they are staged to where they are read, as often as that takes.

Several processes may do so with one manifest at the same time: a runner that was paused wakes up behind its successor.
Each file is renamed by one of them, the others find it in its place. Nobody removes a file that is in its place, and
all of them end by looking at every file of the manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.errors import SinkError
from penstock.connector.failpoints import reach
from penstock.connector.filesystem.sink_ledger import Manifest, StagedFile, done_name
from penstock.connector.spark import hadoop_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LostFileError", "Places", "publish"]


class LostFileError(SinkError):
    """A file that a manifest names is neither staged nor in its place, or is not the one that was staged."""

    permanent = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The table's folder and a writer's folder of manifests, without a slash at the end."""

    root: str
    ledger: str


def publish(
    spark: SparkSession,
    manifest: Manifest,
    places: Places,
    *,
    success_file: str | None,
    check_lease: Callable[[], None],
) -> None:
    """Move what is still staged, mark the folders, note that all is done. May be called again after any interruption.

    `check_lease` raises where this process is no longer the pipeline's runner. Raises LostFileError, SinkError.
    """
    done = f"{places.ledger}/{done_name(manifest.batch.batch_id)}"
    if hadoop_files.size_of(spark, done) is not None:
        return  # readers may have taken files away since
    check_lease()
    for name in manifest.replaces:
        hadoop_files.delete(spark, f"{places.root}/{name}")
    for parent in manifest.folders:
        hadoop_files.make_directory(spark, _join(places.root, parent))
    for file in manifest.files:
        check_lease()
        reach("moving")
        staged = f"{places.ledger}/{manifest.staging}/{file.staged}"
        if not _is_moved(spark, staged, f"{places.root}/{file.final}", file.size):
            raise LostFileError(
                f"{places.root}/{file.final} is gone: it is neither in its place nor staged as {staged}",
                hint="restore it; where it was removed on purpose, make the empty file "
                f"{done} and start again",
            )
    for file in manifest.files:
        _check(spark, file, places.root)
    hadoop_files.sync(spark, places.root, (file.final for file in manifest.files))
    if success_file is not None:
        for parent in manifest.folders:
            hadoop_files.write_text(spark, f"{_join(places.root, parent)}/{success_file}", "")
    hadoop_files.write_text(spark, done, "")


def _is_moved(spark: SparkSession, staged: str, final: str, size: int | None) -> bool:
    """Rename a file into place, unless it is there: then what is still staged of it is removed. False: it is gone."""
    there = hadoop_files.size_of(spark, final)
    if there is None:
        if hadoop_files.rename(spark, staged, final):
            return True
        there = hadoop_files.size_of(spark, final)  # another process may have been faster
    left = hadoop_files.size_of(spark, staged)
    if there is None:
        if left is None:
            return False
        raise SinkError(
            f"{staged} cannot be renamed to {final}", hint="look at the rights of both folders"
        )
    if left is not None:
        expected = left if size is None else size
        if there != expected:
            raise _other_size(final, there, expected)
        hadoop_files.delete(spark, staged)
    return True


def _check(spark: SparkSession, file: StagedFile, root: str) -> None:
    """Look at a file that was moved."""
    final = f"{root}/{file.final}"
    there = hadoop_files.size_of(spark, final)
    if there is None:
        raise LostFileError(
            f"{final} is gone, a moment after it was moved there", hint="who else removes files?"
        )
    if file.size is not None and there != file.size:
        raise _other_size(final, there, file.size)


def _other_size(final: str, there: int, expected: int) -> LostFileError:
    return LostFileError(
        f"{final} has {there} bytes, and {expected} were written: a copy was cut off, or somebody changed it",
        hint="where it was cut off, remove it: what is staged takes its place at the next start",
    )


def _join(root: str, name: str) -> str:
    return f"{root}/{name}" if name else root
