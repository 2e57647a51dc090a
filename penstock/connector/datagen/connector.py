"""The connector `datagen`: checks a table's options, and says which rows are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.contract import Connector, Sink
from penstock.connector.datagen.settings import OPTIONS, DatagenSettings, read_settings
from penstock.connector.generated.source import GeneratedSource
from penstock.connector.options.watermark import WatermarkSettings

if TYPE_CHECKING:
    from penstock.connector.datagen.generators import DatagenRowMaker


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagenRows:
    """The GeneratedRows of a datagen table: row n belongs to the instant n / rows-per-second after 1970."""

    settings: DatagenSettings

    @property
    def connector(self) -> str:
        """Who owns the split."""
        return "datagen"

    @property
    def split_id(self) -> str:
        """The one split."""
        return "rows"

    @property
    def meaning(self) -> str:
        """At another rate a row has another number."""
        return f"{self.settings.rows_per_second} rows/s"

    @property
    def meant_by(self) -> str:
        """What sets the rate."""
        return "'rows-per-second'"

    @property
    def bounded(self) -> bool:
        """Whether `number-of-rows` or a sequence ends the table."""
        return self.settings.number_of_rows is not None

    @property
    def projects_fields(self) -> bool:
        """A ROW is generated whole."""
        return False

    @property
    def watermark(self) -> WatermarkSettings:
        """The `scan.watermark.*` options."""
        return self.settings.watermark

    @property
    def parallelism(self) -> int | None:
        """`scan.parallelism`."""
        return self.settings.parallelism

    def due(self, now_ns: int) -> int:
        """Count the rows since 1970."""
        return now_ns * self.settings.rows_per_second // 1_000_000_000

    def start(self, now_ns: int) -> int:
        """Begin with the row that is due next; a table with an end lies in the past as a whole."""
        now, count = self.due(now_ns), self.settings.number_of_rows
        # at a multiple of their number, so that a row's number tells its place in a sequence
        return now if count is None else (now // count - 1) * count

    def stop(self, start: int | None, now_ns: int) -> int:
        """End after the rows that were asked for; a table that was given an end while it ran ends now."""
        count = self.settings.number_of_rows
        assert count is not None, "a bounded table has a number of rows"
        return self.due(now_ns) if start is None else start + count

    def maker(self, columns: Sequence[str]) -> DatagenRowMaker:
        """Generate columns by their options."""
        from penstock.connector.datagen.generators import DatagenRowMaker

        return DatagenRowMaker(columns, self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagenConnector(Connector):
    """Tables of generated rows (`Connector`). `project` is not used."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "datagen"

    @property
    def options(self) -> Sequence[Option[Any] | PrefixOption]:
        """Return the options of its tables."""
        return OPTIONS

    def check(self, table: Table) -> None:
        """Check options and columns. Raises OptionError, DefinitionError, UnsupportedError."""
        read_settings(table)

    def source(self, table: Table) -> GeneratedSource:
        """Describe the scan. Raises as `check`."""
        return GeneratedSource(rows=DatagenRows(settings=read_settings(table)))

    def sink(self, table: Table) -> Sink:
        """Nothing can be written. Raises UnsupportedError."""
        raise UnsupportedError(
            f"table {table.identifier}: 'datagen' makes rows up and takes none",
            hint="write into a table with another connector, such as 'delta' or 'print'",
        )
