"""What metrics and the status page cost while they are looked at: the contestant `observed` of `make bench`.

`make bench ARGS="--contestants penstock,observed --sinks tasks"` reads the topic in turns, alone and looked at by
`observers.py`, and then looks at a pipeline that has read all and waits, as turns differ by more than looking costs.
The result is `results/observed.md`. CPU time is without that of the observers.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.cpu import spent_by_process
from benchmarks.observers import SCRAPE_INTERVAL_S, Asked, Observers, observing

if TYPE_CHECKING:
    from penstock.sql.jobs.job import Job
    from penstock.sql.session.session import Session

NAMES = {"penstock", "native", "observed"}
"""A run of these alone, `observed` among them, is about what being observed costs."""

REST_S = 15
"""How long a pipeline that waits is looked at, alone and observed."""

REST_TURNS = (False, True, True, False, False, True)
"""Whether it is observed. A trend of the machine hits both alike."""

CAUGHT_UP_S = 300
"""How long a pipeline may take to read what there is."""

GOAL = 0.02
"""The part of a run's CPU time that being observed may cost, by what it costs of a pipeline that waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """CPU time a second of a pipeline that waits: alone, and observed."""

    alone: tuple[float, ...]
    observed: tuple[float, ...]

    @property
    def cost(self) -> float:
        """CPU time a second that being observed costs, by the medians."""
        return statistics.median(self.observed) - statistics.median(self.alone)


def own_cpu_s(observers: Observers | None) -> dict[int, float]:
    """Return the CPU time of this process and of what it started, but for the observers, by process."""
    own = spent_by_process(os.getpid())
    others = {} if observers is None else spent_by_process(observers.pid)
    return {pid: spent_s for pid, spent_s in own.items() if pid not in others}


def look_at_rest(session: Session, job: Job, folder: Path) -> Rest:
    """Look at a pipeline without an end once it has read all there is, in turns alone and observed."""
    deadline = time.monotonic() + CAUGHT_UP_S
    while job.progress.lag_records != 0:
        if job.status.final or time.monotonic() > deadline:
            raise RuntimeError(f"it does not catch up: {job.status}, {job.progress.last_error}")
        time.sleep(0.2)
    found: dict[bool, list[float]] = {False: [], True: []}
    for observed in REST_TURNS:
        watched = observing(session, [job], folder) if observed else contextlib.nullcontext()
        with watched as observers:
            before, began = own_cpu_s(observers), time.monotonic()
            time.sleep(REST_S)
            passed_s, after = time.monotonic() - began, own_cpu_s(observers)
            spent_s = sum(own - before.get(pid, 0.0) for pid, own in after.items())
            found[observed].append(spent_s / passed_s)
            if observers is not None:
                observers.asked()  # it has looked all the time
    return Rest(alone=tuple(found[False]), observed=tuple(found[True]))


def is_about_observing(names: Sequence[str]) -> bool:
    """Return whether a run of these contestants is about what being observed costs."""
    return "observed" in names and {*names} <= NAMES


def looked(asked: Asked) -> str:
    """Write what the observers did in the turns that count."""
    return (
        f"Observed: the list of pipelines is open in a client of server-sent events, which loads the page of the "
        f"pipeline at each event, as a browser does ({asked.events:,} events, {asked.pages:,} pages), and metrics are "
        f"scraped every {SCRAPE_INTERVAL_S:.0f} s with Prometheus's headers ({asked.scrapes:,} scrapes of "
        f"{asked.series:,} series). The CPU time of these clients is not counted."
    )


def rest_text(rest: Rest, run_cpu: float) -> str:
    """Write what it costs a pipeline that waits, beside the CPU time a second of a run that reads."""
    alone, observed = (
        ", ".join(f"{one * 1000:.1f}" for one in turns) for turns in (rest.alone, rest.observed)
    )
    return (
        f"A pipeline that waits, ms of CPU time a second in turns of {REST_S} s: alone {alone}; observed {observed}. "
        f"Being observed costs {rest.cost * 1000:.1f} ms a second, {rest.cost / run_cpu:.1%} of what a run takes that "
        f"reads (asked: at most {GOAL:.0%})."
    )
