"""The connector `datagen`: checks a table's options; its scan is a picklable value that opens planner and reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Table
from penstock.catalog.model.types import LogicalType
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import (
    Connector,
    FetcherModel,
    ReadRequest,
    Sink,
    SplitMetadataClient,
    SplitSource,
)
from penstock.connector.datagen.settings import OPTIONS, DatagenSettings, read_settings
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.enumerator import MakeEnumerator

if TYPE_CHECKING:
    from penstock.connector.datagen.reader import DatagenMetadataClient, DatagenReader


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagenSource(SplitSource):
    """A SplitSource over made up rows: one split."""

    settings: DatagenSettings

    @property
    def bounded(self) -> bool:
        """Whether `number-of-rows` or a sequence ends the table."""
        return self.settings.number_of_rows is not None

    @property
    def changes(self) -> ChangelogMode:
        """Each row is one of its own."""
        return ChangelogMode.INSERT_ONLY

    @property
    def metadata_types(self) -> Mapping[str, LogicalType]:
        """There is none."""
        return {}

    @property
    def skips_bad_records(self) -> bool:
        """There are no bad ones."""
        return False

    @property
    def tolerates_loss(self) -> bool:
        """Rows are never lost."""
        return False

    @property
    def watermark(self) -> WatermarkSettings:
        """The `scan.watermark.*` options."""
        return self.settings.watermark

    @property
    def fetching(self) -> FetcherModel:
        """One range after the other."""
        return FetcherModel.SEQUENTIAL

    @property
    def max_records_per_batch(self) -> int | None:
        """The rate is the limit."""
        return None

    @property
    def parallelism(self) -> int | None:
        """`scan.parallelism`."""
        return self.settings.parallelism

    @property
    def discovery_interval_ms(self) -> int:
        """The one split is known."""
        return -1

    @property
    def enumerator_type(self) -> type[DiscoveringEnumerator]:
        """The class of its enumerators."""
        return DiscoveringEnumerator

    def enumerator(self, planner: SplitMetadataClient) -> MakeEnumerator:
        """Assign the split to the first reader."""
        return partial(
            DiscoveringEnumerator,
            planner=planner,
            bounded=self.bounded,
            discovery_interval_ms=self.discovery_interval_ms,
        )

    def open_planner(self, peeked: ReadRequest) -> DatagenMetadataClient:
        """Open the driver's side."""
        from penstock.connector.datagen.generators import RowMaker
        from penstock.connector.datagen.reader import DatagenMetadataClient

        return DatagenMetadataClient(self.settings, RowMaker(peeked.columns, self.settings))

    def open_reader(self, request: ReadRequest) -> DatagenReader:
        """Open a task's side."""
        from penstock.connector.datagen.generators import RowMaker
        from penstock.connector.datagen.reader import DatagenReader

        maker = RowMaker(request.columns, self.settings)
        return DatagenReader(maker, self.settings.rows_per_second, origins=request.origins)


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

    def source(self, table: Table) -> DatagenSource:
        """Describe the scan. Raises as `check`."""
        return DatagenSource(settings=read_settings(table))

    def sink(self, table: Table) -> Sink:
        """Nothing can be written. Raises UnsupportedError."""
        raise UnsupportedError(
            f"table {table.identifier}: 'datagen' makes rows up and takes none",
            hint="write into a table with another connector, such as 'delta' or 'print'",
        )
