"""How a local job runs: what it reads of a table, with how many readers, and when it takes checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connector.rowtime import Rowtime

__all__ = ["JobSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """`columns` are physical and metadata columns. Without `rowtime` there are no watermarks, and no alignment.

    Intervals in ms; None is never. `restarts` says how often in a row a reader may fail, without a checkpoint that
    completes in between, before its failure is the job's; `restart_delay_ms` passes before it is started again.
    `extents_interval_ms` is how often the ends of the splits are looked up, for lags. `name` tells the job from
    others of its alignment group.
    """

    columns: tuple[str, ...]
    rowtime: Rowtime | None = None
    time_zone: str = "UTC"
    readers: int = 1
    checkpoint_interval_ms: int | None = None
    extents_interval_ms: int | None = None
    restarts: int = 3
    restart_delay_ms: int = 1000
    name: str = "source"
