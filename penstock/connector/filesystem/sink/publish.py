"""Move the staged files of a batch into the table's folder, repeatably; find the files that an overwrite replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.catalog.errors import SinkError
from penstock.connector.failpoints import reach
from penstock.connector.filesystem.sink.manifest import Manifest, StagedFile, done_name
from penstock.connector.filesystem.table.location import is_hidden
from penstock.connector.spark import hadoop_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ReplacedPartitions:
    """What is replaced: the partition that is named, else those that get files; all without partitions, or `whole`."""

    partition: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False

    def among(
        self,
        present: Iterable[str],
        written: Iterable[str],
        *,
        keys: Sequence[str],
        default_partition: str,
    ) -> tuple[str, ...]:
        """Return the files of `present` that are replaced, sorted; `written` are the folders that get files."""
        folders = set(written)
        gone = []
        for name in present:
            folder = name.rpartition("/")[0]
            if self.partition:
                values = _values(folder, default_partition)
                fits = all(values.get(key) == value for key, value in self.partition.items())
            else:
                fits = self.whole or not keys or folder in folders
            if fits:
                gone.append(name)
        return tuple(sorted(gone))


def visible_files(names: Iterable[str]) -> list[str]:
    """Leave out what is no part of the table: names, of folders too, that begin with _ or a dot."""
    return sorted(name for name in names if not any(map(is_hidden, name.split("/"))))


def partitions_of(names: Iterable[str], default_partition: str) -> list[Mapping[str, str | None]]:
    """Return the values of each folder that holds files, in the order of folders."""
    folders = sorted({name.rpartition("/")[0] for name in names})
    return [_values(folder, default_partition) for folder in folders if folder]


def _values(folder: str, default_partition: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in folder.split("/"):
        column, _, value = part.partition("=")
        found[unquote(column)] = None if value == default_partition else unquote(value)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFolders:
    """The table's folder and a writer's folder of manifests, without a slash at the end."""

    root: str
    ledger: str


def publish(
    spark: SparkSession,
    manifest: Manifest,
    folders: PublishFolders,
    *,
    success_file: str | None,
    check_lease: Callable[[], None],
) -> None:
    """Move what is still staged, mark the folders, note that all is done. May be called again after any interruption.

    `check_lease` raises where this process is no longer the pipeline's runner. Raises SinkError, a permanent one for a
    file that is neither staged nor in its place, or is not the one that was staged.
    """
    done = f"{folders.ledger}/{done_name(manifest.batch.batch_id)}"
    if hadoop_files.size_of(spark, done) is not None:
        return  # readers may have taken files away since
    check_lease()
    for name in manifest.replaces:
        hadoop_files.delete(spark, f"{folders.root}/{name}")
    for parent in manifest.folders:
        hadoop_files.make_directory(spark, _join(folders.root, parent))
    for file in manifest.files:
        check_lease()
        reach("moving")
        staged = f"{folders.ledger}/{manifest.staging}/{file.staged}"
        if not _is_moved(spark, staged, f"{folders.root}/{file.final}", file.size):
            raise SinkError(
                f"{folders.root}/{file.final} is gone: it is neither in its place nor staged as {staged}",
                hint="restore it; where it was removed on purpose, make the empty file "
                f"{done} and start again",
                permanent=True,
            )
    for file in manifest.files:
        _check(spark, file, folders.root)
    hadoop_files.sync(spark, folders.root, (file.final for file in manifest.files))
    if success_file is not None:
        for parent in manifest.folders:
            hadoop_files.write_text(spark, f"{_join(folders.root, parent)}/{success_file}", "")
    hadoop_files.write_text(spark, done, "")


def _is_moved(spark: SparkSession, staged: str, final: str, size: int | None) -> bool:
    """Rename a file into place, unless it exists: then its staged copy is removed. False: it is missing."""
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
    """Check a file that was moved."""
    final = f"{root}/{file.final}"
    there = hadoop_files.size_of(spark, final)
    if there is None:
        raise SinkError(
            f"{final} is gone, a moment after it was moved there",
            hint="who else removes files?",
            permanent=True,
        )
    if file.size is not None and there != file.size:
        raise _other_size(final, there, file.size)


def _other_size(final: str, there: int, expected: int) -> SinkError:
    return SinkError(
        f"{final} has {there} bytes, and {expected} were written: a copy was cut off, or somebody changed it",
        hint="where it was cut off, remove it: what is staged takes its place at the next start",
        permanent=True,
    )


def _join(root: str, name: str) -> str:
    return f"{root}/{name}" if name else root
