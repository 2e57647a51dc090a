"""Folders of this user alone that a process has for its lifetime: keys for Spark's processes, sockets of them.

Used by `java_environment.py` and `worker_sockets.py`. Those of killed processes go when the next one is made.
"""

from __future__ import annotations

import atexit
import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp


def make_process_folder(prefix: str) -> Path:
    """Make a folder below the temporary one, which goes when this process ends; remove stale ones of the prefix."""
    _remove_stale_folders(prefix)
    folder = Path(mkdtemp(prefix=f"{prefix}{os.getpid()}-"))  # mode 0700
    atexit.register(_remove, folder, os.getpid())
    _hold(folder)
    return folder


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder, but not at the end of a fork of the process that it is of."""
    if owner == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


def _hold(folder: Path) -> None:
    """Lock a folder until this process ends, however it ends."""
    with suppress(
        ImportError, OSError
    ):  # Windows has no such locks: there nothing is removed by another process
        import fcntl

        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)


def _remove_stale_folders(prefix: str) -> None:
    """Remove the folders of killed processes of this user.

    A lock shows that: process ids differ in another container, which may share the folder.
    """
    with suppress(ImportError):
        import fcntl

        for folder in Path(gettempdir()).glob(f"{prefix}*"):
            with suppress(OSError):
                opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    if os.fstat(opened).st_uid == os.geteuid() and any(folder.iterdir()):
                        # one without a file is being made
                        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(opened)
