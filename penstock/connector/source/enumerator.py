"""Protocols of split enumerators and of their context (FLIP-27), and the JSON form of enumerator checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.segments import SegmentFiles
from penstock.connector.source.split import Split

T = TypeVar("T")

EnumeratorState = Mapping[str, Any]
"""A snapshot as JSON values with keys in fixed order; the enumerator's `kind` and `version` are among them."""


class SplitEnumeratorContext(Protocol):
    """What the coordinator offers its enumerator (Flink's SplitEnumeratorContext). Coordinator thread only."""

    @property
    def parallelism(self) -> int:
        """Number of readers that the job has."""

    @property
    def registered_readers(self) -> Collection[int]:
        """The registered readers."""

    def open_segment_files(self) -> SegmentFiles | None:
        """Open the folder beside the checkpoint, for what would make snapshots grow; None where there is none.

        It may block: its result is for the work of calls.
        """

    def assign_splits(self, assignment: Mapping[int, Sequence[Split]]) -> None:
        """Assign splits to registered readers; tracked until a checkpoint that holds them completes."""

    def signal_no_more_splits(self, reader: int) -> None:
        """Signal a reader that it has its last split."""

    def call_async(
        self,
        work: Callable[[], T],
        handler: Callable[[T | None, Exception | None], None],
        *,
        delay_ms: int = 0,
        every_ms: int | None = None,
    ) -> None:
        """Run `work` (which may block) off this thread, then `handler` on it with the outcome.

        Once, or every `every_ms` ms. A periodic call is due again `every_ms` after it was last due, and never
        runs twice at a time.
        """

    def send_event(self, reader: int, event: object) -> None:
        """Send a reader an event of the source's own."""

    def set_processing_backlog(self, *, backlog: bool) -> None:
        """Signal all readers, current and future, that old records are read (IsProcessingBacklog, FLIP-309)."""


class SplitEnumerator(Protocol):
    """Finds splits and assigns them. An exception of any method fails the job with that cause.

    `pulls`: splits are assigned when a reader asks for one, else as soon as they are found.
    """

    pulls: ClassVar[bool]

    def start(self) -> None:
        """Begin. Called once, before any other method."""

    def handle_split_request(self, reader: int, location: str | None) -> None:
        """A reader asks for a split (pull). Not called once its last split was signalled."""

    def add_splits_back(self, splits: Sequence[Split], reader: int) -> None:
        """A reader failed and these, assigned since its last checkpoint, have to be read again from their start."""

    def add_reader(self, reader: int) -> None:
        """A reader registered; splits for it may be waiting."""

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:
        """Return what a restart needs: the splits not assigned yet, and which ones were."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete everywhere."""

    def handle_source_event(self, reader: int, event: object) -> None:
        """A reader sent an event of the source's own."""

    def close(self) -> None:
        """End; no method is called afterwards."""

    @classmethod
    def source_ids(cls, state: EnumeratorState) -> Mapping[str, str]:
        """Return the ids that a snapshot holds of what its splits belong to (`Discovery.source_ids`), by name.

        Raises StateMismatchError for a snapshot of another kind of enumerator.
        """

    @classmethod
    def is_bounded(cls, state: EnumeratorState) -> bool:
        """Return whether a snapshot is of a scan whose end gave each split its stop; a scan without one lifts it.

        Raises StateMismatchError for a snapshot of another kind of enumerator.
        """


MakeEnumerator = Callable[[SplitEnumeratorContext, EnumeratorState | None], SplitEnumerator]
"""Makes an enumerator: new where the state is None, else restored from a snapshot."""

HINT = "run the version of Penstock that wrote the checkpoint, or start over with another pipeline.name"


def check_snapshot(
    state: EnumeratorState, *, kind: str, version: int, keys: Collection[str]
) -> None:
    """Refuse a snapshot of another kind of enumerator, of an unknown version or with unknown keys.

    `keys` are those besides `kind` and `version`. Raises StateMismatchError.
    """
    if state.get("kind") != kind:
        raise StateMismatchError(
            f"the checkpoint is of a source with a {state.get('kind')!r} enumerator, this table has a {kind!r} one",
            hint="a table that is read in another way needs another pipeline.name",
        )
    if state.get("version") != version:
        raise StateMismatchError(
            f"the checkpoint holds a {kind!r} enumerator of version {state.get('version')!r}, "
            f"this Penstock reads {version}",
            hint=HINT,
        )
    check_keys(state, {"kind", "version", *keys}, f"a {kind!r} enumerator")


def check_keys(state: Mapping[str, Any], keys: Collection[str], what: str) -> None:
    """Refuse a state that has other keys than these. Raises StateMismatchError."""
    wrong = sorted(set(state) ^ set(keys))
    if wrong:
        raise StateMismatchError(
            f"the checkpoint of {what} does not fit: unknown or missing {', '.join(wrong)}",
            hint=HINT,
        )


def encode_split(split: Split) -> dict[str, Any]:
    """Write a split as JSON values: what every split has, not what connectors add."""
    return {"id": split.split_id, "start": split.start, "stop": split.stop, "owner": split.owner}


def decode_split(value: Mapping[str, Any]) -> Split:
    """Read what `encode_split` wrote; `SplitMetadataClient.split` makes the connector's own of it."""
    return Split(
        split_id=value["id"], start=value["start"], stop=value["stop"], owner=value["owner"]
    )
