"""The source reader of one task: splits in, Arrow batches out, until every split is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from penstock.connector.contract import SplitReader
from penstock.connector.source.fetcher import SplitFetcherManager
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

__all__ = ["SourceReader"]


@dataclass(slots=True)
class SourceReader:
    """Reads assigned splits through fetchers (Flink's SourceReaderBase).

    End of input is reached only when no more splits will come, all fetchers are idle and the queue is empty.
    `skipped` counts the bad records left out so far.
    """

    open_reader: Callable[[], SplitReader]
    skipped: int = 0
    _manager: SplitFetcherManager = field(init=False)
    _no_more_splits: bool = False

    def __post_init__(self) -> None:
        self._manager = SplitFetcherManager(self.open_reader)

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Take on splits (Flink's AddSplitEvent)."""
        assert not self._no_more_splits, "splits came after the last one was announced"
        self._manager.add_splits(splits)

    def notify_no_more_splits(self) -> None:
        """No further split will be assigned (Flink's NoMoreSplitsEvent)."""
        self._no_more_splits = True

    def poll(self) -> Iterator[RecordsWithSplitIds]:
        """Give fetches until the end of input. Raises what a fetcher failed with."""
        assert self._no_more_splits, (
            "a task reads to the end of its splits, so it must know the last one"
        )
        while (records := self._manager.next()) is not None:
            self.skipped += records.skipped
            yield records

    def close(self) -> None:
        """End all fetchers and their readers."""
        self._manager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
