"""Splits: the units of a source that are read in order, and the offsets and listings of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
class SplitOffsets:
    """The positions that a split holds now: `first` is the oldest one (inclusive), `end` is exclusive and stable.

    For Kafka `end` is the last stable offset under read_committed, the high watermark otherwise.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """One listing of a source: its split ids, and an identity of what each belongs to.

    `source_ids` maps a name (Kafka: the topic) to an id that changes when it is deleted and made again (Kafka: the
    topic id of KIP-516). `owners` maps each split id to that name.
    """

    owners: Mapping[str, str]
    source_ids: Mapping[str, str]
