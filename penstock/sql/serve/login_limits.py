"""How long a log-in has to wait for the failures before it: by user and address, by address, and by user.

Guesses of one address, or at one name, wait longer and longer, one after the other; who logs in from elsewhere, or has
logged in from the same address before, does not wait for them. Times come from the caller.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

__all__ = ["LONGEST_WAIT_S", "LoginLimits"]

LONGEST_WAIT_S = 20.0
"""A log-in that would have to wait longer is refused at once."""

FORGOTTEN_AFTER_S = 900.0
MAX_KEYS = 10_000
"""Names and addresses that are remembered; beyond that the longest unused are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """So many failures are free; then the time between two attempts doubles from `first_s` up to `most_s`.

    `in_turn`: attempts that come at once wait for each other.
    """

    free: int
    first_s: float
    most_s: float
    in_turn: bool = True

    def pause_s(self, failures: int) -> float:
        beyond = failures - self.free
        return 0.0 if beyond <= 0 else min(self.first_s * 2 ** min(beyond - 1, 30), self.most_s)


@dataclass(slots=True)
class _Tries:
    failures: int = 0
    next_s: float = 0.0
    used_s: float = 0.0


_OF_BOTH = _Rule(free=2, first_s=0.5, most_s=30.0)
_OF_ADDRESS = _Rule(free=8, first_s=0.25, most_s=10.0)
# somebody else's guesses at a name must not keep its owner out
_OF_NAME = _Rule(free=20, first_s=0.25, most_s=1.0, in_turn=False)


class LoginLimits:
    """Counts failures. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tries: OrderedDict[tuple[str, ...], _Tries] = OrderedDict()
        self._trusted: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait_s(self, name: str, address: str, now_s: float) -> float | None:
        """Take a turn: how long to wait before the password is checked; None: refuse it without a look."""
        with self._lock:
            turns = []
            for key, rule in self._rules(name, address):
                # only failures are remembered: names that are asked for cost the others none of theirs
                tries = self._known(key, now_s) or _Tries()
                pause_s = rule.pause_s(tries.failures) if rule.in_turn else 0.0
                turns.append((tries, max(tries.next_s, now_s), pause_s))
            begin_s = max(at_s for _, at_s, _ in turns)
            if begin_s - now_s > LONGEST_WAIT_S:
                return None
            for tries, _, pause_s in turns:
                # what a turn at one key waits for holds nobody up at the others
                tries.next_s = max(tries.next_s, now_s) + pause_s
            return begin_s - now_s

    def failed(self, name: str, address: str, now_s: float) -> None:
        """Count a wrong password."""
        with self._lock:
            for key, rule in self._rules(name, address):
                tries = self._known(key, now_s) or self._new(key, now_s)
                tries.failures += 1
                tries.next_s = max(tries.next_s, now_s + rule.pause_s(tries.failures))

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures of a user at an address, which is theirs from now on, whoever guesses there."""
        own = (_folded(name), address)
        with self._lock:
            self._tries.pop(("both", *own), None)
            self._trusted[own] = None
            self._trusted.move_to_end(own)
            if len(self._trusted) > MAX_KEYS:
                self._trusted.popitem(last=False)

    def _rules(self, name: str, address: str) -> tuple[tuple[tuple[str, ...], _Rule], ...]:
        name = _folded(name)
        own = (("both", name, address), _OF_BOTH)
        if (name, address) in self._trusted:
            return (own,)
        return own, (("address", address), _OF_ADDRESS), (("name", name), _OF_NAME)

    def _known(self, key: tuple[str, ...], now_s: float) -> _Tries | None:
        tries = self._tries.get(key)
        if tries is None:
            return None
        if now_s - tries.used_s > FORGOTTEN_AFTER_S:
            del self._tries[key]
            return None
        tries.used_s = now_s
        self._tries.move_to_end(key)
        return tries

    def _new(self, key: tuple[str, ...], now_s: float) -> _Tries:
        tries = self._tries[key] = _Tries(used_s=now_s)
        if len(self._tries) > MAX_KEYS:
            self._tries.popitem(last=False)
        return tries


def _folded(name: str) -> str:
    """A directory takes a name in any case, with spaces around it: it is one name to guess at."""
    return name.strip().casefold()
