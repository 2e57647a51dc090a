"""Exit statuses of processes that nobody waits for."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, subprocess, sys
from penstock.sql.processes.orphans import OWN_MS, OrphanReaper

class Clock:
    ms = 0
    def monotonic_ms(self):
        return self.ms

def ended(status, **more):
    child = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({status})"], **more)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return child

def is_there(child):
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True

clock = Clock()
reaper = OrphanReaper(clock)
orphans = [ended(each, start_new_session=True) for each in (1, 2)]
assert reaper.reap(()) == 2
assert not any(map(is_there, orphans))
own = ended(7, start_new_session=True)
assert reaper.reap({own.pid}) == 0
assert own.wait() == 7
assert reaper.reap({own.pid}) == 0

# started here, as by the doctor, and awaited by another thread
looked = ended(8)
assert reaper.reap(()) == 0
clock.ms += OWN_MS - 1
assert reaper.reap(()) == 0
assert looked.wait() == 8
# started by one of those, and left: nobody waits for it
left = ended(9)
assert reaper.reap(()) == 0
clock.ms += OWN_MS
assert reaper.reap(()) == 1
assert not is_there(left)
print("right")
"""


def test_what_others_left_is_collected_and_own_statuses_stay() -> None:
    """In a process of its own: it waits for every child."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert (found.stdout, found.stderr) == ("right\n", "")
