"""The environment in which Spark's Java process is launched: without the keys of secrets and keystores.

Python workers are children of that process. They decrypt what a table's options hold, so they get the key as a file
that only this user may read, and a variable that names it.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.catalog.secrets.crypto import KEY_FILE_VARIABLE, KEY_VARIABLE
from penstock.sql.held_folder import hold_folder

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
    folder = hold_folder(FOLDER)
    atexit.register(folder.remove)
    file = folder.path / "secret.key"
    file.touch(mode=0o600)
    file.write_text("\n".join(keys.replace(",", " ").split()) + "\n", encoding="utf-8")
    return file
