"""What a start would do with a checkpoint, decided before anything runs: start from scratch, resume, or refuse.

Pure: the checkpoint was read by `reader.py`, `SourceStatus` values say what sources hold now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.catalog.errors import InputError, PenstockError
from penstock.connector.source.state import SourceState
from penstock.sql.checkpoint.fingerprint import (
    START_OVER_HINTS,
    QueryFingerprint,
    check_fits,
    ways_on,
)
from penstock.sql.checkpoint.reader import SavedCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStart:
    """Where a split is read from (inclusive), and its end now (exclusive), None where that is not known.

    For Kafka a split is a partition and named `topic-partition`, positions are offsets.
    """

    split: str
    start: int
    end: int | None = None

    @property
    def lag(self) -> int | None:
        """Positions that are available to read; None where the end is unknown."""
        return None if self.end is None else max(0, self.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """What a source holds at this moment. `starts` are by its startup mode; `unknown` says why nothing is known.

    `refusal`: why a query cannot resume from its checkpoint.
    """

    table: str
    starts: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    unknown: str | None = None
    refusal: PenstockError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStart:
    """Where a table is read from. `note` says what splits cannot express."""

    table: str
    splits: tuple[SplitStart, ...] = ()
    note: str | None = None

    @property
    def lag(self) -> int | None:
        """Positions of all splits that are available to read; None where one of them is unknown."""
        lags = [split.lag for split in self.splits]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if known and len(known) == len(lags) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class New:
    """There is no checkpoint, or one in which nothing was read yet: sources start by their startup mode."""

    sources: tuple[SourceStart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The query resumes with batch `batch_id`; `replays`: it was planned before, and reads the same again.

    `unasked` says why it is unknown whether its target is the one that it wrote before.
    """

    batch_id: int
    replays: bool
    sources: tuple[SourceStart, ...] = ()
    unasked: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incompatible:
    """The checkpoint is damaged or of another query: nothing is started. `choices` are the ways on."""

    reason: str
    choices: tuple[str, ...]


StartDecision = New | Resume | Incompatible


def decide_start(
    saved: SavedCheckpoint | None,
    shape: QueryFingerprint,
    sources: Sequence[SourceStatus],
    location: str,
) -> StartDecision:
    """Decide what a start of a query of this shape would do. `sources` are in the query's order."""
    if saved is not None:
        try:
            check_fits(saved.shape, shape, location)
        except InputError as error:
            return Incompatible(reason=error.message, choices=ways_on(saved.shape, shape))
    if saved is None or saved.planned is None:
        return New(sources=tuple(map(_fresh_start, sources)))
    for now in sources:
        if now.refusal is not None:
            hint = now.refusal.hint
            choices = (hint, *START_OVER_HINTS) if hint else START_OVER_HINTS
            return Incompatible(reason=f"{now.table}: {now.refusal.message}", choices=choices)
    offsets = (*saved.offsets, *(None for _ in sources))
    return Resume(
        batch_id=saved.next_batch,
        replays=saved.replays,
        sources=tuple(
            _onward(now, offset, replays=saved.replays)
            for now, offset in zip(sources, offsets, strict=False)
        ),
    )


def refuse_start(error: InputError) -> Incompatible:
    """Return the verdict on a checkpoint that cannot be read."""
    return Incompatible(
        reason=error.message, choices=(error.hint,) if error.hint else START_OVER_HINTS
    )


def _fresh_start(now: SourceStatus) -> SourceStart:
    splits = tuple(
        SplitStart(split=name, start=start, end=now.ends.get(name))
        for name, start in sorted(now.starts.items())
    )
    return SourceStart(table=now.table, splits=splits, note=now.unknown)


def _onward(now: SourceStatus, offset: SourceState | str | None, *, replays: bool) -> SourceStart:
    match offset:
        case None:
            return _fresh_start(now)
        case str():
            return SourceStart(table=now.table, note=f"after the engine's offset {offset}")
    splits = tuple(
        SplitStart(
            split=known.split_id,
            start=known.start if replays else known.end,
            end=now.ends.get(known.split_id),
        )
        for known in offset.splits
    )
    return SourceStart(table=now.table, splits=splits, note=now.unknown)
