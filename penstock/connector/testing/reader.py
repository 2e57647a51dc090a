"""Read the records of a fixture: splits and positions on the driver, ranges in a task."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from penstock.catalog.errors import BadRecordError, StateMismatchError
from penstock.connector.contract import Accept
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import AssignedSplits, Discovery, Split, SplitOffsets
from penstock.connector.testing.decode import RecordDecoder, by_split, published, read_records

OWNER = "fixture"


class FixtureMetadataClient:
    """A SplitMetadataClient over records in files. All splits are there from the start, some without records yet."""

    def __init__(self, folder: Path, decoder: RecordDecoder) -> None:
        """Read the records. `decoder` makes the columns that peeks return."""
        self._folder = folder
        self._decoder = decoder
        self._records = by_split(read_records(folder))

    def list_splits(self) -> Discovery:
        """List the splits that ever have a record."""
        return Discovery(owners=dict.fromkeys(self._records, OWNER), source_ids={})

    def start_positions(
        self,
        split_ids: Sequence[str],
        *,
        first_listing: bool,  # noqa: ARG002  a test gives what is to be read
    ) -> Mapping[str, int]:
        """Begin with the first record, whatever the table's startup mode."""
        return {split_id: self._records[split_id][0].offset for split_id in split_ids}

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """End with the last record of the last step."""
        return {split_id: self._records[split_id][-1].offset + 1 for split_id in split_ids}

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, SplitOffsets]:
        """Return the published offsets."""
        ends = published(self._folder)
        return {
            split_id: SplitOffsets(first=0, end=ends.get(split_id, 0)) for split_id in split_ids
        }

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Return the last decodable and accepted record of each range."""
        found: dict[str, pa.RecordBatch] = {}
        for split_id, (first, end) in ranges.items():
            for record in reversed(self._records[split_id]):
                if not first <= record.offset < end:
                    continue
                try:
                    decoded = self._decoder.decode({split_id: [record]})
                except BadRecordError:
                    continue
                rows = dict(decoded.batches)
                if rows and (accept is None or accept(rows)):
                    batch = rows[split_id]
                    found[split_id] = batch.slice(batch.num_rows - 1)
                    break
        return found

    def split(self, split_id: str, start: int, stop: int | None) -> Split:
        """Make a task's split."""
        return Split(split_id=split_id, start=start, stop=stop, owner=OWNER)

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:
        """Make an error that no fixture gives: records are never removed."""
        return StateMismatchError(f"{split_id}: position {position} is not in {extent}")

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        """Make an error that no fixture gives: there is one owner."""
        return StateMismatchError(f"{owner} was {known} and is {found}")

    def commit(self, positions: Mapping[str, int]) -> None:
        """Do nothing: no test looks."""

    def close(self) -> None:
        """Nothing is held."""


FETCH_S = 1.0
"""How long `fetch` waits where nothing is to be read."""


class FixtureReader:
    """A SplitReader over records in files. Ranges have an end: batches are what reads them."""

    def __init__(self, folder: Path, decoder: RecordDecoder, *, origins: bool = False) -> None:
        self._records = by_split(read_records(folder))
        self._decoder = decoder
        self._origins = origins
        self._splits = AssignedSplits[Split]()

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Add splits."""
        for split in splits:
            assert split.stop is not None, f"{split.split_id} has no end"
            self._splits.add(split)

    def fetch(self) -> RecordsWithSplitIds:
        """Read the first range that is not paused. Raises BadRecordError."""
        split = next(iter(self._splits.active()), None)
        if split is None or split.stop is None:
            self._splits.wait(FETCH_S)
            return RecordsWithSplitIds()
        split_id = split.split_id
        self._splits.remove(split_id)
        finished, positions = frozenset({split_id}), {split_id: split.stop}
        records = [r for r in self._records[split_id] if split.start <= r.offset < split.stop]
        if not records:
            return RecordsWithSplitIds(finished=finished, positions=positions)
        decoded = self._decoder.decode({split_id: records})
        return replace(
            decoded,
            finished=finished,
            positions=positions,
            origins=decoded.origins if self._origins else {},
            read={split_id: len(records)},
        )

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Pause or resume splits (FLIP-217); unknown ids are ignored."""
        self._splits.pause_or_resume(pause, resume)

    def wake_up(self) -> None:
        """End a `fetch` that waits."""
        self._splits.wake_up()

    def close(self) -> None:
        """Nothing is held."""
