"""When a claim on a pipeline has lapsed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from penstock.catalog.definitions.leases import (
    LEASE_TIMEOUT_MS,
    Claim,
    Lease,
    Owner,
    has_lapsed,
    is_gone,
    locked_by,
    this_process,
)


def claim(owner: Owner, age_ms: int = 0) -> Claim:
    lease = Lease(pipeline="p", owner=owner, fence=1, since_ms=1_700_000_000_000)
    return Claim(lease=lease, age_ms=age_ms)


def ended_process(how: int) -> Owner:
    """A process of this machine that was there a moment ago, and is still in its parent's table of children."""
    code = "from penstock.catalog.definitions.leases import this_process as t; o = t(); print(o.pid, o.started, flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    pid, started = child.stdout.readline().split()
    owner = replace(
        this_process(), pid=int(pid), started=None if started == "None" else int(started)
    )
    assert not is_gone(owner)
    os.kill(child.pid, how)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it ended, and stays a zombie
    assert is_gone(owner)
    child.communicate()
    return owner


def test_this_process_is_not_gone() -> None:
    """It says so itself."""
    assert not is_gone(this_process())


def test_each_claim_has_its_own_token() -> None:
    """One process may try twice to run a pipeline."""
    assert this_process().token != this_process().token


@pytest.mark.skipif(not os.path.exists("/proc/self/ns/pid"), reason="the system does not tell")  # noqa: PTH110
def test_a_dead_process_is_gone_at_once() -> None:
    """Also while its parent has not noticed, which is what kill -9 of a child looks like."""
    owner = ended_process(signal.SIGKILL)

    assert is_gone(owner)
    assert has_lapsed(claim(owner))


@pytest.mark.skipif(this_process().started is None, reason="the system does not tell")
def test_an_id_that_is_used_again_is_another_process() -> None:
    """The start time tells them apart."""
    me = this_process()

    assert is_gone(replace(me, started=(me.started or 0) - 1))


@pytest.mark.parametrize(
    "other",
    [
        replace(this_process(), host=f"not-{socket.gethostname()}", pid=2**22 + 1),
        replace(this_process(), boot_id="another boot or container", pid=2**22 + 1),
        replace(this_process(), boot_id="", pid=2**22 + 1),
    ],
)
def test_a_process_elsewhere_is_judged_by_its_heartbeat(other: Owner) -> None:
    """Its process table cannot be seen from here: another machine, an earlier boot, another container."""
    assert not is_gone(other)
    assert not has_lapsed(claim(other, LEASE_TIMEOUT_MS))
    assert has_lapsed(claim(other, LEASE_TIMEOUT_MS + 1))


def test_a_silent_process_loses_its_claim() -> None:
    """Alive is not enough: it may be stopped for good."""
    assert has_lapsed(claim(this_process(), LEASE_TIMEOUT_MS + 1))
    assert not has_lapsed(claim(this_process(), LEASE_TIMEOUT_MS))


def test_the_holder_is_named() -> None:
    """Host, process and since when, in a time zone that is said."""
    error = locked_by(claim(replace(this_process(), host="db-7", pid=4711)))

    assert error.message == (
        "pipeline 'p' is already run by process 4711 on host db-7 since 2023-11-14 22:13:20 UTC"
    )
    assert "pipeline.name" in (error.hint or "")
    assert "this process" in locked_by(claim(this_process())).message
