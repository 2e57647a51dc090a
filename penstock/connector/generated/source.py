"""The scan of a table of generated rows: one split, read by the runtime of splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from penstock.catalog.model.types import LogicalType
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import FetcherModel, ReadRequest, SplitMetadataClient, SplitSource
from penstock.connector.generated.reader import GeneratedMetadataClient, GeneratedReader
from penstock.connector.generated.rows import GeneratedRows
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.enumerator import MakeEnumerator


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedSource(SplitSource):
    """A SplitSource over generated rows: one split."""

    rows: GeneratedRows

    @property
    def bounded(self) -> bool:
        """Whether the table ends."""
        return self.rows.bounded

    @property
    def changes(self) -> ChangelogMode:
        """Each row is one of its own."""
        return ChangelogMode.INSERT_ONLY

    @property
    def projects_fields(self) -> bool:
        """Whether a ROW may have some of its fields."""
        return self.rows.projects_fields

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
        return self.rows.watermark

    @property
    def fetching(self) -> FetcherModel:
        """One range after the other."""
        return FetcherModel.SEQUENTIAL

    @property
    def max_records_per_batch(self) -> int | None:
        """What is there is the limit, and the engine's own."""
        return None

    @property
    def parallelism(self) -> int | None:
        """`scan.parallelism`."""
        return self.rows.parallelism

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

    def open_planner(self, peeked: ReadRequest) -> GeneratedMetadataClient:
        """Open the driver's side."""
        return GeneratedMetadataClient(self.rows, self.rows.maker(peeked.columns))

    def open_reader(self, request: ReadRequest) -> GeneratedReader:
        """Open a task's side."""
        return GeneratedReader(self.rows, self.rows.maker(request.columns), origins=request.origins)
