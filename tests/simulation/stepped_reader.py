"""The local executor's readers without their threads: one turn, or one step of a fetcher, at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.catalog.errors import BrokerUnavailableError
from penstock.connector.local.messages import ReaderCheckpoint, ReaderCommand, ReaderCrashed
from penstock.connector.local.reader import LocalReader, ReaderContext
from penstock.connector.source.coordinator.events import (
    ReaderRegistered,
    WatermarkAlignment,
)
from penstock.connector.source.reader.fetcher import FetcherState, SplitFetcher
from penstock.connector.source.reader.reader import SourceReader
from penstock.connector.source.reader.source_operator import SourceOperator
from penstock.connector.source.split import Split
from tests.simulation.scheduler import Violation
from tests.simulation.witness import Witness

__all__ = [
    "JobContext",
    "ReaderKilledError",
    "SteppedReader",
    "SteppedSourceReader",
]

MOST_STEPS_TO_CLOSE = 10


class ReaderKilledError(Exception):
    """What a killed reader's code ends with where it waited."""


class SteppedFetchers:
    """A FetcherExecution whose fetchers are stepped from outside."""

    def __init__(self) -> None:
        self.fetchers: list[SplitFetcher] = []

    def start(self, fetcher: SplitFetcher) -> None:
        """Have it stepped from now on."""
        self.fetchers = [f for f in self.fetchers if f.state is not FetcherState.CLOSED]
        self.fetchers.append(fetcher)

    def join(self, fetcher: SplitFetcher) -> None:
        """Step it to its end."""
        for _ in range(MOST_STEPS_TO_CLOSE):
            if fetcher.state is FetcherState.CLOSED:
                return
            fetcher.run_once()
        raise AssertionError("a fetcher that was shut down does not end")


class SteppedSourceReader(SourceReader):
    """A SourceReader that never waits."""

    def __init__(self, open_reader: Callable[[], Any], **options: Any) -> None:
        self.stepped = SteppedFetchers()
        super().__init__(open_reader, execution=self.stepped, **options)

    def wait_available(self, timeout_s: float) -> bool:
        """Come back at once."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(ReaderContext):
    """What readers share, and the job they are of."""

    job: Any


class SteppedReader(LocalReader):
    """A reader's attempt: commands wait in `inbox` until they are delivered, a step is one turn of its loop."""

    def __init__(self, number: int, context: JobContext, restored: ReaderCheckpoint) -> None:
        self.job = context.job
        self.number = number
        self.inbox: deque[ReaderCommand] = deque()
        self.lives = True
        self.blocked = False
        self._begun = False
        self.witness = Witness(self, restored)
        super().__init__(number, context, restored)

    def start(self) -> None:
        """Live, and be stepped."""
        self.job.readers[self.number] = self

    def join(self, timeout_s: float) -> None:
        """End at once."""
        self.end()

    def send(self, command: ReaderCommand) -> None:
        """Take a command that is under way from now on."""
        if isinstance(command, WatermarkAlignment):
            self.job.witness.announced(command.limit_ms)
        self.inbox.append(command)

    def receive(self) -> None:
        """The next command arrives."""
        if self.inbox:
            super().send(self.inbox.popleft())

    def end(self) -> None:
        """Be no more; fetchers are closed."""
        if self.lives:
            self.lives = False
            self.inbox.clear()
            self._reader.close()

    def step(self) -> None:
        """Do one turn."""
        if not self.lives:
            return
        try:
            if self._begun:
                self._turn()
            else:
                self._begun = True
                self._reader.start()
                self._begin()
        except ReaderKilledError:
            return
        except Exception as error:
            if not isinstance(error, BrokerUnavailableError):
                raise Violation(
                    f"reader {self.number} of {self.job.name} broke: {error!r}"
                ) from error
            self.end()
            self._context.post(ReaderCrashed(reader=self.number, error=error))
            return
        self.witness.look()

    @property
    def operator(self) -> SourceOperator:
        """The reader's event time."""
        return self._operator

    @property
    def limit_ms(self) -> int | None:
        """The group's limit as the reader knows it."""
        return self._operator.limit_ms

    def fetchers(self) -> list[SplitFetcher]:
        """Give the fetchers that may be stepped."""
        return self._reader.stepped.fetchers if self.lives else []

    def _begin(self) -> None:
        self._context.post(ReaderRegistered(reader=self.number))
        if not self._restored.splits:
            self._request_split()

    def _turn(self) -> None:
        while (command := self._mailbox.take()) is not None:
            self._on(command)
        if self._stopping:
            self.end()
            return
        self._read_on()
        self._on_time()

    def _wait_for_command(self) -> None:
        """Come back at once."""

    def _add_splits(self, splits: tuple[Split, ...]) -> None:
        self.witness.added(splits)
        super()._add_splits(splits)

    def _finish(self, split_ids: frozenset[str]) -> None:
        self.witness.finished(split_ids)
        super()._finish(split_ids)
