"""Small text files on any file system that Spark's Hadoop knows: local paths, HDFS, object stores.

What is written is on the disk, or with the store, when a function returns: a machine that loses power keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.connector.spark import durable_files
from penstock.connector.spark.internals import file_system, java_array, jvm_of, static_method

_MISSING = "java.io.FileNotFoundException"

_OBJECT_STORES = frozenset({"s3a", "s3", "s3n", "gs"})
"""File systems whose files appear whole, when they are closed, and whose renames are a copy and a removal."""


def exists(spark: SparkSession, path: str) -> bool:
    """Tell whether there is a file or directory."""
    system, file = file_system(spark, path)
    return bool(system.exists(file))


def read_text(spark: SparkSession, path: str) -> str | None:
    """Read a UTF-8 file; None where there is none."""
    system, file = file_system(spark, path)
    if not system.exists(file):
        return None
    try:
        stream = system.open(file)
    except Py4JJavaError as error:
        if _is_missing(error):  # removed in between
            return None
        raise
    try:
        return bytes(stream.readAllBytes()).decode("utf-8")
    finally:
        stream.close()


def write_text(spark: SparkSession, path: str, text: str) -> bool:
    """Write a UTF-8 file atomically. False where one exists already, which stays.

    Of two processes that write one at once, one succeeds; on object stores only reading it again shows that.
    """
    system, file = file_system(spark, path)
    local = _local(system, file)
    if local is not None:
        return durable_files.write_new(local, text.encode("utf-8"), _umask(spark, system))
    temporary = file.suffix(f".{uuid4().hex[:8]}.tmp")
    _write(system, temporary, text)
    written = not system.exists(file) and bool(system.rename(temporary, file))
    if not written:
        system.delete(temporary, False)
    return written


def replace_text(spark: SparkSession, path: str, text: str) -> None:
    """Replace a UTF-8 file atomically, or create it: readers find the old or the new one."""
    system, file = file_system(spark, path)
    local = _local(system, file)
    if local is not None:
        durable_files.replace(local, text.encode("utf-8"), _umask(spark, system))
        return
    if system.getUri().getScheme() in _OBJECT_STORES:
        _put(system, file, text)
        return
    jvm = jvm_of(spark)
    temporary = file.suffix(f".{uuid4().hex[:8]}.tmp")
    _write(system, temporary, text)
    # FileSystem.rename never replaces; Spark's own checkpoints go the same way
    context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(system.getUri(), system.getConf())
    kind = jvm.org.apache.hadoop.fs.Options.Rename
    context.rename(temporary, file, java_array(spark, kind, kind.OVERWRITE))


def list_names(spark: SparkSession, path: str) -> list[str]:
    """Return the names of what is in a directory, sorted; empty where there is no such directory."""
    system, directory = file_system(spark, path)
    if not system.exists(directory):
        return []
    try:
        found = system.listStatus(directory)
    except Py4JJavaError as error:
        if _is_missing(error):  # removed in between
            return []
        raise
    return sorted(status.getPath().getName() for status in found)


def size_of(spark: SparkSession, path: str) -> int | None:
    """Return the bytes of a file; None where there is none."""
    system, file = file_system(spark, path)
    try:
        return int(system.getFileStatus(file).getLen())
    except Py4JJavaError as error:
        if _is_missing(error):
            return None
        raise


def rename(spark: SparkSession, path: str, target: str) -> bool:
    """Rename a file or directory on its file system. Returns whether that succeeded.

    It is not where there is one of the new name, or none of the old one.
    """
    system, file = file_system(spark, path)
    _, other = file_system(spark, target)
    try:
        return not system.exists(other) and bool(system.rename(file, other))
    except Py4JJavaError as error:
        # HDFS says False, others raise
        if _is_missing(error):
            return False
        raise


def delete(spark: SparkSession, path: str) -> None:
    """Remove a file, or a directory with all that is in it; nothing happens where there is none."""
    system, file = file_system(spark, path)
    system.delete(file, True)


def sync(spark: SparkSession, folder: str, names: Iterable[str]) -> None:
    """Wait until files of a folder, and the folders that they are in up to it, are on this machine's disk.

    Nothing is done on other file systems: they keep what was closed by themselves.
    """
    system, root = file_system(spark, folder)
    local = _local(system, root)
    if local is not None:
        durable_files.sync_below(local, names)


def list_files(spark: SparkSession, path: str) -> dict[str, int]:
    """Return the files below a directory: paths inside it with slashes, in bytes each; empty where there is none."""
    system, directory = file_system(spark, path)
    if not system.exists(directory):
        return {}
    root = system.resolvePath(directory).toUri().getPath().rstrip("/")
    found = {}
    listed = system.listFiles(directory, True)
    while listed.hasNext():
        status = listed.next()
        whole = str(status.getPath().toUri().getPath())
        found[whole.removeprefix(f"{root}/")] = int(status.getLen())
    return found


def make_directory(spark: SparkSession, path: str) -> bool:
    """Make a directory and those above it. False where a file is in the way."""
    system, directory = file_system(spark, path)
    if system.exists(directory):
        return bool(system.getFileStatus(directory).isDirectory())
    return bool(system.mkdirs(directory))


def _local(system: Any, file: Any) -> Path | None:
    """Return a path of this machine as Python's; None for other file systems."""
    if system.getUri().getScheme() != "file":
        return None
    return Path(str(system.makeQualified(file).toUri().getPath()))


def _umask(spark: SparkSession, system: Any) -> int:
    umask = static_method(spark, "org.apache.hadoop.fs.permission.FsPermission", "getUMask")
    return int(umask(system.getConf()).toShort())


def _put(system: Any, file: Any, text: str) -> None:
    """Write an object over one of its name. It is not closed half-written: that would show what there is."""
    stream = system.create(file, True)
    try:
        stream.write(bytearray(text.encode("utf-8")))
    except BaseException:
        with suppress(Py4JJavaError):  # not every store can; none shows what is never closed
            stream.abort()
        raise
    stream.close()


def _write(system: Any, file: Any, text: str) -> None:
    stream = system.create(file, True)
    try:
        stream.write(bytearray(text.encode("utf-8")))
        if stream.hasCapability("hsync"):  # object stores have no such thing, and say so
            stream.hsync()
    finally:
        stream.close()


def _is_missing(error: Py4JJavaError) -> bool:
    return str(error.java_exception.getClass().getName()) == _MISSING
