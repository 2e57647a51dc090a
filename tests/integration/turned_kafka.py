"""The connector `turned`: Kafka, whose partitions a task reads in the order that a variable of the process gives.

Found by an entry point in a folder on the path of Python (`installed`), in Spark's processes as in the driver.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from penstock.catalog.model.table import Table
from penstock.connector.contract import ReadRequest, SplitReader
from penstock.connector.kafka.connector import KafkaConnector
from penstock.connector.kafka.source.source import KafkaSource
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

VARIABLE = "TURNED_KAFKA_ORDER"
"""`backward`: the last partition of a task comes first; else the first one does."""

ROOT = Path(__file__).parents[2]


def installed(folder: Path, *, backward: bool) -> Mapping[str, str]:
    """Make the connector known below a folder; returns the environment of processes that have it."""
    info = folder / "turned_kafka-1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: turned-kafka\nVersion: 1\n")
    target = f"{__name__}:{TurnedConnector.__name__}"
    (info / "entry_points.txt").write_text(f"[penstock.connectors]\nturned = {target}\n")
    path = (str(folder), str(ROOT), os.environ.get("PYTHONPATH", ""))
    order = "backward" if backward else "forward"
    return {"PYTHONPATH": os.pathsep.join(filter(None, path)), VARIABLE: order}


class TurnedReader:
    """Reads the splits of a reader one after the other, though the fetcher believes that all are read at once."""

    def __init__(self, inner: SplitReader) -> None:
        self._inner = inner
        self._waiting: deque[Split] = deque()
        self._reads = False

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Put them behind each other."""
        in_order = sorted(splits, key=lambda split: split.split_id)
        backward = os.environ.get(VARIABLE) == "backward"
        self._waiting.extend(reversed(in_order) if backward else in_order)

    def fetch(self) -> RecordsWithSplitIds:
        """Read on, and begin the next one at the end of one."""
        if not self._reads and self._waiting:
            self._inner.add_splits([self._waiting.popleft()])
            self._reads = True
        records = self._inner.fetch()
        if records.finished:
            self._reads = False
        return records

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """As the reader does."""
        self._inner.pause_or_resume(pause, resume)

    def wake_up(self) -> None:
        """As the reader does."""
        self._inner.wake_up()

    def close(self) -> None:
        """As the reader does."""
        self._inner.close()


class TurnedSource(KafkaSource):
    """Opens such readers."""

    __slots__ = ()

    def open_reader(self, request: ReadRequest) -> TurnedReader:  # type: ignore[override]
        """Open one."""
        return TurnedReader(super().open_reader(request))


class TurnedConnector(KafkaConnector):
    """Tables of topics."""

    name = "turned"

    def source(self, table: Table) -> KafkaSource:
        """Describe the scan."""
        return TurnedSource(table=super().source(table).table)
