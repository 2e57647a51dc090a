"""The scan of a filesystem table as a picklable value: the root of planner and reader (Flink's FileSource)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.catalog.model.types import LogicalType
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import FetcherModel, ReadRequest, SplitMetadataClient, SplitSource
from penstock.connector.filesystem.table.split import METADATA_TYPES
from penstock.connector.filesystem.table.table import FilesystemTable
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.source.coordinator.pull import PullingEnumerator
from penstock.connector.source.enumerator import MakeEnumerator
from penstock.connector.source.split import TaskSize

if TYPE_CHECKING:
    from penstock.connector.filesystem.source.metadata_client import FileMetadataClient
    from penstock.connector.filesystem.source.reader import FileSplitReader


TASK_SIZE = TaskSize(positions=1 << 20, opening=1 << 16, of_records=False)
"""In bytes: some 20 ms of reading and decoding. At most sixteen files, each of which may be a request to a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSource(SplitSource):
    """A SplitSource over files. A file is a split, pulled by readers in the order of modification."""

    table: FilesystemTable

    @property
    def bounded(self) -> bool:
        """Whether the folder is listed once."""
        return self.table.settings.monitor_interval_ms is None

    @property
    def changes(self) -> ChangelogMode:
        """Each record is a row of its own."""
        return ChangelogMode.INSERT_ONLY

    @property
    def metadata_types(self) -> Mapping[str, LogicalType]:
        """The metadata that files have."""
        return METADATA_TYPES

    @property
    def skips_bad_records(self) -> bool:
        """Whether the format leaves out what it cannot decode."""
        return self.table.skips_bad_records

    @property
    def tolerates_loss(self) -> bool:
        """Never: a file that vanished before it was read fails the query."""
        return False

    @property
    def watermark(self) -> WatermarkSettings:
        """The `scan.watermark.*` options."""
        return self.table.settings.watermark

    @property
    def fetching(self) -> FetcherModel:
        """One file after the other, as in Flink."""
        return FetcherModel.SEQUENTIAL

    @property
    def max_records_per_batch(self) -> int | None:
        """`source.max-bytes-per-batch`: a limit is one of positions, and positions of files are bytes."""
        return self.table.settings.max_bytes_per_batch

    @property
    def parallelism(self) -> int | None:
        """`scan.parallelism`."""
        return self.table.settings.parallelism

    @property
    def task_size(self) -> TaskSize:
        """Positions are bytes; a compressed file, which may hold any number, is a task."""
        return TASK_SIZE

    @property
    def discovery_interval_ms(self) -> int:
        """`source.monitor-interval`; -1 for a static folder."""
        interval_ms = self.table.settings.monitor_interval_ms
        return -1 if interval_ms is None else interval_ms

    @property
    def enumerator_type(self) -> type[PullingEnumerator]:
        """The class of its enumerators."""
        return PullingEnumerator

    def enumerator(self, planner: SplitMetadataClient) -> MakeEnumerator:
        """Return what makes the enumerator: files are assigned on request."""
        interval_ms = self.table.settings.monitor_interval_ms
        return partial(PullingEnumerator, planner=planner, interval_ms=interval_ms)

    def open_planner(self, peeked: ReadRequest) -> FileMetadataClient:
        """Open the driver's side."""
        from penstock.connector.filesystem.source.metadata_client import FileMetadataClient
        from penstock.connector.filesystem.source.reader import LineDecoder

        return FileMetadataClient(self.table, LineDecoder(peeked, self.table))

    def open_reader(self, request: ReadRequest) -> FileSplitReader:
        """Open a task's side."""
        from penstock.connector.filesystem.source.reader import FileSplitReader, LineDecoder
        from penstock.connector.filesystem.table.location import TableFolder

        decoder = LineDecoder(request, self.table)
        folder = TableFolder(self.table.settings.location)
        return FileSplitReader(folder, decoder, origins=request.origins)
