"""Assign splits on request (files): a reader without work asks and gets the next split, or waits for one.

Every split of a monitored source that was assigned is remembered in the checkpoint by eleven bytes of a hash.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar

from penstock.catalog.errors import SinkError, StateMismatchError
from penstock.connector.source.enumerator import (
    HINT,
    EnumeratorState,
    SplitEnumeratorContext,
    check_keys,
    check_snapshot,
    decode_split,
    encode_split,
)
from penstock.connector.source.segments import Segment, SegmentFiles, appended, read_segments
from penstock.connector.source.split import Discovery, Split

if TYPE_CHECKING:
    from penstock.connector.contract import SplitMetadataClient


_INLINE = 8  # bytes of a hash in the checkpoint itself, which may have come into a file later

_IN_FILES = 16

_KINDS = {"hash8": _INLINE, "hash16": _IN_FILES}


class SeenSplits:
    """The splits that were listed before. A name that vanishes stays: a listing may miss it for a while."""

    def __init__(self) -> None:
        self._content = bytearray()  # hashes that are in no file, in the order in which they came
        self._segments: tuple[Segment, ...] = ()
        self._hashes: dict[int, set[bytes]] = {_INLINE: set(), _IN_FILES: set()}
        self._known: set[str] = (
            set()
        )  # names that this process found to be seen: they are hashed once

    @classmethod
    def of(cls, split_ids: Iterable[str]) -> SeenSplits:
        """Make it of names, as older snapshots have them."""
        made = cls()
        made.add(list(split_ids))
        return made

    @classmethod
    def restored(cls, snapshot: str) -> SeenSplits:
        """Make it of what `snapshot` returned, where that is a text."""
        made = cls()
        made._content.extend(b64decode(snapshot, validate=True))
        made._hashes[_INLINE].update(_pieces(made._content, _INLINE))
        return made

    @classmethod
    def in_files(cls, segments: Sequence[Segment]) -> SeenSplits:
        """Make it of the files of a checkpoint. Raises StateMismatchError for files of an unknown kind."""
        made = cls()
        made._segments = tuple(segments)
        for segment in segments:
            if segment.name.kind not in _KINDS:
                raise StateMismatchError(
                    f"the checkpoint names a file of a kind that is not known here: {segment.name}",
                    hint=HINT,
                )
            width = _KINDS[segment.name.kind]
            made._hashes[width].update(_pieces(segment.content, width))
        return made

    def snapshot(self) -> str | Mapping[str, Sequence[str]]:
        """Return it as text, or name the files that hold it."""
        if self._segments:
            return {"segments": [str(segment.name) for segment in self._segments]}
        return b64encode(self._content).decode()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The files that hold it; none where the checkpoint does."""
        return self._segments

    def new_in(self, split_ids: Collection[str]) -> tuple[str, ...]:
        """Return those that were not seen, in their order; `add` or `keep` follows once they have positions."""
        new = []
        for split_id in split_ids:
            if split_id in self._known:
                continue
            if any(_hash(split_id, width) in seen for width, seen in self._hashes.items() if seen):
                self._known.add(split_id)
            else:
                new.append(split_id)
        return tuple(new)

    def add(self, split_ids: Collection[str]) -> None:
        """Mark ids as seen, in the checkpoint itself."""
        assert not self._segments, "what files hold is added to by files"
        for split_id in split_ids:
            self._known.add(split_id)
            value = _hash(split_id, _INLINE)
            if value not in self._hashes[_INLINE]:
                self._hashes[_INLINE].add(value)
                self._content += value

    def segments_with(self, split_ids: Collection[str], *, chain: str) -> tuple[Segment, ...]:
        """Return the files that hold it and new ids besides; `chain` is for the first of them. Changes nothing."""
        segments = self._segments
        if segments:
            chain = segments[0].name.chain
        elif self._content:
            inline = bytes(self._content)
            count = len(inline) // _INLINE
            segments = appended((), chain=chain, kind="hash8", count=count, content=inline)
        content = b"".join(_hash(split_id, _IN_FILES) for split_id in split_ids)
        return appended(segments, chain=chain, kind="hash16", count=len(split_ids), content=content)

    def keep(self, split_ids: Collection[str], segments: Sequence[Segment]) -> None:
        """Mark ids as seen, now that files hold them."""
        self._known.update(split_ids)
        self._hashes[_IN_FILES].update(_hash(split_id, _IN_FILES) for split_id in split_ids)
        self._segments = tuple(segments)
        self._content.clear()


def _hash(split_id: str, width: int) -> bytes:
    # a file's name may be no Unicode text
    return blake2b(split_id.encode(errors="surrogatepass"), digest_size=width).digest()


