"""The connector `nexmark`: checks a table's options and columns, and says which of its events there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.contract import Connector, Sink
from penstock.connector.generated.source import GeneratedSource
from penstock.connector.nexmark.settings import OPTIONS, NexmarkSettings, read_settings
from penstock.connector.options.watermark import WatermarkSettings

if TYPE_CHECKING:
    from penstock.connector.nexmark.events import EventMaker

_LAST_TIME_MS = 253_402_300_800_000
"""The end of the year 9999, epoch ms: a table without end has no event from then on."""

_MOST_EVENTS = 1 << 62
"""Numbers of events are of 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkRows:
    """The GeneratedRows of a nexmark table.

    Event n becomes due n / rate seconds after the base time, and has a time so much after it, times the factor.
    """

    settings: NexmarkSettings

    @property
    def connector(self) -> str:
        """Who owns the split."""
        return "nexmark"

    @property
    def split_id(self) -> str:
        """The one split."""
        return "events"

    @property
    def meaning(self) -> str:
        """All that an event depends on but its number."""
        events, shares = self.settings.events, self.settings.events.proportions
        factor = events.base_time_factor
        # a table without the option means what it did before there was one
        times = "" if factor == 1 else f", {factor} s of event time a second"
        return (
            f"{events.rate} events/s{times} from {events.base_time_ms} ms on, "
            f"{shares.person}:{shares.auction}:{shares.bid}, seed {events.seed}, "
            f"hot {events.hot_auctions}/{events.hot_bidders}/{events.hot_sellers}, "
            f"sizes {events.person_size}/{events.auction_size}/{events.bid_size}"
        )

    @property
    def meant_by(self) -> str:
        """What sets that."""
        return "the rate, 'base-time', 'base-time-factor', 'seed', the proportions, hot ratios and sizes"

    @property
    def bounded(self) -> bool:
        """Whether `events.num` or `stop-at` ends the table, and `keep-alive` does not keep it going."""
        return self.settings.number_of_events is not None and not self.settings.keeps_alive

    @property
    def projects_fields(self) -> bool:
        """A field of a ROW depends on none of the others that the query leaves out."""
        return True

    @property
    def watermark(self) -> WatermarkSettings:
        """The `scan.watermark.*` options."""
        return self.settings.watermark

    @property
    def parallelism(self) -> int | None:
        """`scan.parallelism`."""
        return self.settings.parallelism

    def due(self, now_ns: int) -> int:
        """Return the number of events there are: all at full speed, else those up to now."""
        events, count = self.settings.events, self.settings.number_of_events
        if self.settings.at_once and count is not None:
            return count
        most = min(int((_LAST_TIME_MS - events.base_time_ms) / events.interval_ms), _MOST_EVENTS)
        if self.settings.at_once:
            return most
        passed_ns = max(0, now_ns - events.base_time_ms * 1_000_000)
        return min(passed_ns * events.rate // 1_000_000_000, most)

    def start(self, now_ns: int) -> int:
        """Begin with event 0 at full speed, else with the one that is due next."""
        return 0 if self.settings.at_once else self.due(now_ns)

    def stop(self, start: int | None, now_ns: int) -> int:
        """End after the events that were asked for; a table that was given an end while it ran ends now."""
        count = self.settings.number_of_events
        assert count is not None, "a bounded table has a number of events"
        if self.settings.at_once:
            return count
        return self.due(now_ns) if start is None else start + count

    def maker(self, columns: Sequence[str]) -> EventMaker:
        """Generate columns by their names."""
        from penstock.connector.nexmark.events import EventMaker

        return EventMaker(columns, self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkConnector(Connector):
    """Tables of the events of Nexmark (`Connector`). `project` is not used."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "nexmark"

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return OPTIONS

    def check(self, table: Table) -> None:
        """Check options and columns. Raises OptionError, DefinitionError."""
        read_settings(table)

    def source(self, table: Table) -> GeneratedSource:
        """Describe the scan. Raises as `check`."""
        return GeneratedSource(rows=NexmarkRows(settings=read_settings(table)))

    def sink(self, table: Table) -> Sink:
        """Nothing can be written. Raises UnsupportedError."""
        raise UnsupportedError(
            f"table {table.identifier}: 'nexmark' generates events and takes none",
            hint="write into a table with another connector, such as 'delta' or 'print'",
        )
