"""Limits on connections: how many at a time, in all and per address; and how long a log-in waits after failures.

Attempts of one address, or for one name, wait longer and longer; a log-in from elsewhere, or from an address that has
logged in before, does not wait for them. Where too many wait to log in, the oldest is closed, unless its password is
being checked. Times come from the caller.
"""

from __future__ import annotations

import socket
from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock

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
        """Take a turn: returns how long to wait before the password is checked; None: refuse it unchecked."""
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
        """Forget the failures of a user at an address, which is theirs from now on, whatever others guess there."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many connections, and for how long."""

    connections: int = 256
    connections_per_address: int = 128
    waiting: int = 64
    """Connections that have not logged in."""

    waiting_per_address: int = 16
    login_s: float = 15.0
    """Time for TLS and for name and password, all in all; the check of the password does not count."""

    turn_s: float = 30.0
    """Time in the line for the check of a password, after what failures before it cost."""

    idle_s: float = 3600.0
    """Time without a call, after which a connection and its session end."""


@dataclass(slots=True, eq=False)
class Guest:
    """A connection. `checked`: its password is being checked, so it is not made to make way.

    `waits_until_s`: it has said its password and waits for its turn, so long at most.
    """

    connection: socket.socket
    address: str
    since_s: float
    checked: bool = False
    waits_until_s: float | None = None
    _over: Event = field(default_factory=Event)

    @property
    def ended(self) -> bool:
        """Whether it was ended."""
        return self._over.is_set()

    def pause(self, wait_s: float) -> None:
        """Block the connection's own thread, at most until the connection ends."""
        self._over.wait(wait_s)

    def end(self) -> None:
        """End the connection; its own thread notices."""
        self._over.set()
        with suppress(OSError):
            # not by TLS, which another thread may be in the middle of
            socket.socket.shutdown(self.connection, socket.SHUT_RDWR)


class Guests:
    """All connections. Any thread may ask."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._lock = Lock()
        self._waiting: list[Guest] = []
        self._inside: list[Guest] = []

    def admit(self, guest: Guest) -> bool:
        """Admit a connection to wait for its log-in, replacing another where there are too many; False: no room."""
        with self._lock:
            ours = [other for other in self._waiting if other.address == guest.address]
            if len(ours) >= self._bounds.waiting_per_address and not self._make_way(ours):
                return False
            if len(self._waiting) >= self._bounds.waiting and not self._make_way(self._waiting):
                return False
            self._waiting.append(guest)
            return True

    def begin_check(self, guest: Guest) -> bool:
        """Protect a connection whose password is being checked from being replaced; False: it was replaced before."""
        with self._lock:
            guest.checked = not guest.ended
            return guest.checked

    def let_in(self, guest: Guest) -> bool:
        """Count a connection among those that have logged in; False: there are too many."""
        with self._lock:
            ours = sum(other.address == guest.address for other in self._inside)
            if (
                guest.ended
                or len(self._inside) >= self._bounds.connections
                or ours >= self._bounds.connections_per_address
            ):
                return False
            self._waiting.remove(guest)
            self._inside.append(guest)
            return True

    def leave(self, guest: Guest) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            for guests in (self._waiting, self._inside):
                if guest in guests:
                    guests.remove(guest)

    def end_late(self, now_s: float) -> None:
        """End the connections whose time for the log-in is over."""
        with self._lock:
            for guest in self._waiting:
                until_s = guest.waits_until_s
                if until_s is None:
                    until_s = guest.since_s + self._bounds.login_s
                if not guest.checked and now_s > until_s:
                    guest.end()

    def end_all(self) -> None:
        """End every connection."""
        with self._lock:
            for guest in (*self._waiting, *self._inside):
                guest.end()

    def _make_way(self, guests: list[Guest]) -> bool:
        """End the first connection that can be, of the address that has most of them among those."""
        free = [guest for guest in guests if not guest.checked]
        if not free:
            return False
        counts = Counter(guest.address for guest in guests)
        first = max(free, key=lambda guest: counts[guest.address])
        first.end()
        self._waiting.remove(first)
        return True
