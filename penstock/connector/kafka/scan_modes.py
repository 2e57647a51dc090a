"""Give scans of Kafka tables another begin or end (`ScanModes`): the options `scan.startup.*` and `scan.bounded.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.catalog.model.table import Table
from penstock.connector.kafka.table.options import BOUNDED_MODE, BOUNDED_OFFSETS, STARTUP_MODE

__all__ = ["KafkaScanModes"]

_BOUNDED = "scan.bounded."
_STARTUP = "scan.startup."


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaScanModes:
    """Those of one connector; `chooses_start`: its tables have a startup mode, those of upserts begin at the oldest."""

    chooses_start: bool

    def with_end(self, table: Table) -> Table:
        """End with the newest records at the start, unless the table has an end."""
        ends = {BOUNDED_MODE.key: "latest-offset"}
        return replace(table, options=tuple({**ends, **table.option_map}.items()))

    def stopping_at(self, table: Table, positions: Mapping[str, int]) -> Table:
        """End at offsets of one topic; tables of more topics at the newest records."""
        options = {k: v for k, v in table.option_map.items() if not k.startswith(_BOUNDED)}
        topics = {split.rpartition("-")[0] for split in positions}
        if len(topics) == 1:
            options[BOUNDED_MODE.key] = "specific-offsets"
            options[BOUNDED_OFFSETS.key] = ";".join(
                f"partition:{split.rpartition('-')[2]},offset:{stop}"
                for split, stop in positions.items()
            )
        else:
            options[BOUNDED_MODE.key] = "latest-offset"  # offsets have no topic in their spelling
        return replace(table, options=tuple(options.items()))

    def starting_at(self, table: Table, mode: str) -> Table | None:
        """Replace the startup mode."""
        if not self.chooses_start:
            return None
        kept = tuple((k, v) for k, v in table.options if not k.startswith(_STARTUP))
        return replace(table, options=(*kept, (STARTUP_MODE.key, mode)))
