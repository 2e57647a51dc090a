"""Where the rows of keys are: for each file that was read, the positions of its keys, in sorted runs.

An index of the driver, asked by `upsert.py`. It may know more than there is: rows that are deleted by now, files that
are gone. Whoever asks takes the files that the table has, and adds positions to what their deletion vectors say
already, so what is too much changes nothing. It must know each file of the table, and has nothing to be wrong about: a
file of a name never changes. So it is of no version, is not stored, and is made anew by reading keys.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.connector.delta.files.key_digests import KeyDigests, Numbers
from penstock.connector.delta.files.roaring import Positions

_RUN_FROM = 4_000_000
"""Keys of files that are read at once before they become a run."""
_RUN_MOST = 16_000_000
"""The most keys of a run that others are merged into: sorting takes a second, and 0.7 GB."""
_ON_DISK_FROM = 1_000_000
"""Keys from which a run is in files, mapped into memory, which the system takes back when it needs it. The files have
no names: nothing removes them before they are used up, and a process that is killed leaves none."""
_RATIO = 3
"""A run is merged with the one before it unless that is so many times as long: there are few, and all grow slowly."""

_Value = TypeVar("_Value", np.uint32, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SortedRun:
    """Keys in the order of their numbers, with the number of the file and the position of each row."""

    low: Numbers
    high: Numbers | None
    file: npt.NDArray[np.uint32]
    position: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.low)

    def found(self, keys: KeyDigests) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return files and positions of the rows of some keys, which are in order."""
        first = np.searchsorted(self.low, keys.low, "left")
        counts = np.searchsorted(self.low, keys.low, "right") - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        at = np.arange(total) + np.repeat(first - (ends - counts), counts)
        if self.high is not None and keys.high is not None:
            at = at[self.high[at] == np.repeat(keys.high, counts)]
        return self.file[at], self.position[at]


@dataclass(slots=True, kw_only=True)
class KeyIndex:
    """The positions of the keys of one table. One thread. An index that raised an error is used no more."""

    wide: bool
    _ids: dict[str, int] = field(default_factory=dict, init=False)
    _paths: list[str | None] = field(default_factory=list, init=False)
    _runs: list[_SortedRun] = field(default_factory=list, init=False)
    _held: list[_SortedRun] = field(default_factory=list, init=False)

    @property
    def keys(self) -> int:
        """The number of rows that are known, of files that are gone too."""
        return sum(map(len, self._runs)) + sum(map(len, self._held))

    def forget_other(self, live: Iterable[str]) -> None:
        """Forget the files that are not of the table."""
        for path in self._ids.keys() - set(live):
            self._paths[self._ids.pop(path)] = None

    def unknown(self, live: Iterable[str]) -> list[str]:
        """Return the files that are to be added."""
        return [path for path in live if path not in self._ids]

    def add(self, path: str, keys: KeyDigests, positions: Positions) -> None:
        """Add the keys of a file at their positions."""
        number = len(self._paths)
        self._ids[path] = number
        self._paths.append(path)
        if len(keys):
            self._held.append(
                _SortedRun(
                    low=keys.low,
                    high=keys.high,
                    file=np.full(len(keys), number, np.uint32),
                    position=positions.astype(np.uint32),
                )
            )
        if sum(map(len, self._held)) >= _RUN_FROM:
            self._settle()

    def positions_of(self, keys: KeyDigests) -> Mapping[str, Positions]:
        """Return the positions of the rows of some keys, by the files that are not forgotten."""
        self._settle()
        order = np.argsort(keys.low)
        asked = keys.taken(order)
        found = [run.found(asked) for run in self._runs]
        if not found:
            return {}
        files = np.concatenate([file for file, _ in found])
        positions = np.concatenate([position for _, position in found]).astype(np.int64)
        order = np.lexsort((positions, files))
        files, positions = files[order], positions[order]
        numbers, starts = np.unique(files, return_index=True)
        ends = np.append(starts, len(files))[1:].tolist()
        return {
            path: np.unique(positions[start:end])
            for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True)
            if (path := self._paths[number]) is not None
        }

    def _settle(self) -> None:
        """Make a run of what was added, and merge it with those that are not much longer."""
        if not self._held:
            return
        run, runs = self._merged(self._held), list(self._runs)
        while runs and len(runs[-1]) <= _RATIO * len(run):
            if len(runs[-1]) + len(run) > _RUN_MOST:
                break
            run = self._merged([runs.pop(), run])
        # an error before leaves all as it was
        self._runs, self._held = [*runs, _stored(run)], []

    def _merged(self, runs: list[_SortedRun]) -> _SortedRun:
        """Return the rows of runs in order, without those of files that are forgotten."""
        alive = np.array([path is not None for path in self._paths], bool)
        low = np.concatenate([run.low for run in runs])
        file = np.concatenate([run.file for run in runs])
        # in near linear time, where the parts are in order already
        order = np.argsort(low, kind="stable")
        order = order[alive[file[order]]]
        highs = [run.high for run in runs if run.high is not None]
        return _SortedRun(
            low=low[order],
            high=np.concatenate(highs)[order] if self.wide else None,
            file=file[order],
            position=np.concatenate([run.position for run in runs])[order],
        )


def _stored(run: _SortedRun) -> _SortedRun:
    """Keep a long run in files. Raises OSError where the disk is full."""
    if len(run) < _ON_DISK_FROM:
        return run
    return _SortedRun(
        low=_mapped(run.low),
        high=None if run.high is None else _mapped(run.high),
        file=_mapped(run.file),
        position=_mapped(run.position),
    )


def _mapped(values: npt.NDArray[_Value]) -> npt.NDArray[_Value]:
    with tempfile.TemporaryFile(prefix="penstock-keys-") as file:
        values.tofile(file)
        file.flush()
        found: npt.NDArray[_Value] = np.memmap(file, values.dtype, "r", shape=values.shape)
        return found
