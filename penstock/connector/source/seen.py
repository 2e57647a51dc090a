"""Which splits of a watched source were seen: all of them, for good.

Where there is a folder beside the checkpoint, it holds a hash of 128 bits of each name, and the checkpoint names the
files (`segments`): some hundred bytes, however many splits there are. Without one the checkpoint itself holds a hash of
64 bits of each name. Times of modification say nothing: a copy keeps them, a restore renews them, and object stores
know none. Two of ten million names have one hash of 128 bits with a probability of 2e-25 (of 64 bits: 3e-6); then the
one that is found later is not read.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.segments import Segment, appended
from penstock.connector.source.snapshot import HINT

__all__ = ["SeenSplits"]

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
        """Make it of what `snapshot` gave, where that is a text."""
        made = cls()
        made._content.extend(b64decode(snapshot, validate=True))
        made._hashes[_INLINE].update(_pieces(made._content, _INLINE))
        return made

    @classmethod
    def in_files(cls, segments: Sequence[Segment]) -> SeenSplits:
        """Make it of the files of a checkpoint. Raises StateMismatchError for files of a kind that is not known."""
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
        """Give it as text, or name the files that hold it."""
        if self._segments:
            return {"segments": [str(segment.name) for segment in self._segments]}
        return b64encode(self._content).decode()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The files that hold it; none where the checkpoint does."""
        return self._segments

    def new_in(self, split_ids: Collection[str]) -> tuple[str, ...]:
        """Give those that were not seen, in their order; `add` or `keep` follows once they have positions."""
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
        """Take ids for seen, in the checkpoint itself."""
        assert not self._segments, "what files hold is added to by files"
        for split_id in split_ids:
            self._known.add(split_id)
            value = _hash(split_id, _INLINE)
            if value not in self._hashes[_INLINE]:
                self._hashes[_INLINE].add(value)
                self._content += value

    def segments_with(self, split_ids: Collection[str], *, chain: str) -> tuple[Segment, ...]:
        """Give the files that hold it and new ids besides; `chain` is for the first of them. Changes nothing."""
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
        """Take ids for seen, now that files hold them."""
        self._known.update(split_ids)
        self._hashes[_IN_FILES].update(_hash(split_id, _IN_FILES) for split_id in split_ids)
        self._segments = tuple(segments)
        self._content.clear()


def _hash(split_id: str, width: int) -> bytes:
    # a file's name may be no Unicode text
    return blake2b(split_id.encode(errors="surrogatepass"), digest_size=width).digest()


def _pieces(content: bytes | bytearray, width: int) -> Iterable[bytes]:
    return (bytes(content[at : at + width]) for at in range(0, len(content), width))
