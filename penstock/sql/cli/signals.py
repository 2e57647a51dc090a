"""Ctrl-C and SIGTERM during a run: once to finish the batch and stop, twice to stop at once.

A handler runs between any two steps of the main thread, so it takes no lock: it counts, and writes to the
terminal without buffers. The runner looks at the count.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Timer
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from penstock.sql.run.environment import StopRequest

__all__ = ["StopSignals"]

INTERRUPTED = 130
AT_ONCE_LIMIT_S = 10.0  # what stopping at once may take before the process just ends
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Turns signals into stop requests while it is entered; until `listen`, a signal interrupts as usual."""

    def __init__(self, request: StopRequest) -> None:
        self._request = request
        self._listening = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self._install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def listen(self) -> None:
        """From now on count signals. Called once Spark runs, which puts its own handler for Ctrl-C in place."""
        self._listening = True
        self._install()

    def _install(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self._listening:
            raise KeyboardInterrupt
        self._request.count += 1
        match self._request.count:
            case 1:
                _write("stopping after the batch in flight; once more stops at once\n")
            case 2:
                _write("stopping at once\n")
                last_resort = Timer(AT_ONCE_LIMIT_S, os._exit, (INTERRUPTED,))
                last_resort.daemon = True
                last_resort.start()
            case _:
                os._exit(INTERRUPTED)


def _write(text: str) -> None:
    os.write(sys.stderr.fileno(), text.encode())
