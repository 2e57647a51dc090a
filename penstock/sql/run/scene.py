"""What a statement that is over at once may look at and change: names, settings, jobs, and Spark if it asks."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.names import Namespace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: TC004 - a check without a JVM loads this module

    from penstock.sql.run.job import Job  # noqa: TC004 - as above

__all__ = ["Scene"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where a statement takes effect. `jobs` are those of this session or run.

    `spark` starts Spark where it does not run yet: only statements that need it ask.
    """

    namespace: Namespace
    settings: MutableMapping[str, str]
    project: Path
    spark: Callable[[], SparkSession]
    jobs: Sequence[Job] = ()
