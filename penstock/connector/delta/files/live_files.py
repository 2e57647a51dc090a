"""The files that a Delta table has as of a version, as the log describes them: followed from commit to commit.

`upsert.py` asks it. The first look comes from Delta, whatever form its checkpoint has; later ones read the commits in
between, also those of other writers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from penstock.connector.delta.files.deletion_vector import Descriptor
from penstock.connector.storage import Folder

LOG = "_delta_log"

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,:]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A file of a table. `add` is the action of the log by which it is one."""

    add: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The path, as the log has it."""
        return str(self.add["path"])

    @property
    def local_path(self) -> str:
        """The path below the table's folder."""
        return unquote(self.path)

    @property
    def elsewhere(self) -> bool:
        """Whether it lies outside of the table's folder, as the files of a clone do."""
        return bool(_ABSOLUTE.match(self.path))

    @property
    def vector(self) -> Descriptor | None:
        """Its deletion vector."""
        found: Descriptor | None = self.add.get("deletionVector")
        return found

    @property
    def rows(self) -> int | None:
        """The rows in the file, those of the deletion vector too; None where the log does not say."""
        found = json.loads(self.add.get("stats") or "{}").get("numRecords")
        return None if found is None else int(found)

    def removed(self, at_ms: int) -> dict[str, Any]:
        """Return the action that removes it, with a change of rows."""
        action = {
            "path": self.path,
            "deletionTimestamp": at_ms,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": dict(self.add.get("partitionValues") or {}),
            "size": self.add["size"],
        }
        return action if self.vector is None else {**action, "deletionVector": dict(self.vector)}

    def with_vector(self, vector: Descriptor, rows: int) -> dict[str, Any]:
        """Return the action that adds it again with another deletion vector: bounds are wide then."""
        stats = _members(self.add.get("stats") or "{}")
        stats |= {"numRecords": str(rows), "tightBounds": "false"}
        text = ",".join(f"{json.dumps(name)}:{value}" for name, value in stats.items())
        stats_text = f"{{{text}}}"
        return {**self.add, "dataChange": True, "stats": stats_text, "deletionVector": dict(vector)}


class LiveFiles:
    """The files of one table, by their paths as the log has them. One thread."""

    def __init__(self) -> None:
        self.version = -1
        self._begun = False
        self._files: dict[str, LiveFile] = {}

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[LiveFile]:
        return iter(self._files.values())

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def __getitem__(self, path: str) -> LiveFile:
        return self._files[path]

    @property
    def paths(self) -> frozenset[str]:
        """All paths."""
        return frozenset(self._files)

    def begin(self, version: int, adds: Iterable[Mapping[str, Any]]) -> None:
        """Begin with all files of a version; -1 is that before the first commit."""
        self._files = {add["path"]: LiveFile(add=add) for add in adds}
        self.version, self._begun = version, True

    def follow(self, table: Folder, version: int) -> bool:
        """Read the commits up to a version. False where one is gone, or it is an earlier version: `begin` is due."""
        log = table.below(LOG)
        if not self._begun or self.version > version:
            return False
        while self.version < version:
            text = log.text(f"{self.version + 1:020}.json")
            if text is None:
                return False
            self.apply(text)
        return True

    def apply(self, commit: str) -> None:
        """Take the text of the next commit, whose actions have no order among them."""
        added: list[Mapping[str, Any]] = []
        for line in commit.split("\n"):
            if '"add"' not in line and '"remove"' not in line:
                continue
            action = json.loads(line)
            if action.get("remove") is not None:
                self._files.pop(action["remove"]["path"], None)
            if action.get("add") is not None:
                added.append(action["add"])
        self._files.update({add["path"]: LiveFile(add=add) for add in added})
        self.version += 1


def _members(text: str) -> dict[str, str]:
    """Return the members of a JSON object by name, as they are written: a bound of 38 digits is none once rounded."""
    found: dict[str, str] = {}
    at = _after(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _after(text, at)
        _, end = _DECODER.raw_decode(text, start)
        found[name], at = text[start:end], _after(text, end)
    return found


def _after(text: str, at: int) -> int:
    """Return the place behind what separates names and values."""
    between = _BETWEEN.match(text, at)
    assert between is not None, "it matches nothing, too"
    return between.end()
