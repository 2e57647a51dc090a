"""How Spark's Java process and its Python processes talk: by Unix sockets in a folder of this process.

By TCP, what one side writes in small parts waits for an acknowledgement that the other delays: 40 ms in many tasks.
Used by `spark_session.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.sql.spark_process.class_path import spark_defaults
from penstock.sql.spark_process.process_folder import make_process_folder

ENABLED = "spark.python.unix.domain.socket.enabled"
DIRECTORY = "spark.python.unix.domain.socket.dir"

SWITCH = "PYSPARK_UDS_MODE"
"""Spark's variable for the same."""

LONGEST_PATH = 104 - (36 + 1 + 5 + 1)
"""Characters of a folder that Spark accepts: it adds a UUID, a dot, `.sock` and a separator to it."""

PREFIX = "penstock-uds-"


@dataclass(slots=True)
class _Folder:
    """The folder of this process's sockets; another one in a fork of it."""

    path: Path | None = None
    owner: int = 0

    def of_this_process(self) -> Path:
        """Return the folder, made when it is needed first, or was removed."""
        if self.path is None or self.owner != os.getpid() or not self.path.is_dir():
            self.path, self.owner = make_process_folder(PREFIX), os.getpid()
        return self.path


_FOLDER = _Folder()


def socket_settings(conf: Mapping[str, str], *, in_process: bool) -> dict[str, str]:
    """Return Spark's settings for Unix sockets; none where Spark talks by TCP, as it does by default.

    `in_process`: the Python processes run on this machine, where the folder is. On Linux alone, and not where the user
    says something of it: in `conf`, in a `spark-defaults.conf`, by Spark's variable. A temporary folder of a long path
    has no room for the name of a socket.
    """
    if not in_process or sys.platform != "linux" or SWITCH in os.environ:
        return {}
    own = spark_defaults()
    if any(key in conf or key in own for key in (ENABLED, DIRECTORY)):
        return {}
    folder = str(_FOLDER.of_this_process())
    if len(folder) > LONGEST_PATH:
        return {}
    return {ENABLED: "true", DIRECTORY: folder}
