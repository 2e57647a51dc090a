"""What goes on outside of a job, and what goes wrong with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation.draw import draw_content

if TYPE_CHECKING:
    from tests.simulation.job import Job

__all__ = ["disturb", "outside_changes"]


def outside_changes(job: Job) -> None:
    """Records come, or a split."""
    run, outside = job.run, job.outside
    if job.ended:
        return
    if run.chance(12) and not job.source.bounded:
        run.note("new split", job.name, draw_content(run, job.source, later=True))
        run.probe("split found later")
    elif outside.splits:
        # half the splits hardly ever have anything: they go idle, and wake
        number = min(int(run.random.random() ** 2 * len(outside.splits)), len(outside.splits) - 1)
        outside.grow(list(outside.splits)[number], run.random.choice((1, 1, 3, 8)))


def disturb(job: Job) -> None:
    """One thing goes wrong."""
    run = job.run
    if job.ended:
        return
    lives = [reader for reader in job.readers.values() if reader.lives]
    kind = run.random.random()
    if kind < 0.7 and lives:
        job.kill(run.pick(lives))
    elif kind < 0.82:
        job.outside.broken = run.random.choice((1, 1, 3))
    elif kind < 0.9:
        job.outside.away = run.random.choice((1, 2))
    else:
        run.note("job killed", job.name)
        run.probe("job killed" if job.last is None else "job killed after a checkpoint")
        job.crash()
        if run.chance(40):
            job.settings = replace(job.settings, readers=run.random.choice((1, 2, 3)))
            run.probe("job started again with another number of readers")
        job.open()
