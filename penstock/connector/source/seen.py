"""Which splits of a watched source were seen: all of them, for good, in eleven bytes of a checkpoint each.

A name is kept as its hash of 64 bits. Times of modification say nothing: a copy keeps them, a restore renews them, and
object stores know none. Two of a hundred thousand names have one hash with a probability of 3e-10, two of a million
3e-8: then the one that is found later is not read.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable
from hashlib import blake2b

__all__ = ["SeenSplits"]

_HASH = 8  # bytes


class SeenSplits:
    """The splits that were listed before. A name that vanishes stays: a listing may miss it for a while."""

    def __init__(self) -> None:
        self._content = (
            bytearray()
        )  # the hashes in the order in which they came, as a snapshot has them
        self._hashes: set[bytes] = set()
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
        """Make it of what `snapshot` gave."""
        made = cls()
        made._content.extend(b64decode(snapshot, validate=True))
        made._hashes.update(_pieces(made._content))
        return made

    def snapshot(self) -> str:
        """Give it as text."""
        return b64encode(self._content).decode()

    def new_in(self, split_ids: Collection[str]) -> tuple[str, ...]:
        """Give those that were not seen, in their order; `add` follows once they have positions."""
        new = []
        for split_id in split_ids:
            if split_id in self._known:
                continue
            if _hash(split_id) in self._hashes:
                self._known.add(split_id)
            else:
                new.append(split_id)
        return tuple(new)

    def add(self, split_ids: Collection[str]) -> None:
        """Take ids for seen."""
        for split_id in split_ids:
            self._known.add(split_id)
            value = _hash(split_id)
            if value not in self._hashes:
                self._hashes.add(value)
                self._content += value


def _hash(split_id: str) -> bytes:
    # a file's name may be no Unicode text
    return blake2b(split_id.encode(errors="surrogatepass"), digest_size=_HASH).digest()


def _pieces(content: bytes | bytearray) -> Iterable[bytes]:
    return (bytes(content[at : at + _HASH]) for at in range(0, len(content), _HASH))
