"""Leases of pipelines and job reports as values: who runs a pipeline, when a lease has lapsed. Stores nothing.

The rules follow Kafka Connect's and Flink's fencing: an owner renews within `HEARTBEAT_MS`, another may claim after
`LEASE_TIMEOUT_MS`. `store/leases.py` keeps leases as rows, `sql/jobs` renews them while a job runs.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from penstock.catalog.errors import PenstockError, PipelineLockedError, QueryFailedError

HEARTBEAT_MS = 5_000
"""How often a holder renews its lease."""

LEASE_TIMEOUT_MS = 30_000
"""A claim without a heartbeat for longer than this, by the database's clock, may be taken over."""

HOLDER_TIMEOUT_MS = 20_000
"""A holder that has not renewed for this long, by its own monotonic clock, stops its work: before others may begin.

What is left of LEASE_TIMEOUT_MS is for the end of what it writes.
"""

RENEWAL_TIMEOUT_S = 6
"""How long a database may take to answer a renewal: a second one has to fit into HOLDER_TIMEOUT_MS."""

SENTENCE_MS = 30_000
"""How old the sentence in a job's report may be, where nothing else of the report has changed."""

ASIDE_TIMEOUT_S = 3
"""Bound of the requests between two renewals: reads of stop requests, writes of reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that may hold leases, and one attempt of it to run something (`token`).

    `boot_id` names the boot of the machine and the space of process ids in it, empty where that is unknown. `started`
    is the process's start in ticks of that boot: ids are used again, this pair is not.
    """

    host: str
    pid: int
    boot_id: str
    token: str
    started: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A claim that was granted. `fence` grows with every grant for the same pipeline. Times are epoch ms.

    `taken_over` is the claim of a process that ended, or fell silent, without releasing it.
    """

    pipeline: str
    owner: Owner
    fence: int
    since_ms: int
    taken_over: Lease | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A lease as the store knows it. `age_ms` is the time since its last heartbeat, by the database's clock."""

    lease: Lease
    age_ms: int


def this_process(statement: str = "") -> Owner:
    """Describe this process, with a new token, which ends with the digest `statement` of what it runs."""
    pid = os.getpid()
    return Owner(
        host=socket.gethostname(),
        pid=pid,
        boot_id=_boot_id(),
        token=f"{uuid4().hex}{statement}",
        started=_started(pid),
    )


def repeats(lease: Lease) -> bool:
    """Return whether a process was cut off in the statement that the owner of this lease runs."""
    own, before = lease.owner.token[_TOKEN:], lease.taken_over
    return bool(own) and before is not None and before.owner.token[_TOKEN:] == own


_TOKEN = len(uuid4().hex)


def has_lapsed(claim: Claim) -> bool:
    """Return whether a claim may be taken over: its process is known to be dead, or silent for too long."""
    return is_gone(claim.lease.owner) or claim.age_ms > LEASE_TIMEOUT_MS


def is_ahead(claim: Claim) -> bool:
    """Return whether a heartbeat is so far in the future that the clock was set back since: its age tells nothing."""
    return claim.age_ms < -LEASE_TIMEOUT_MS


def is_gone(owner: Owner) -> bool:
    """Return whether a process is known to be dead, which only its own machine can: else False."""
    if os.name != "posix" or not owner.boot_id:
        return False
    if (owner.host, owner.boot_id) != (socket.gethostname(), _boot_id()):
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it exists and is another user's
    if _is_zombie(owner.pid):
        return True
    started = _started(owner.pid)
    return None not in (started, owner.started) and started != owner.started


def locked_by(claim: Claim) -> PipelineLockedError:
    """Make the error that names the holder of a pipeline."""
    lease, owner = claim.lease, claim.lease.owner
    since = datetime.fromtimestamp(lease.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if owner.pid == os.getpid() and owner.host == socket.gethostname():
        return PipelineLockedError(
            f"pipeline {lease.pipeline!r} already runs in this process (pid {owner.pid}, host {owner.host}) "
            f"since {since}",
            hint="stop that job first, or rename one of them: SET 'pipeline.name' = '...'",
        )
    return PipelineLockedError(
        f"pipeline {lease.pipeline!r} is already run by process {owner.pid} on host {owner.host} since {since}",
        hint=f"stop that one first, or rename this one: SET 'pipeline.name' = '...'; should that machine "
        f"be gone, its claim ends {LEASE_TIMEOUT_MS // 1000} s after its last sign of life",
    )


def lost_to(lease: Lease, claim: Claim | None) -> PipelineLockedError:
    """Make the error for a holder that no longer is one; `claim` is the new holder's."""
    by = ""
    if claim is not None:
        by = f", process {claim.lease.owner.pid} on host {claim.lease.owner.host} has it now"
    return PipelineLockedError(
        f"this process has lost pipeline {lease.pipeline!r}{by}",
        hint=f"it was silent for more than {LEASE_TIMEOUT_MS // 1000} s: was it stopped, or the catalog out of reach? "
        "Start it again when no other runner is left",
    )


def unconfirmed(lease: Lease, cause: PenstockError | None) -> QueryFailedError:
    """Make the error for a holder that could not renew in time; `cause` is the error of its last attempt.

    It is transient: while no other process has taken the claim, a later renewal confirms it.
    """
    why = "the catalog has not answered" if cause is None else cause.message
    return QueryFailedError(
        f"the lease of pipeline {lease.pipeline!r} could not be renewed for {HOLDER_TIMEOUT_MS // 1000} s, "
        f"so that another runner may take it: {why}",
        hint="see to the catalog; where nobody has taken it, the pipeline resumes from its checkpoint",
    )


def _boot_id() -> str:
    """Name the boot and the pid namespace: two containers of one machine share the first, not the second."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _is_zombie(pid: int) -> bool:
    """A killed process stays in the table until its parent has asked for its end; it does no more work."""
    return _stat(pid)[:1] == ["Z"]


def _started(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if len(fields) > 19 else None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on; the second, the program's name, may hold spaces."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


FAILED = "failed"
"""The status that outlives the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The state of a job at a moment. `status` is a `JobStatus`, `restarts` a sum since the job started.

    `waiting_for` names what does not answer and why, since `waiting_since_ms` by the runner's clock, epoch ms.
    `late_rows` and `bad_records` were left out since the job started, None where its runner, or the store, does not
    count them. No part of the value are `sentence`, what the job does, or why nothing comes out of it, since it has
    counts; `since_ms`, when the lease was granted; `age_ms`, how long ago this was said, both by the database's clock;
    and `left`, the claim of the runner that said it, where that has lapsed and was not released: it is gone.
    """

    status: str
    restarts: int = 0
    last_error: str | None = None
    waiting_for: str | None = None
    waiting_since_ms: int | None = None
    late_rows: int | None = None
    bad_records: int | None = None
    sentence: str | None = field(default=None, compare=False)
    since_ms: int = field(default=0, compare=False)
    age_ms: int = field(default=0, compare=False)
    left: Claim | None = field(default=None, compare=False)
