"""Splits: the units of a source that are read in order, their offsets and listings, and those that a reader has."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of a source that is read in order (Flink's SourceSplit): a Kafka partition, a file, a chunk.

    Positions are integers that only grow (Kafka: offsets; files: bytes). `start` is the first position to read,
    inclusive; `stop` is exclusive, None for a split without an end. `owner` names what the split belongs to
    (Kafka: the topic). Connectors subclass it to add what their reader needs (`SplitMetadataClient.split`).
    """

    split_id: str
    start: int
    stop: int | None = None
    owner: str = ""

    def __post_init__(self) -> None:
        assert self.split_id, "a split needs an id"
        assert self.start >= 0, (
            f"split {self.split_id}: start {self.start} is not a resolved position"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSize:
    """Up to how many positions a task reads of several splits; the begin of each counts as `opening` of them.

    `of_records`: a position is a record, and not a byte.
    """

    positions: int
    opening: int
    of_records: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOffsets:
    """The positions that a split holds now: `first` is the oldest one (inclusive), `end` is exclusive and stable.

    For Kafka `end` is the last stable offset under read_committed, the high watermark otherwise. `epoch` is the log's
    as `end` was seen, a number that is higher after each change of who writes the log (Kafka: the leader epoch); None
    where the source has none.
    """

    first: int
    end: int
    epoch: int | None = None


@runtime_checkable
class ChecksLogEnds(Protocol):
    """A metadata client of logs that may become shorter: other records take the place of those that were there."""

    def log_ends(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Return where logs end, exclusive, also past what can be read yet."""


@runtime_checkable
class AwaitsStops(Protocol):
    """A metadata client of logs whose last records may not be readable yet (Kafka: a transaction is open)."""

    def unreadable(
        self, split_id: str, position: int, stop: int, extent: SplitOffsets
    ) -> Exception:
        """Make the error for a bounded split that cannot be read from a position to its stop."""


@runtime_checkable
class ChecksEpochs(Protocol):
    """A metadata client of logs that may be cut and grow again, which their epochs show."""

    def cuts(self, positions: Mapping[str, tuple[int, int]]) -> Mapping[str, int]:
        """Return where logs were cut below a position that was read in an epoch; those that were not are absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """One listing of a source: its split ids, and an identity of what each belongs to.

    `source_ids` maps a name (Kafka: the topic) to an id that changes when it is deleted and made again (Kafka: the
    topic id of KIP-516). `owners` maps each split id to that name.
    """

    owners: Mapping[str, str]
    source_ids: Mapping[str, str]

    def changes_since(self, known: Mapping[str, str]) -> Iterator[tuple[str, str, str | None]]:
        """Yield each name whose id is another than the known one: with that, and its id now, None where it is gone."""
        for owner, known_id in sorted(known.items()):
            found = self.source_ids.get(owner)
            if found != known_id:
                yield owner, known_id, found


S = TypeVar("S", bound=Split)


class AssignedSplits(Generic[S]):
    """The splits of a SplitReader that reads one after the other, and the wait of its `fetch` when all are paused.

    Used by the reader's thread; `wake_up` alone may be called from another.
    """

    def __init__(self) -> None:
        self._splits: dict[str, S] = {}  # in reading order
        self._paused: set[str] = set()
        self._woken = threading.Event()

    def add(self, split: S) -> None:
        """Add a split behind the others."""
        assert split.split_id not in self._splits, f"{split.split_id} is being read already"
        self._splits[split.split_id] = split

    def remove(self, split_id: str) -> None:
        """Remove a split that is finished."""
        del self._splits[split_id]
        self._paused.discard(split_id)

    def active(self) -> tuple[S, ...]:
        """Return the splits that are not paused, in reading order."""
        return tuple(s for split_id, s in self._splits.items() if split_id not in self._paused)

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Pause or resume splits (FLIP-217); an id in both is paused, as in Flink.

        Unknown ids are ignored: they may just have finished.
        """
        self._paused -= set(resume)
        self._paused |= set(pause) & self._splits.keys()

    def wait(self, timeout_s: float) -> None:
        """Wait until `wake_up`, or for a time."""
        self._woken.wait(timeout_s)
        self._woken.clear()

    def wake_up(self) -> None:
        """End a `wait`, or the next one."""
        self._woken.set()
