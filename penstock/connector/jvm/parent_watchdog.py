"""End a child process when its parent has ended, for whatever reason: the child must not outlive it.

Runs as a script beside the child. It waits for the end of its standard input, a pipe that only the parent holds
open, so it needs no polling and works on every system. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

GRACE_S = 10.0
"""What the child gets between the request to stop and being killed, where the parent names no other time."""


def main(pid: int, grace_s: float = GRACE_S) -> None:
    """Wait for the parent's end, then stop process `pid`: it is killed where it still runs after `grace_s`."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            time.sleep(0.1)
            os.kill(pid, 0)
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(float, sys.argv[2:3]))
