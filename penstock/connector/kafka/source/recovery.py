"""Handle a log that differs from the plan: a task asks the broker for offsets, then continues or fails."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.connector.kafka.client.admin import KafkaAdmin, existing_bounds
from penstock.connector.kafka.client.errors import deleted_records, stalled_read, truncated_log
from penstock.connector.kafka.client.tuning import admin_connection
from penstock.connector.kafka.source.ranges import RangeProgress
from penstock.connector.source.split import SplitOffsets

__all__ = ["LogCheck"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LogCheck:
    """Looks at the log of a range. `client` may hold passwords; a connection is made at the first look."""

    client: Mapping[str, str] = field(repr=False)
    tolerates_loss: bool
    committed: bool
    _admin: KafkaAdmin | None = None

    def go_on(self, reading: RangeProgress) -> None:
        """Move a range whose next offset is unavailable to where it can resume. Raises DataLossError."""
        extent = self._extent(reading)
        partition, position = reading.partition, reading.position
        if position < extent.first:
            if not self.tolerates_loss:
                raise deleted_records(partition, position, extent)
            logger.warning(
                "%s: %d offsets from %d were deleted before they were read",
                partition.split_id,
                extent.first - position,
                position,
            )
            reading.advance(extent.first)
        elif position > extent.end and self._end_of_log(reading) < position:
            self._shorter(reading, position, extent)

    def _shorter(self, reading: RangeProgress, offset: int, extent: SplitOffsets) -> None:
        """Deal with a log that ends before `offset`, which was planned."""
        if not self.tolerates_loss:
            raise truncated_log(reading.partition, offset, extent)
        logger.warning(
            "%s: the log ends at %d, before offset %d that was planned",
            reading.partition.split_id,
            extent.end,
            offset,
        )
        if reading.split.stop is None:
            reading.go_back(extent.end)
        else:
            reading.advance(reading.split.stop)

    def stalled(self, reading: RangeProgress, last_error: str | None) -> None:
        """Find out why a range gets no further, and raise that or move it on.

        One without an end that has read all there is does not stall, however long nothing comes.
        """
        if reading.split.stop is None and reading.caught_up:
            return
        extent = self._extent(reading)
        position, stop = reading.position, reading.split.stop
        # without an end, only what is in the log already can be waited for in vain
        target = max(position, extent.end) if stop is None else stop
        if position < extent.first:
            self.go_on(reading)
        elif stop is None and position == target:
            if self._end_of_log(reading) < position:
                self._shorter(reading, position, extent)
        elif extent.end < target and self._end_of_log(reading) < target:
            self._shorter(reading, target - 1, extent)
        else:
            raise stalled_read(reading.partition, position, target, extent, last_error)

    def still_there(self, reading: RangeProgress) -> None:
        """Check that a partition that the client does not know is really gone. Raises TopicChangedError."""
        self._extent(reading)

    def _extent(self, reading: RangeProgress) -> SplitOffsets:
        bounds = existing_bounds(self._connected, [reading.partition], committed=self.committed)
        (found,) = bounds.values()
        return SplitOffsets(first=found.first, end=found.end)

    def _end_of_log(self, reading: RangeProgress) -> int:
        """Return the high watermark: past the last stable offset there may only be an open transaction."""
        (found,) = existing_bounds(self._connected, [reading.partition], committed=False).values()
        return found.end

    @property
    def _connected(self) -> KafkaAdmin:
        if self._admin is None:
            self._admin = KafkaAdmin(admin_connection(self.client))
        return self._admin
