"""What `penstock up` tells systemd (`Type=notify`): that all files are right, what processes do, that it stops.

The protocol is a datagram to the socket that NOTIFY_SOCKET names; without one nothing is sent.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from penstock.sql.clock import Clock, SystemClock
from penstock.sql.processes.process_end import ProcessState

if TYPE_CHECKING:
    from penstock.sql.processes.supervisor import ProcessView


VARIABLE = "NOTIFY_SOCKET"
INTERVAL_MS = 1_000


def status_text(processes: Sequence[ProcessView]) -> str:
    """Count processes by state: `3 running, 1 restarting`."""
    states = [each.state for each in processes]
    counts = ((states.count(state), state.value) for state in ProcessState)
    return ", ".join(f"{count} {state}" for count, state in counts if count)


def send(message: str) -> None:
    """Send a message to systemd; one that does not listen is no reason to stop."""
    address = os.environ.get(VARIABLE)
    if not address:
        return
    target = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        sending.sendto(message.encode(), target)


@contextmanager
def notifying(
    processes: Callable[[], Sequence[ProcessView]],
    stopping: Callable[[], bool],
    clock: Clock | None = None,
) -> Iterator[None]:
    """Notify systemd, where it wants that, that the service has started, of its state, and that it stops.

    `stopping` tells whether the end was requested: the batches in flight may take minutes from then on.
    """
    if not os.environ.get(VARIABLE):
        yield
        return
    clock = clock or SystemClock()
    send("READY=1")
    end = Event()
    thread = Thread(
        target=_notify_until,
        args=(processes, stopping, clock, end),
        name="penstock notify",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _notify_until(
    processes: Callable[[], Sequence[ProcessView]],
    stopping: Callable[[], bool],
    clock: Clock,
    end: Event,
) -> None:
    before, reported = "", False
    while not clock.wait(end, INTERVAL_MS):
        if not reported and stopping():
            reported = True
            send("STOPPING=1")
        if (text := status_text(processes())) != before:
            before = text
            send(f"STATUS={text}")
    if not reported:
        send("STOPPING=1")
