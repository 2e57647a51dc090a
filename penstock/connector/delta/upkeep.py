"""How the files of a Delta table are to be kept: their size when they are written, compaction, OPTIMIZE now and then.

Open-source Delta has no table property for the size of files: it is settings of the session that writes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Upkeep"]

_MIB = 1 << 20
_PREFIX = "spark.databricks.delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What is asked for; None leaves it to Delta, or undone."""

    target_file_bytes: int | None = None
    auto_compaction: bool | None = None
    optimize_interval_ms: int | None = None

    @property
    def needs_batches(self) -> bool:
        """Whether Spark's own Delta sink cannot do it."""
        return self.target_file_bytes is not None or self.optimize_interval_ms is not None

    @property
    def settings(self) -> dict[str, str]:
        """Give the settings of a session that writes once or optimizes (DeltaSQLConf)."""
        if self.target_file_bytes is None:
            return {}
        size = str(self.target_file_bytes)
        return {
            f"{_PREFIX}.optimizeWrite.enabled": "true",
            f"{_PREFIX}.optimizeWrite.binSize": f"{self.target_file_bytes // _MIB}m",
            f"{_PREFIX}.optimize.maxFileSize": size,
            # larger ones would be rewritten each time
            f"{_PREFIX}.optimize.minFileSize": size,
            f"{_PREFIX}.autoCompact.maxFileSize": size,
        }

    @property
    def stream_settings(self) -> dict[str, str]:
        """Give the settings of a session that writes batch after batch.

        Delta compacts at a process's first commit into a table, and then after each 50 small files (AutoCompact).
        """
        if self.auto_compaction is None:
            return self.settings
        enabled = str(self.auto_compaction).lower()
        return self.settings | {f"{_PREFIX}.autoCompact.enabled": enabled}
