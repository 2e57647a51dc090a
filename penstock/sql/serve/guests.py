"""Who is connected: so many at a time, in all and from one address, before the log-in and after it.

Where too many wait to log in, the one that came first makes way, unless its password is being checked: neither idle
connections nor guesses that wait for their turn keep anybody out. Times come from the caller.
"""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock

__all__ = ["Bounds", "Guest", "Guests"]


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
        """Whether somebody has ended it."""
        return self._over.is_set()

    def pause(self, wait_s: float) -> None:
        """Let its own thread wait, until the connection is ended at most."""
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
        """Let a connection wait for its log-in, in the place of another where there are too many; False: no room."""
        with self._lock:
            ours = [other for other in self._waiting if other.address == guest.address]
            if len(ours) >= self._bounds.waiting_per_address and not self._make_way(ours):
                return False
            if len(self._waiting) >= self._bounds.waiting and not self._make_way(self._waiting):
                return False
            self._waiting.append(guest)
            return True

    def begin_check(self, guest: Guest) -> bool:
        """Let no connection take the place of one whose password is being checked; False: one has done so before."""
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
            for places in (self._waiting, self._inside):
                if guest in places:
                    places.remove(guest)

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
