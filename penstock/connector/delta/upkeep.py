"""How the files of a Delta table are to be kept: their size when they are written, and OPTIMIZE now and then.

Open-source Delta has no table property for the size of files: it is settings of the session that writes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Upkeep"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What is asked for; None leaves it to Delta, or undone."""

    target_file_bytes: int | None = None
    optimize_interval_ms: int | None = None

    @property
    def needs_batches(self) -> bool:
        """Whether Spark's own Delta sink cannot do it."""
        return self.target_file_bytes is not None or self.optimize_interval_ms is not None

    @property
    def settings(self) -> dict[str, str]:
        """Give the settings of the session that writes or optimizes (DeltaSQLConf)."""
        if self.target_file_bytes is None:
            return {}
        prefix, size = "spark.databricks.delta", str(self.target_file_bytes)
        return {
            f"{prefix}.optimizeWrite.enabled": "true",
            f"{prefix}.optimizeWrite.binSize": f"{self.target_file_bytes // _MIB}m",
            f"{prefix}.optimize.maxFileSize": size,
            # larger ones would be rewritten each time
            f"{prefix}.optimize.minFileSize": size,
            f"{prefix}.autoCompact.maxFileSize": size,
        }
