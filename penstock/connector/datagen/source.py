"""The scan of a datagen table as a picklable value: the root of planner and reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.catalog.types import LogicalType
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import FetcherModel, ReadRequest, SplitPlanner
from penstock.connector.datagen.settings import DatagenSettings
from penstock.connector.source.discovering import DiscoveringEnumerator
from penstock.connector.source.enumerator import MakeEnumerator
from penstock.connector.watermark_options import WatermarkSettings

if TYPE_CHECKING:
    from penstock.connector.datagen.planner import DatagenPlanner
    from penstock.connector.datagen.reader import DatagenReader

__all__ = ["DatagenSource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagenSource:
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

    def enumerator(self, planner: SplitPlanner) -> MakeEnumerator:
        """Give the split to the first reader."""
        return partial(
            DiscoveringEnumerator,
            planner=planner,
            bounded=self.bounded,
            discovery_interval_ms=self.discovery_interval_ms,
        )

    def open_planner(self, peeked: ReadRequest) -> DatagenPlanner:
        """Open the driver's side."""
        from penstock.connector.datagen.planner import DatagenPlanner
        from penstock.connector.datagen.rows import RowMaker

        return DatagenPlanner(self.settings, RowMaker(peeked.columns, self.settings))

    def open_reader(self, request: ReadRequest) -> DatagenReader:
        """Open a task's side."""
        from penstock.connector.datagen.reader import DatagenReader
        from penstock.connector.datagen.rows import RowMaker

        maker = RowMaker(request.columns, self.settings)
        return DatagenReader(maker, self.settings.rows_per_second, origins=request.origins)
