"""The local world: jobs of the local executor over a model of the outside, stepped in an order that the seed decides.

A first part grows, waits, fails and starts again at random; then nothing more goes wrong, and all must come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.connector.local.job_master import GroupWatermarks
from tests.simulation.disturb import disturb, outside_changes
from tests.simulation.draw import draw_jobs
from tests.simulation.job import Job
from tests.simulation.scheduler import Run, Violation
from tests.simulation.stepped import (
    without_threads,
)
from tests.simulation.stepped_reader import SteppedReader

__all__ = ["LocalWorld", "run_local"]

WILD_STEPS = (200, 1_600)
"""How long things go wrong, in steps."""

CALM_ROUNDS = 1_500
"""How long it may take until all is read once nothing goes wrong any more."""

CALM_MS = 200
MOST_TURNS = 8
"""How many steps a coordinator takes in a calm round."""


class LocalWorld:
    """All jobs of a run, and what happens next."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.board = GroupWatermarks()
        self.jobs = [Job(self, drawn) for drawn in draw_jobs(run)]
        self.opening = self.jobs[0]
        self._wild_steps = run.random.randint(*WILD_STEPS)
        self._round: Iterator[Callable[[], None]] = iter(())
        self._rounds = 0
        self._actions: tuple[tuple[float, Callable[[], None]], ...] = (
            (14, self._time_passes),
            (26, self._step_reader),
            (24, self._step_fetcher),
            (14, self._message_arrives),
            (12, self._command_arrives),
            (12, lambda: self._job().step_master()),
            (6, self._step_worker),
            (12, lambda: self._job().take()),
            (6, lambda: outside_changes(self._job())),
            (0.8, lambda: disturb(self._job())),
        )

    def run_through(self) -> None:
        """Go on until all is read."""
        for job in self.jobs:
            job.open()
        while not self._over():
            self.turn()
        for job in self.jobs:
            if not job.ended:
                job.crash()

    def turn(self) -> None:
        """Let one thing happen."""
        self.run.step += 1
        if self.run.step <= self._wild_steps:
            self.run.weighted(self._actions)()
            return
        action = next(self._round, None)
        if action is None:
            self._rounds += 1
            if self._rounds > CALM_ROUNDS:
                left = {job.name: job.ledger.missing() for job in self.jobs if not job.done}
                raise Violation(f"no progress: after {CALM_ROUNDS} calm rounds there is {left}")
            self._round = iter(self._calm_round())
            return
        action()

    def go_on_until(self, holds: Callable[[], bool]) -> None:
        """Let things happen while one reader waits."""
        while not holds():
            self.turn()

    def lowest_reported(self) -> int | None:
        """The lowest that any reader of any job reported, which all share one group."""
        lows = [job.witness.lowest_ms for job in self.jobs if not job.ended]
        return min((low for low in lows if low is not None), default=None)

    def _over(self) -> bool:
        if self.run.step <= self._wild_steps:
            return False
        return all(job.done for job in self.jobs)

    def _calm_round(self) -> list[Callable[[], None]]:
        """Let everybody have a turn, and time pass."""
        actions: list[Callable[[], None]] = [lambda: self.run.advance(CALM_MS)]
        for job in self.jobs:
            if job.ended:
                continue
            job.outside.calm()
            actions += [job.worker.step, job.worker.step, job.take, job.take]
            for number in range(job.settings.readers):
                actions.append(lambda job=job, number=number: _all_arrive(job, number))
            actions += [job.step_master] * MOST_TURNS
            for number in range(job.settings.readers):
                actions.append(lambda job=job, number=number: _turn_of_reader(job, number))
        return actions

    # --- one thing each ---

    def _job(self) -> Job:
        return self.run.pick(self.jobs)

    def _time_passes(self) -> None:
        self.run.advance(int(self.run.random.random() ** 3 * 800))

    def _step_reader(self) -> None:
        reader = self._reader()
        if reader is not None and not reader.blocked:
            reader.step()

    def _step_fetcher(self) -> None:
        reader = self._reader()
        if reader is not None and (fetchers := reader.fetchers()):
            self.run.pick(fetchers).run_once()

    def _step_worker(self) -> None:
        self._job().worker.step()

    def _message_arrives(self) -> None:
        job = self._job()
        if job.wires:
            job.arrive(self.run.pick(list(job.wires)))

    def _command_arrives(self) -> None:
        reader = self._reader()
        if reader is not None:
            reader.receive()

    def _reader(self) -> SteppedReader | None:
        readers = list(self._job().readers.values())
        return self.run.pick(readers) if readers else None


def _all_arrive(job: Job, number: int) -> None:
    for _ in range(len(job.wires.get(number, ()))):
        job.arrive(number)


def _turn_of_reader(job: Job, number: int) -> None:
    reader = job.readers.get(number)
    if reader is None:
        return
    while reader.inbox:
        reader.receive()
    for fetcher in reader.fetchers():
        fetcher.run_once()
        fetcher.run_once()
    if not reader.blocked:
        reader.step()


def run_local(run: Run) -> None:
    """Run one seed in this world. Raises a Violation."""
    world: list[LocalWorld] = []
    with without_threads(lambda: world[0].opening):
        world.append(LocalWorld(run))
        world[0].run_through()
