"""Exit statuses of processes that nobody waits for."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, subprocess, sys
from penstock.sql.processes.orphans import reap_orphans

def ended(status):
    child = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({status})"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return child

orphans = [ended(1), ended(2)]
assert reap_orphans(()) == 2
for each in orphans:
    try:
        os.waitpid(each.pid, 0)
    except ChildProcessError:
        continue
    raise AssertionError("it is still there")
own = ended(7)
assert reap_orphans({own.pid}) == 0
assert own.wait() == 7
assert reap_orphans({own.pid}) == 0
print("right")
"""


def test_what_others_left_is_collected_and_own_statuses_stay() -> None:
    """In a process of its own: it waits for every child."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert (found.stdout, found.stderr) == ("right\n", "")
