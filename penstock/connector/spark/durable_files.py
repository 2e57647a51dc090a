"""Files on a local disk that survive a loss of power: written whole or not at all, and durable once a function
returns.

Hadoop's local file system neither syncs what it writes nor refuses to rename over a file, so `hadoop_files` comes here
for local paths. Its checksum files (`.name.crc`) are removed where they would be of another content.

`umask` is Hadoop's `fs.permissions.umask-mode`: files and folders get the rights that Hadoop would give them, of which
the umask of this process may only take.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import BinaryIO
from uuid import uuid4

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
"""What file systems without hard links say."""

DEFAULT_UMASK = 0o022
"""Hadoop's own default."""

LOCK_LOOKS = 100
LOCK_POLL_S = 0.1
"""How long a writer waits, on those, for another one that is between two steps."""


def write_new(path: Path, content: bytes, umask: int = DEFAULT_UMASK) -> bool:
    """Write a file atomically. False where one exists already, which stays.

    Of two processes that do so at once, one succeeds.
    """
    _make_folder(path.parent, umask)
    if path.exists():
        return False
    temporary = _temporary(path, content, umask)
    try:
        _forget_checksum(path)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if not _rename_alone(temporary, path):
                return False
    finally:
        temporary.unlink(missing_ok=True)
    sync([path.parent])
    return True


def replace(path: Path, content: bytes, umask: int | None = DEFAULT_UMASK) -> None:
    """Replace a file atomically, or create it: readers find the old or the new one.

    `umask` None, for writers without Spark's session: by the rights of the folder, whatever the umask of this process.
    """
    stream = open_temporary(path, umask)
    try:
        stream.write(content)
        publish(stream, path)
    except BaseException:
        discard(stream)
        raise


def open_temporary(path: Path, umask: int | None = DEFAULT_UMASK) -> BinaryIO:
    """Open a file that gets its content piece by piece, beside `path` and by a name that begins as that does.

    `publish` makes it a file that is there, and `discard` removes it. `umask` as of `replace`.
    """
    beside = umask is None
    umask = umask_of_folder(path) if umask is None else umask
    _make_folder(path.parent, umask, exact=beside)
    return _opened(path, umask, exact=beside)


def publish(stream: BinaryIO, path: Path) -> None:
    """Close a file of `open_temporary`, and rename it to `path`, in its folder, in place of a file of that name.

    Raises OSError where the file stays as it is, which `discard` removes.
    """
    _synced(stream)
    _forget_checksum(path)
    Path(stream.name).replace(path)
    sync([path.parent])


def discard(stream: BinaryIO) -> None:
    """Close and remove a file of `open_temporary`, unless it is published."""
    with suppress(OSError):  # what is still to be written does not matter: the disk may be full
        stream.close()
    Path(stream.name).unlink(missing_ok=True)


def umask_of_folder(path: Path) -> int:
    """Return the umask by which the nearest folder above `path` was made.

    So a file in a checkpoint can be read by whoever reads the rest, and by nobody else.
    """
    for folder in path.parents:
        with suppress(OSError):
            return ~folder.stat().st_mode & 0o777
    return DEFAULT_UMASK


def sync(paths: Iterable[Path]) -> None:
    """Wait until the content of files, or the names in folders, are on the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # not every file system can sync a folder
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
                raise
        finally:
            os.close(descriptor)


def sync_below(root: Path, names: Iterable[str]) -> None:
    """Sync files of a folder and all folders on the way to them, which may be new; the folder itself is the last."""
    files = [root / name for name in names]
    folders = {root / above for file in files for above in file.relative_to(root).parents}
    sync([*files, *sorted(folders, reverse=True)])


def _temporary(path: Path, content: bytes, umask: int) -> Path:
    stream = _opened(path, umask)
    try:
        stream.write(content)
        _synced(stream)
    except BaseException:
        discard(stream)
        raise
    return Path(stream.name)


def _opened(path: Path, umask: int, *, exact: bool = False) -> BinaryIO:
    def create(name: str, _: int) -> int:
        opened = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 & ~umask)
        try:
            if exact:
                os.fchmod(opened, 0o666 & ~umask)
        except BaseException:
            os.close(opened)
            temporary.unlink(missing_ok=True)
            raise
        return opened

    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}.tmp")
    return open(temporary, "wb", opener=create)


def _synced(stream: BinaryIO) -> None:
    with stream:
        stream.flush()
        os.fsync(stream.fileno())


def _rename_alone(temporary: Path, path: Path) -> bool:
    """Rename where no file exists yet: a rename replaces one, so one writer at a time checks and renames.

    A lock that a killed process left behind is not broken: one that is merely paused would decide a second time.
    """
    lock = path.with_name(f".{path.name}.lock")
    for _ in range(LOCK_LOOKS):
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if path.exists():
                return False
            Event().wait(LOCK_POLL_S)
    else:
        raise OSError(
            errno.EAGAIN,
            "another process is writing here; where none is left, one was killed: remove this lock",
            str(lock),
        )
    try:
        if path.exists():
            return False
        temporary.rename(path)
        return True
    finally:
        lock.unlink(missing_ok=True)


def _make_folder(folder: Path, umask: int, *, exact: bool = False) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent, umask, exact=exact)
    folder.mkdir(mode=0o777 & ~umask, exist_ok=True)
    if exact:
        folder.chmod(0o777 & ~umask)
    sync([folder.parent])


def _forget_checksum(path: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
