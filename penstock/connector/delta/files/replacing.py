"""What a file that others were put together in is, as of a later version of the table: which of its rows are of it.

`compaction.py` asks it when it commits such a file. A row of the new file is of the table as long as it is of the table
in its source; rows that were deleted since the sources were read get into a deletion vector of the new file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.connector.delta.files.deletion_vector import VectorFolder
from penstock.connector.delta.files.live_files import LiveFile, LiveFiles
from penstock.connector.delta.files.roaring import Positions, sorted_positions
from penstock.connector.delta.files.small_files import SmallFile
from penstock.connector.storage import Folder


class ChangedSourcesError(Exception):
    """A new file cannot take the place of its sources, as others changed them meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFile:
    """A file whose rows are in another one, in their order, from position `start` on; not those `deleted` before."""

    file: SmallFile
    rows: int
    start: int
    deleted: Positions

    def carried(self, deleted: Positions | None) -> Positions:
        """Return where rows are in the new file that are deleted by now; all of them where None: the file is gone.

        Raises ChangedSourcesError where a row that was deleted is of the table again, as after RESTORE.
        """
        if deleted is None:
            return self.start + np.arange(self.rows - len(self.deleted), dtype=np.int64)
        if not np.isin(self.deleted, deleted, assume_unique=True).all():
            raise ChangedSourcesError(f"rows of {self.file.path} were deleted and are there again")
        new = np.setdiff1d(deleted, self.deleted, assume_unique=True)
        return self.start + new - np.searchsorted(self.deleted, new)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFiles:
    """The files that were put together in a file of a table, as of the version `version`."""

    files: Sequence[RewrittenFile]
    version: int

    def at(self, table: Folder, version: int) -> LiveFiles:
        """Return those that are of the table at a later version. Raises ChangedSourcesError."""
        live = LiveFiles()
        live.begin(self.version, (_add(source.file) for source in self.files))
        if not live.follow(table, version):
            raise ChangedSourcesError(f"the log up to version {version} is not there")
        return live

    def removed(self, live: LiveFiles, at_ms: int) -> Iterator[dict[str, Any]]:
        """Return the actions that remove those that are of the table, without a change of rows."""
        for source in self.files:
            if source.file.path in live:
                action = live[source.file.path].removed(at_ms)
                yield {"remove": {**action, "dataChange": False}}

    def deleted(self, live: LiveFiles, vectors: VectorFolder) -> Positions:
        """Return where rows are in the new file that are not of the table any more.

        Raises ChangedSourcesError, and DamagedVectorError.
        """
        parts = []
        for source in self.files:
            if source.file.path not in live:
                parts.append(source.carried(None))
                continue
            vector = live[source.file.path].vector
            now = np.empty(0, np.int64) if vector is None else vectors.read(vector)
            parts.append(source.carried(now))
        return sorted_positions(iter(parts))


def _add(file: SmallFile) -> Mapping[str, Any]:
    add = {
        "path": file.path,
        "size": file.size_bytes,
        "partitionValues": dict(file.partition),
    }
    return add if file.vector is None else {**add, "deletionVector": dict(file.vector)}


def with_deleted_rows(
    add: Mapping[str, Any], rows: int, deleted: Positions, vectors: VectorFolder
) -> dict[str, Any]:
    """Return the action that adds a new file of so many rows, some of which are deleted: writes its vector."""
    if not len(deleted):
        return {"add": dict(add)}
    path = str(add["path"])
    described = vectors.write({path: deleted})
    found = LiveFile(add=add).with_vector(described[path], rows)
    return {"add": {**found, "dataChange": add["dataChange"]}}
