"""Which splits of a watched source were seen, in bounded space: a checkpoint holds neither names nor times of them all.

The newest are remembered by name. Of older ones a snapshot has a digest of a fixed size: how many names there are in
each of some buckets, and their hashes combined by XOR. While a process lives it knows all names, so that a file which
comes late, under an old time, is new to it. After a restart the digest tells: where a bucket is as it was, all of its
names are known; where it has one or two more, the difference is that of their hashes; where it has one less and the
difference is the hash of a newer name, that one was given another time. What it cannot tell (names removed and added in
one bucket while nobody looked) is taken for seen, and said.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from penstock.connector.source.split import Discovery

__all__ = ["FORGOTTEN", "REMEMBERED", "SeenSplits"]

log = logging.getLogger(__name__)

REMEMBERED = 500
"""Names that a snapshot keeps at least, the newest; twice as many at most."""

BUCKETS = 256
FORGOTTEN = ("floor", "forgotten")
"""Keys of a snapshot beside `seen`."""

_COUNT, _HASH = 4, 8  # bytes of a bucket
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    count: int = 0
    hashes: int = 0


@lru_cache(maxsize=1 << 17)
def _hash(split_id: str) -> int:
    return int.from_bytes(blake2b(split_id.encode(), digest_size=_HASH).digest())


class SeenSplits:
    """The splits that were listed before. A listing without times of modification is remembered whole."""

    def __init__(self) -> None:
        self._recent: dict[str, int] = {}  # id -> time of modification, -1 where it is not known
        self._floor: tuple[int, str] | None = None  # what comes before it is forgotten
        self._old: set[str] = set()  # forgotten names that this process knows
        self._counted: set[str] = set()  # those of them that the last listing had
        self._digest = [_Bucket() for _ in range(BUCKETS)]
        self._compared = True  # the digest was read by this process, or is its own

    @classmethod
    def restored(cls, seen: Any, floor: Any, forgotten: str) -> SeenSplits:
        """Make it of a snapshot; in older ones `seen` is a list of names."""
        made = cls()
        made._recent = dict(seen) if isinstance(seen, Mapping) else dict.fromkeys(seen, -1)
        made._floor = None if floor is None else (int(floor[0]), str(floor[1]))
        made._digest = _decoded(forgotten)
        made._compared = made._floor is None
        return made

    def snapshot(self) -> dict[str, Any]:
        """Give it as JSON values, keys in fixed order."""
        return {
            "seen": dict(sorted(self._recent.items())),
            "floor": None if self._floor is None else list(self._floor),
            "forgotten": "" if self._floor is None else _encoded(self._digest),
        }

    def new_in(self, discovery: Discovery) -> tuple[str, ...]:
        """Give the ids of a listing that were not seen, in its order; `add` follows once they have positions."""
        times = discovery.modified_ms
        for split_id in self._recent.keys() & times.keys():
            self._recent[split_id] = times[split_id]
        unknown = [i for i in discovery.owners if i not in self._recent and i not in self._old]
        if not self._compared:
            self._compared = True
            seen = self._compare(unknown, times)
            self._old |= seen
            unknown = [split_id for split_id in unknown if split_id not in seen]
        self._count(discovery.owners.keys() & self._old)
        return tuple(unknown)

    def add(self, split_ids: Collection[str], modified_ms: Mapping[str, int]) -> None:
        """Take ids for seen. Forgets the oldest names when there are many."""
        for split_id in split_ids:
            self._recent[split_id] = modified_ms.get(split_id, -1)
        if len(self._recent) > 2 * REMEMBERED and modified_ms:
            self._forget(modified_ms)

    def _forget(self, listed: Mapping[str, int]) -> None:
        order = sorted((time, split_id) for split_id, time in self._recent.items())
        floor = order[-REMEMBERED]
        self._floor = floor if self._floor is None else max(self._floor, floor)
        gone = {split_id for time, split_id in order if (time, split_id) < self._floor}
        for split_id in gone:
            del self._recent[split_id]
        self._old |= gone
        self._count((gone & listed.keys()) | self._counted)

    def _count(self, listed: set[str]) -> None:
        """Bring the digest up to what a listing has of the forgotten names."""
        for split_id in listed ^ self._counted:
            value = _hash(split_id)
            bucket = self._digest[value % BUCKETS]
            self._digest[value % BUCKETS] = _Bucket(
                count=bucket.count + (1 if split_id in listed else -1),
                hashes=bucket.hashes ^ value,
            )
        self._counted = listed

    def _compare(self, unknown: Sequence[str], times: Mapping[str, int]) -> set[str]:
        """Tell which of a first listing's names are forgotten ones, by the digest of the snapshot."""
        assert self._floor is not None, "nothing was forgotten"
        older = {i for i in unknown if (times.get(i, -1), i) < self._floor}
        newer = [split_id for split_id in unknown if split_id not in older]
        found = _digest_of(older)
        seen, unclear = set(older), set()
        by_bucket = _in_buckets(older), _in_buckets(newer)
        for number, (before, now) in enumerate(zip(self._digest, found, strict=True)):
            if before == now:
                continue
            difference = before.hashes ^ now.hashes
            olds, news = (each.get(number, ()) for each in by_bucket)
            added = _added(olds, difference, now.count - before.count)
            changed = [i for i in news if _hash(i) == difference]
            if added:
                seen -= set(added)
            elif now.count == before.count - 1 and changed:
                seen |= set(changed)
            elif olds:
                unclear |= set(olds)
        if unclear:
            _say(unclear)
        self._digest, self._counted = [_Bucket() for _ in range(BUCKETS)], set()
        return seen


def _added(split_ids: Sequence[str], difference: int, count: int) -> tuple[str, ...]:
    """Find the one or two ids whose hashes make a difference."""
    by_hash = {_hash(split_id): split_id for split_id in split_ids}
    if count == 1 and difference in by_hash:
        return (by_hash[difference],)
    if count == 2:
        for value, split_id in by_hash.items():
            other = by_hash.get(difference ^ value, split_id)
            if other != split_id:
                return split_id, other
    return ()


def _say(unclear: set[str]) -> None:
    names = sorted(unclear)
    log.warning(
        "files with old modification times were removed, or added, while nobody looked: none of %d is read, among them "
        "%s; should one of them be new, give it another name and a new time",
        len(names),
        ", ".join(names[:_SHOWN]),
    )


def _digest_of(split_ids: Iterable[str]) -> list[_Bucket]:
    counts, hashes = [0] * BUCKETS, [0] * BUCKETS
    for value in map(_hash, split_ids):
        counts[value % BUCKETS] += 1
        hashes[value % BUCKETS] ^= value
    return [_Bucket(count=count, hashes=each) for count, each in zip(counts, hashes, strict=True)]


def _in_buckets(split_ids: Iterable[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for split_id in split_ids:
        found.setdefault(_hash(split_id) % BUCKETS, []).append(split_id)
    return found


def _encoded(digest: Sequence[_Bucket]) -> str:
    return b"".join(
        bucket.count.to_bytes(_COUNT) + bucket.hashes.to_bytes(_HASH) for bucket in digest
    ).hex()


def _decoded(text: str) -> list[_Bucket]:
    if not text:
        return [_Bucket() for _ in range(BUCKETS)]
    content, size = bytes.fromhex(text), _COUNT + _HASH
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    assert len(pieces) == BUCKETS, "a digest of another version"
    return [
        _Bucket(count=int.from_bytes(each[:_COUNT]), hashes=int.from_bytes(each[_COUNT:]))
        for each in pieces
    ]
