"""Defers Ctrl-C from the start of a process until its owner knows of it.

An exception raised inside `subprocess.Popen` leaves a child that is never stopped. Owns no handler for long: the
program's own ones are back, and have been called, when the block ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DEFERRED = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Hold back SIGINT and SIGTERM during the block; signals meanwhile are handled at its end.

    Does nothing in other threads than the main one: Python handles signals there only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in DEFERRED}
    # What is ignored stays ignored, what another language handles (None) stays with it.
    held = {n: handler for n, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in held:
        signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for arrived in came:
            signal.raise_signal(arrived)