def _pieces(content: bytes | bytearray, width: int) -> Iterable[bytes]:
    return (bytes(content[at : at + width]) for at in range(0, len(content), width))


KIND = "pulling"

VERSION = 4
"""What was seen is in files."""

WITH_HASHES = 3
"""What was seen is in the snapshot itself: of older versions, and where there is no folder for files."""

WITH_ALL_NAMES = 1
"""Snapshots of older versions: every name ever seen."""

WITH_A_DIGEST = 2
"""Snapshots of versions in between: the newest names, and a digest of the others where there were many."""

KEYS = ("listed", "seen", "unassigned")


class WaitingReaders:
    """Readers that asked for a split and have no answer yet, in the order in which they asked.

    One that failed meanwhile waits no longer: what it was before it registered again asked, not what it is now.
    """

    def __init__(self, context: SplitEnumeratorContext) -> None:
        self._context = context
        self._asked: dict[int, None] = {}

    def add(self, reader: int) -> None:
        """A reader asks; asking again changes nothing."""
        self._asked[reader] = None

    def forget(self, reader: int) -> None:
        """Drop a reader's request, if there is one."""
        self._asked.pop(reader, None)

    def take(self) -> int | None:
        """Remove and return the reader that waits longest; None where none does."""
        registered = self._context.registered_readers
        while self._asked:
            reader = next(iter(self._asked))
            del self._asked[reader]
            if reader in registered:
                return reader
        return None


