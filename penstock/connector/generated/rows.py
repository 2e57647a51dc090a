"""Contracts of generated rows: what a connector says of them, and what generates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from penstock.connector.options.watermark import WatermarkSettings


class RowMaker(Protocol):
    """Generates rows with the columns of a request."""

    def make(self, start: int, stop: int) -> pa.RecordBatch:
        """Generate the rows numbered [`start`, `stop`), each as a function of its number."""


class GeneratedRows(Protocol):
    """The rows of a table, as a picklable value: which there are by the clock, and how they are generated."""

    @property
    def connector(self) -> str:
        """The name of the connector, which owns the split."""

    @property
    def split_id(self) -> str:
        """The name of the one split."""

    @property
    def meaning(self) -> str:
        """What the number of a row stands for: a checkpoint of another meaning is refused."""

    @property
    def meant_by(self) -> str:
        """The options that `meaning` depends on, for a message."""

    @property
    def bounded(self) -> bool:
        """Whether the table ends."""

    @property
    def projects_fields(self) -> bool:
        """Whether a ROW may be asked for with some of its fields."""

    @property
    def watermark(self) -> WatermarkSettings:
        """The `scan.watermark.*` options."""

    @property
    def parallelism(self) -> int | None:
        """`scan.parallelism`."""

    def due(self, now_ns: int) -> int:
        """Return the number of the first row that is not there yet."""

    def start(self, now_ns: int) -> int:
        """Return the number of the row that a scan begins with."""

    def stop(self, start: int | None, now_ns: int) -> int:
        """Return the row that a bounded scan ends before; `start` is None where another process began it."""

    def maker(self, columns: Sequence[str]) -> RowMaker:
        """Return what generates rows with `columns`, in this order."""
