"""The way to one reader: its events in order, though the splits among them are made elsewhere (SubtaskGateway)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.connector.local.messages import ReaderCommand
from penstock.connector.source.events import AddSplits
from penstock.connector.source.split import Split

__all__ = ["ReaderGateway"]


@dataclass(slots=True, kw_only=True)
class ReaderGateway:
    """Sends to one attempt of a reader. Coordinator's thread only.

    `make_splits` starts to turn plain splits into the connector's own, `made` is told when it is done. What comes
    behind them waits: NoMoreSplits must not overtake the splits, nor may a checkpoint's barrier.
    """

    deliver: Callable[[ReaderCommand], None]
    make_splits: Callable[[tuple[Split, ...]], None]
    _waiting: deque[ReaderCommand] = field(default_factory=deque)
    _making: bool = False

    def send(self, command: ReaderCommand) -> None:
        """Deliver a command behind all that was sent before."""
        self._waiting.append(command)
        self._flush()

    def made(self, splits: tuple[Split, ...]) -> None:
        """Take the splits that were asked for, and deliver what waited for them."""
        assert self._making, "splits that nobody asked for"
        self._waiting.popleft()
        self._making = False
        self.deliver(AddSplits(splits=splits))
        self._flush()

    def _flush(self) -> None:
        while self._waiting and not self._making:
            command = self._waiting[0]
            if isinstance(command, AddSplits):
                self._making = True
                self.make_splits(command.splits)
            else:
                self.deliver(self._waiting.popleft())
