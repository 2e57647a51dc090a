"""Which files of a folder an overwriting INSERT replaces, and which partitions there are: rules over names of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from penstock.connector.filesystem.location import is_hidden

__all__ = ["Replaced", "partitions_of", "visible_files"]


@dataclass(frozen=True, slots=True)
class Replaced:
    """What is replaced: the partition that is named, else those that get files; all without partitions, or `whole`."""

    partition: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False

    def among(
        self,
        present: Iterable[str],
        written: Iterable[str],
        *,
        keys: Sequence[str],
        default_partition: str,
    ) -> tuple[str, ...]:
        """Give the files of `present` that are replaced, sorted; `written` are the folders that get files."""
        folders = set(written)
        gone = []
        for name in present:
            folder = name.rpartition("/")[0]
            if self.partition:
                values = _values(folder, default_partition)
                fits = all(values.get(key) == value for key, value in self.partition.items())
            else:
                fits = self.whole or not keys or folder in folders
            if fits:
                gone.append(name)
        return tuple(sorted(gone))


def visible_files(names: Iterable[str]) -> list[str]:
    """Leave out what is no part of the table: names, of folders too, that begin with _ or a dot."""
    return sorted(name for name in names if not any(map(is_hidden, name.split("/"))))


def partitions_of(names: Iterable[str], default_partition: str) -> list[Mapping[str, str | None]]:
    """Give the values of each folder that holds files, in the order of folders."""
    folders = sorted({name.rpartition("/")[0] for name in names})
    return [_values(folder, default_partition) for folder in folders if folder]


def _values(folder: str, default_partition: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in folder.split("/"):
        column, _, value = part.partition("=")
        found[unquote(column)] = None if value == default_partition else unquote(value)
    return found
