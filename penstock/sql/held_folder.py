"""Folders in the system's temporary one with what only this user may read, each locked by the process that made it.

A process that is killed leaves its folder there and its lock not: the next one of the same kind removes it. Used for
keys (`spark_process/java_environment.py`) and for tokens (`processes/live_pages.py`).
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir, mkdtemp


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFolder:
    """A folder that is locked until `remove`, or until this process ends, however it ends."""

    path: Path
    _lock: int | None

    def remove(self) -> None:
        """Remove it; what cannot be removed stays."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)


def hold_folder(prefix: str) -> HeldFolder:
    """Make a folder whose name begins with `prefix`, and remove those of killed processes of this user."""
    _remove_abandoned(prefix)
    path = Path(mkdtemp(prefix=f"{prefix}{os.getpid()}-"))  # mode 0700
    return HeldFolder(path=path, _lock=_lock(path))


def _lock(folder: Path) -> int | None:
    with suppress(
        ImportError, OSError
    ):  # Windows has no such locks: there nothing is removed by another process
        import fcntl

        opened = os.open(folder, os.O_RDONLY)
        fcntl.flock(opened, fcntl.LOCK_EX)
        return opened
    return None


def _remove_abandoned(prefix: str) -> None:
    """Remove folders without a lock. Process ids would not tell: another container that shares /tmp has its own."""
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
