"""The environment in which Spark's Java process is launched: without the keys of secrets and keystores.

Python workers are children of that process. They decrypt what a table's options hold, so they get the key as a file
that only this user may read, and a variable that names it.
"""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from penstock.catalog.secrets.crypto import KEY_FILE_VARIABLE, KEY_VARIABLE

FOLDER = "penstock-key-of-"
HIDDEN = (KEY_VARIABLE, "PENSTOCK_TLS_KEYSTORE_PASSWORD")
"""Variables that this process alone reads."""


@contextmanager
def java_environment() -> Iterator[None]:
    """Launch a process in here: it is the child of an environment without keys, which is then as it was.

    PySpark passes on `os.environ` without a choice (`launch_gateway`).
    """
    hidden = {name: os.environ[name] for name in HIDDEN if name in os.environ}
    named = os.environ.get(KEY_FILE_VARIABLE)
    if not hidden:
        yield
        return
    try:
        if keys := hidden.get(KEY_VARIABLE):
            os.environ[KEY_FILE_VARIABLE] = str(_key_file(keys))
        for name in hidden:
            del os.environ[name]
        yield
    finally:
        os.environ.update(hidden)
        if named is None:
            os.environ.pop(KEY_FILE_VARIABLE, None)
        else:
            os.environ[KEY_FILE_VARIABLE] = named


def _key_file(keys: str) -> Path:
    """Write keys to a file in a folder of this user only, which goes when the process ends."""
    _remove_stale_folders()
    folder = mkdtemp(prefix=f"{FOLDER}{os.getpid()}-")  # mode 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _hold(Path(folder))
    file = Path(folder) / "secret.key"
    file.touch(mode=0o600)
    file.write_text("\n".join(keys.replace(",", " ").split()) + "\n", encoding="utf-8")
    return file


def _hold(folder: Path) -> None:
    """Lock a folder until this process ends, however it ends."""
    with suppress(
        ImportError, OSError
    ):  # Windows has no such locks: there nothing is removed by another process
        import fcntl

        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)


def _remove_stale_folders() -> None:
    """Remove the keys of killed processes of this user.

    A lock shows that: process ids differ in another container, which may share the folder.
    """
    with suppress(ImportError):
        import fcntl

        for folder in Path(gettempdir()).glob(f"{FOLDER}*"):
            with suppress(OSError):
                opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    if os.fstat(opened).st_uid == os.geteuid() and any(folder.iterdir()):
                        # one without a file is being made
                        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(opened)
