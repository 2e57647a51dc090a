"""Runs seeds: one, or many after each other, with the probes that they reached."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context

from tests.simulation.scheduler import Run, SimulationError, Violation
from tests.simulation.world_batch import run_batch
from tests.simulation.world_local import run_local

__all__ = ["PROBES", "WORLDS", "run_in_processes", "run_seed", "run_seeds"]

A_PORTION = 25

WORLDS: dict[str, Callable[[Run], None]] = {"local": run_local, "batch": run_batch}

PROBES: dict[str, frozenset[str]] = {
    "local": frozenset(
        {
            "backpressure",
            "bounded job ended",
            "checkpoint completed",
            "checkpoint given up",
            "empty split",
            "fetch failed",
            "idle split woke",
            "job failed and started again",
            "job killed",
            "job killed after a checkpoint",
            "job started again with another number of readers",
            "late report",
            "outside away",
            "reader killed after its last split",
            "reader killed while it waits for room",
            "reader killed with a paused split",
            "reader killed with splits",
            "split found later",
            "split paused",
            "split resumed",
            "split went idle",
        }
    ),
    "batch": frozenset(
        {
            "batch replayed",
            "batch without records",
            "bounded table read to its end",
            "idle split woke in a batch",
            "largest event time of an earlier batch",
            "outside away",
            "peek stepped back",
            "query crashed",
            "run ended by itself",
            "split cut",
            "split found later",
            "split held",
            "split idle in a batch",
            "split read by several tasks",
            "task of a replayed batch reported",
        }
    ),
}
"""The rare paths of each world: a few thousand seeds that miss one test less than they say."""


def run_seed(world: str, seed: int, *, whole_trace: bool = False) -> Run:
    """Run one seed. Raises SimulationError for a rule that does not hold, and for whatever else goes wrong."""
    run = Run(seed, whole_trace=whole_trace)
    with _quiet():
        try:
            WORLDS[world](run)
        except Violation as broken:
            raise SimulationError.of(run, world, str(broken)) from broken.__cause__
        except Exception as error:
            raise SimulationError.of(run, world, repr(error)) from error
    return run


def run_seeds(world: str, seeds: Iterable[int]) -> Counter[str]:
    """Run seeds until one fails; give how often each rare path was reached. Raises SimulationError."""
    probes: Counter[str] = Counter()
    for seed in seeds:
        probes += run_seed(world, seed).probes
    return probes


def run_in_processes(world: str, seeds: range, jobs: int) -> Counter[str]:
    """Run seeds as `run_seeds`, in several processes at once."""
    probes: Counter[str] = Counter()
    portions = [seeds[at : at + A_PORTION] for at in range(0, len(seeds), A_PORTION)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for reached in pool.map(partial(run_seeds, world), portions):
                probes += reached
        except SimulationError:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return probes


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings about failures to ourselves: they are meant to happen here."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