class PullingEnumerator:
    """A SplitEnumerator that answers requests, one split each, in the order in which `planner` lists them.

    `interval_ms` is the time between listings; None lists once, and signals a requesting reader when nothing is left.
    """

    pulls: ClassVar[bool] = True

    def __init__(
        self,
        context: SplitEnumeratorContext,
        state: EnumeratorState | None = None,
        *,
        planner: SplitMetadataClient,
        interval_ms: int | None,
    ) -> None:
        """Make it new or from a snapshot. Raises StateMismatchError for an unknown one."""
        self._context = context
        self._planner = planner
        self._interval_ms = interval_ms
        self._waiting = WaitingReaders(context)
        self._files = context.open_segment_files()
        self._seen = SeenSplits()
        self._in_files: Sequence[str] = ()  # names of files that were not read yet
        self._unassigned: deque[Split] = deque()
        self._listed = False
        self._resolving = False
        if state is not None:
            if state.get("version") == VERSION:
                self._in_files = _file_names(state, self._files)
            else:
                self._seen = _seen(state)
            self._unassigned.extend(decode_split(value) for value in state["unassigned"])
            self._listed = state["listed"]

    def start(self) -> None:
        """List the splits; a static source whose listing is in its checkpoint has them already."""
        if self._interval_ms is None and self._listed:
            return
        if self._files is not None and self._in_files:
            self._context.call_async(
                partial(read_segments, self._files, self._in_files), self._seen_read
            )
        else:
            self._list()

    def handle_split_request(self, reader: int, location: str | None) -> None:  # noqa: ARG002  of the contract
        """Answer with the next split, with the end, or later."""
        self._waiting.add(reader)
        self._serve()

    def add_splits_back(self, splits: Sequence[Split], reader: int) -> None:  # noqa: ARG002  of the contract
        """Splits of a failed reader come before all others."""
        self._unassigned.extendleft(reversed(splits))
        self._serve()

    def add_reader(self, reader: int) -> None:
        """Wait until it asks."""
        self._waiting.forget(reader)

    def snapshot_state(self, checkpoint_id: int) -> EnumeratorState:  # noqa: ARG002  of the contract
        """Return what was seen, and the unassigned splits, in reading order."""
        seen = {"segments": list(self._in_files)} if self._in_files else self._seen.snapshot()
        return {
            "kind": KIND,
            "version": WITH_HASHES if isinstance(seen, str) else VERSION,
            "listed": self._listed,
            "seen": seen,
            "unassigned": [encode_split(split) for split in self._unassigned],
        }

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Nothing: what was read stays where it is."""

    def handle_source_event(self, reader: int, event: object) -> None:
        """Nothing: readers send none."""

    def close(self) -> None:
        """Nothing: the planner is its opener's."""

    @classmethod
    def source_ids(cls, state: EnumeratorState) -> Mapping[str, str]:  # noqa: ARG003  of the contract
        """None: splits are told apart by their names."""
        return {}

    @classmethod
    def is_bounded(cls, state: EnumeratorState) -> bool:  # noqa: ARG003  of the contract
        """Return no: stops are the splits' own."""
        return False

    def _seen_read(self, segments: Sequence[Segment] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        assert segments is not None, "files without a result"
        self._seen, self._in_files = SeenSplits.in_files(segments), ()
        self._list()

    def _list(self) -> None:
        self._context.call_async(
            self._planner.list_splits, self._splits_listed, every_ms=self._interval_ms
        )

    def _splits_listed(self, discovery: Discovery | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        assert discovery is not None, "a listing without a result"
        if self._resolving:
            return  # what is new is found again by the next listing
        new = self._seen.new_in(discovery.owners)
        if not new:
            self._add(_FoundSplits())
            return
        self._resolving = True
        owners = {split_id: discovery.owners[split_id] for split_id in new}
        self._context.call_async(
            partial(
                _resolve,
                self._planner,
                owners,
                first_listing=not self._listed,
                seen=self._seen,
                files=self._files,
            ),
            self._splits_resolved,
        )

    def _splits_resolved(self, found: _FoundSplits | None, error: Exception | None) -> None:
        self._resolving = False
        if error is not None:
            raise error
        assert found is not None, "positions without a result"
        self._add(found)

    def _add(self, found: _FoundSplits) -> None:
        split_ids = [split.split_id for split in found.splits]
        if found.segments:
            self._seen.keep(split_ids, found.segments)
        elif split_ids:
            self._seen.add(split_ids)
        self._unassigned.extend(found.splits)
        self._listed = True
        self._serve()

    def _serve(self) -> None:
        """Answer the waiting readers, as far as there are splits, or with the end."""
        while self._unassigned and (reader := self._waiting.take()) is not None:
            self._context.assign_splits({reader: [self._unassigned.popleft()]})
        if self._listed and self._interval_ms is None and not self._unassigned:
            while (reader := self._waiting.take()) is not None:
                self._context.signal_no_more_splits(reader)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundSplits:
    """New splits, and the files that hold them and all that was seen before; none where the snapshot does."""

    splits: tuple[Split, ...] = ()
    segments: tuple[Segment, ...] = ()


def _file_names(state: EnumeratorState, files: SegmentFiles | None) -> Sequence[str]:
    """Return the files that a snapshot of this version names.

    Raises StateMismatchError, and SinkError where there is no folder to read them from.
    """
    check_snapshot(state, kind=KIND, version=VERSION, keys=KEYS)
    if files is None:
        raise SinkError(
            "the checkpoint says in files beside it which files were read, and their folder cannot be opened",
            hint="run it where it ran before, with the same rights: pyarrow has to open the checkpoint's file system",
        )
    seen: Mapping[str, Sequence[str]] = state["seen"]
    check_keys(seen, {"segments"}, "the files that were read")
    return tuple(seen["segments"])


def _seen(state: EnumeratorState) -> SeenSplits:
    """Read what a snapshot that needs no files says was seen. Raises StateMismatchError."""
    version = state.get("version")
    if version == WITH_ALL_NAMES:
        check_snapshot(state, kind=KIND, version=WITH_ALL_NAMES, keys=KEYS)
        return SeenSplits.of(state["seen"])
    if version == WITH_A_DIGEST:
        check_snapshot(state, kind=KIND, version=version, keys=(*KEYS, "floor", "forgotten"))
        if state["floor"] is not None:
            raise StateMismatchError(
                "the checkpoint does not hold all names of the files that were read",
                hint=HINT,
            )
        return SeenSplits.of(state["seen"])
    if version != WITH_HASHES:
        check_snapshot(state, kind=KIND, version=VERSION, keys=KEYS)
    check_snapshot(state, kind=KIND, version=WITH_HASHES, keys=KEYS)
    return SeenSplits.restored(state["seen"])


def _resolve(
    planner: SplitMetadataClient,
    owners: dict[str, str],
    *,
    first_listing: bool,
    seen: SeenSplits,
    files: SegmentFiles | None,
) -> _FoundSplits:
    """Resolve positions and record the splits seen with them; runs on the executor's worker, so it changes nothing.

    No listing is applied meanwhile, so that `seen` does not change.
    """
    starts = planner.start_positions(tuple(owners), first_listing=first_listing)
    stops = planner.stop_positions(tuple(owners))
    splits = tuple(
        Split(split_id=split_id, start=starts[split_id], stop=stops.get(split_id), owner=owner)
        for split_id, owner in owners.items()
        if split_id in starts
    )
    if files is None or not splits:
        return _FoundSplits(splits=splits, segments=seen.segments)
    segments = seen.segments_with([s.split_id for s in splits], chain=files.new_chain())
    files.write([s for s in segments if s not in seen.segments], segments)
    return _FoundSplits(splits=splits, segments=segments)
