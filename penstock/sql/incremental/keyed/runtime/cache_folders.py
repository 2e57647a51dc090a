"""The folders of caches and segments on the local disk of an executor: one for each state of a checkpoint.

For the thread that runs a task.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from penstock.sql.incremental.keyed.runtime.segment_files import mapped_segments

_processes: defaultdict[int, set[Path]] = defaultdict(set)
"""The folders in which a process has taken up something."""


def state_folder(caches: Path, location: str, state_id: str) -> Path:
    """Return the folder of a state whose files are at `location`: a copy of a checkpoint has the same id."""
    return caches / hashlib.sha256(location.encode()).hexdigest()[:16] / state_id


def begin_state(folder: Path) -> None:
    """Remove, once in a process, what is there of other states of the same checkpoint.

    One that starts over has another id, as has one whose first batch is tried again. A task of an earlier attempt that
    still runs begins anew where its own is gone, and so does one of this state where that attempt starts late.
    """
    begun = _processes[os.getpid()]
    if folder in begun:
        return
    begun.add(folder)
    mapped_segments().forget(folder.parent, but=folder)
    others: list[Path] = []
    with suppress(OSError):
        others = [path for path in folder.parent.iterdir() if path != folder]
    for path in others:
        shutil.rmtree(path, ignore_errors=True)
