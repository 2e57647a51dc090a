"""Handle Ctrl-C and SIGTERM during a run and during a local job.

Once to finish the batch and stop, twice to stop at once. A handler runs between any two steps of the main
thread, so it takes no lock: it counts, and writes to the terminal without buffers. The runner reads the count.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.sql.cli.output.report import say
from penstock.sql.errors.exit_status import ExitStatus

if TYPE_CHECKING:
    from penstock.connector.local.job import LocalJob
    from penstock.sql.runner.run_mode import StopRequest

AT_ONCE_LIMIT_S = 10.0  # what stopping at once may take before the process just ends

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Turns signals into stop requests while it is entered; until `listen`, a signal interrupts as usual.

    Where what is to stop does not within the request's limit, the process ends all the same: a batch that waits outside
    of Spark cannot be interrupted, and it is read again as after a kill.
    """

    def __init__(self, request: StopRequest) -> None:
        self._request = request
        self._listening = False
        self._last_resort: Timer | None = None
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
        if self._last_resort is not None:
            self._last_resort.cancel()

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
                _write("stopping after the batch in flight; again to stop at once\n")
                self._end_after(self._request.limit_ms / 1000 + AT_ONCE_LIMIT_S)
            case 2:
                _write("stopping at once\n")
                self._end_after(AT_ONCE_LIMIT_S)
            case _:
                os._exit(ExitStatus.INTERRUPTED)

    def _end_after(self, seconds: float) -> None:
        if self._last_resort is not None:
            self._last_resort.cancel()
        self._last_resort = Timer(seconds, _give_up)
        self._last_resort.daemon = True
        self._last_resort.start()


def _give_up() -> None:
    _write("the batch in flight did not end in time: it is left, and the next run does it again\n")
    os._exit(ExitStatus.INTERRUPTED)


def _write(text: str) -> None:
    os.write(sys.stderr.fileno(), text.encode())


@contextmanager
def running(job: LocalJob) -> Iterator[LocalJob]:
    """Run the job while the block runs.

    Where the job leaves a thread behind that waits for an answer of the outside world, this ends the process:
    an interpreter that winds down under a thread's feet makes libraries complain at length.
    """
    try:
        with job:
            yield job
    except KeyboardInterrupt:
        if job.abandoned:
            say("interrupted")
            _leave(ExitStatus.INTERRUPTED)
        raise
    if job.abandoned:
        _leave(0)


def _leave(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
