"""What a seed draws before anything happens: tables, their splits, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.connector.contract import FetcherModel
from penstock.connector.local.job_master import JobSettings
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.scan import Delayed, Rowtime
from penstock.connector.source.alignment import Alignment
from tests.simulation.model import ModelSource
from tests.simulation.outside import Content, Outside
from tests.simulation.scheduler import Run

__all__ = ["ROWTIME", "Drawn", "draw_batch_tables", "draw_content", "draw_jobs"]

ROWTIME = Rowtime(
    column="time",
    inputs=("time",),
    expression="time",
    instant=False,
    delayed=Delayed(column="time", delay_us=0),
)
GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One table and its job."""

    name: str
    outside: Outside
    source: ModelSource
    settings: JobSettings
    capacity: int


def draw_jobs(run: Run) -> list[Drawn]:
    """Draw one to three tables; several of them are in one alignment group, one may be."""
    count, alignment = _draw_group(run)
    return [_draw_job(run, f"job-{index}", alignment) for index in range(count)]


def draw_batch_tables(run: Run) -> dict[str, ModelSource]:
    """Draw one to three tables of one query, by name."""
    count, alignment = _draw_group(run)
    return {
        f"table-{index}": replace(
            _draw_source(run, alignment),
            max_records_per_batch=run.pick((None, 1, 5, 20, 60)),
            parallelism=run.pick((None, 1, 2, 3)),
        )
        for index in range(count)
    }


def _draw_group(run: Run) -> tuple[int, Alignment | None]:
    random = run.random
    count = random.choice((1, 1, 2, 3))
    if count == 1 and random.random() < 0.4:
        return count, None
    return count, Alignment(
        group=GROUP,
        max_drift_ms=random.choice((300, 1000, 4000)),
        update_interval_ms=random.choice((100, 200, 1000)),
    )


def _draw_source(run: Run, alignment: Alignment | None) -> ModelSource:
    """Draw a table with its first splits."""
    random = run.random
    outside = Outside(
        run,
        disorder_ms=random.choice((1, 200, 1000)),
        timeless_percent=random.choice((0.0, 0.0, 10.0, 60.0)),
    )
    bounded, pulled = random.random() < 0.4, random.random() < 0.35
    # an unbounded split that is quiet for good would hold its group for good
    silence = alignment is not None and not bounded
    idle_timeout_ms = random.choice((300, 1000, 2500) if silence else (None, 400, 1500))
    source = ModelSource(
        outside=outside,
        bounded=bounded,
        pulled=pulled,
        discovery_interval_ms=0 if bounded else random.choice((300, 1000)),
        # one split after the other is for splits that have an end
        fetching=random.choice(tuple(FetcherModel)[0 if bounded or pulled else 1 :]),
        fetch_size=random.choice((1, 5, 12)),
        watermark=WatermarkSettings(alignment=alignment, idle_timeout_ms=idle_timeout_ms),
    )
    for _ in range(random.choice((0, 1, 2, 3, 5))):
        draw_content(run, source)
    return source


def draw_content(run: Run, source: ModelSource, *, later: bool = False) -> str:
    """Draw a split: some empty, some far ahead in event time, some bounded."""
    random, outside = run.random, source.outside
    content = Content(
        next_ms=100_000 + random.choice((0, 0, 1000, 8000)),
        pace_ms=random.choice((10, 100, 400)),
    )
    split_id = outside.add(content)
    outside.grow(split_id, random.choice((0, 1, 5, 20)))
    length = len(content.times)
    if not later and not source.pulled:
        content.first = random.randint(0, length) if random.random() < 0.3 else 0
    if source.bounded or source.pulled:
        content.stop = length
        content.first = min(content.first, length)
    return split_id


def _draw_job(run: Run, name: str, alignment: Alignment | None) -> Drawn:
    random = run.random
    source = _draw_source(run, alignment)
    settings = JobSettings(
        columns=("position", "time"),
        rowtime=ROWTIME,
        readers=random.choice((1, 2, 3)),
        checkpoint_interval_ms=random.choice((150, 600, 1500)),
        extents_interval_ms=random.choice((None, 500)),
        restarts=random.choice((1, 3)),
        restart_delay_ms=random.choice((1, 300)),
        name=name,
    )
    return Drawn(
        name=name,
        outside=source.outside,
        source=source,
        settings=settings,
        capacity=random.choice((1, 2, 4)),
    )
