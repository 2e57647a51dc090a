"""Who is connected: so many at a time, in all and from one address, before the log-in and after it.

Where too many wait to log in, the one that has said nothing for the longest makes way: idle connections keep nobody
out. Times come from the caller.
"""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

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

    idle_s: float = 3600.0
    """Time without a call, after which a connection and its session end."""


@dataclass(slots=True, eq=False)
class Guest:
    """A connection. `checked`: its password is being checked, so it is not made to make way."""

    connection: socket.socket
    address: str
    since_s: float
    checked: bool = False
    ended: bool = field(default=False)

    def end(self) -> None:
        """End the connection; its own thread notices."""
        self.ended = True
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
            if len(self._waiting) >= self._bounds.waiting and not self._make_way(self._crowd()):
                return False
            self._waiting.append(guest)
            return True

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
                if not guest.checked and now_s - guest.since_s > self._bounds.login_s:
                    guest.end()

    def end_all(self) -> None:
        """End every connection."""
        with self._lock:
            for guest in (*self._waiting, *self._inside):
                guest.end()

    def _crowd(self) -> list[Guest]:
        """The connections that wait, of the address that has most of them."""
        ((address, _),) = Counter(guest.address for guest in self._waiting).most_common(1)
        return [guest for guest in self._waiting if guest.address == address]

    def _make_way(self, guests: list[Guest]) -> bool:
        """End the first connection that still can be."""
        for guest in guests:
            if not guest.checked:
                guest.end()
                self._waiting.remove(guest)
                return True
        return False
