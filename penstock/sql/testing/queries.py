"""Run the streaming queries of a case step by step, each step to quiescence, and read their results.

Results are rows of tables, late rows, bad records, dead letters, the watermark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.query import StreamingQuery

from penstock.catalog.errors import QueryFailedError
from penstock.catalog.model.table import ComputedColumn, Table
from penstock.connector.contract import AvailableNow, Continuous
from penstock.connector.dead_letters.table import define_dead_letter_table
from penstock.connector.options.bad_records import BesideCheckpoint
from penstock.connector.source.state import instant_text
from penstock.connector.testing.captured import captured
from penstock.connector.testing.values import read_value
from penstock.sql.errors.spark import translate
from penstock.sql.jobs.query_start import start_in_turn
from penstock.sql.jobs.startable_query import StartableQuery
from penstock.sql.observation.batch_metrics import BatchMetrics
from penstock.sql.testing.substitutes import local_store_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STEP_TIMEOUT_S = 300
"""A step that takes longer never ends."""

QUIET_ROUNDS = 2
"""Plannings in a row that find nothing: a split goes idle at the second one."""


@dataclass(slots=True, kw_only=True)
class RunningQuery:
    """A query of a case. `batches` is what its micro-batches did, in order."""

    query: StartableQuery
    stays_up: bool
    batches: list[BatchMetrics] = field(default_factory=list)
    _stream: StreamingQuery | None = None
    _seen: int = -1

    def start(self) -> None:
        """Start a query that stays up. Raises what it fails with."""
        if self.stays_up:
            with _translated():
                self._stream = start_in_turn(lambda: self.query.start(Continuous()))

    def step(self) -> None:
        """Process the present rows. Raises the error of the query, RunError or InputError."""
        with _translated():
            if self.stays_up:
                assert self._stream is not None, "it was started"
                self._settle(self._stream)
                return
            self._stream = start_in_turn(lambda: self.query.start(AvailableNow()))
            if not self._stream.awaitTermination(STEP_TIMEOUT_S):
                raise _endless(self.query)
            self._collect(self._stream)

    def stop(self) -> None:
        """Stop the query; errors are ignored, as the case has its result."""
        if self._stream is not None:
            self._stream.stop()

    def _settle(self, stream: StreamingQuery) -> None:
        quiet, last = 0, _last_batch(stream)
        while quiet < QUIET_ROUNDS:
            if not stream.isActive:
                # a query whose tables have all ended ends by itself, or by an error
                stream.awaitTermination(STEP_TIMEOUT_S)
                break
            stream.processAllAvailable()
            now = _last_batch(stream)
            quiet, last = (quiet + 1, last) if now == last else (0, now)
        self._collect(stream)

    def _collect(self, stream: StreamingQuery) -> None:
        """Add the events of batches since the last call."""
        for event in _events(stream):
            if int(event["batchId"]) > self._seen and "addBatch" in event["durationMs"]:
                self._seen = int(event["batchId"])
                self.batches.append(self.query.read_metrics(event))


def _events(stream: StreamingQuery) -> Iterator[Mapping[str, Any]]:
    for progress in stream.recentProgress:
        yield json.loads(progress.json)


def _last_batch(stream: StreamingQuery) -> int:
    """Return the number of the last batch that did something."""
    numbers = [e["batchId"] for e in _events(stream) if "addBatch" in e["durationMs"]]
    return int(numbers[-1]) if numbers else -1


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise translate(error) from error


def _endless(query: StartableQuery) -> QueryFailedError:
    return QueryFailedError(f"the query into {query.sink} did not end within {STEP_TIMEOUT_S} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualRow:
    """An output row: values as `read_value` returns them. `kind` (`+I`) where changes were requested."""

    cells: Mapping[str, Any]
    kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualResults:
    """The results of a case. `tables` are those that the case names, by the names that it uses."""

    tables: Mapping[str, Sequence[ActualRow]] = field(default_factory=dict)
    late: int = 0
    bad_records: int = 0
    watermark: str = "none"
    dead_letters: Sequence[ActualRow] = ()


def rows_of(
    double: Table, own: Table, name: str, spark: SparkSession, *, changes: bool
) -> list[ActualRow]:
    """Return the rows of a table: of its `double` where that is really written, or what was captured at `name`."""
    key = own.schema.primary_key.columns if own.schema.primary_key is not None else ()
    if changes:
        found = captured(name).changes(key)
        return [ActualRow(cells=_typed(row, own), kind=kind.short) for kind, row in found]
    store = local_store_of(double)
    rows = captured(name).final(key) if store is None else store.rows(double, spark)
    return [ActualRow(cells=_typed(row, own)) for row in rows]


def dead_letters(queries: Sequence[RunningQuery], spark: SparkSession) -> list[ActualRow]:
    """Return the dead letters of queries, each record once: place, stage, error, key and value as text."""
    found: dict[tuple[str, str, int], ActualRow] = {}
    for running in queries:
        table = define_dead_letter_table(BesideCheckpoint(), running.query.checkpoint)
        store = local_store_of(table)
        assert store is not None, "a case has its dead letters beside the checkpoint"
        for row in store.rows(table, spark):
            split = row["path"] if row["topic"] is None else str(row["partition"])
            offset = row["position"] if row["topic"] is None else row["offset"]
            cells = {
                "table": row["table"].rpartition(".")[2].strip("`"),
                "$split": split,
                "$offset": offset,
                "stage": row["stage"],
                "error": row["error"],
                "$key": _text(row["key"]),
                "$raw": _text(row["value"]),
            }
            # each query that reads the table has a letter of its own
            found[cells["table"], cells["$split"], cells["$offset"]] = ActualRow(cells=cells)
    return [found[position] for position in sorted(found)]


def watermark_of(queries: Sequence[RunningQuery]) -> str:
    """Return the watermark of the last batches, the lowest where queries differ; those that need none have none."""
    known = [running.batches[-1].watermark_ms for running in queries if running.batches]
    values = [value for value in known if value is not None]
    if not values:
        return "none"
    return instant_text(min(values)).removesuffix("Z").replace("T", " ")


def _typed(row: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """Read values by the types that the table declares."""
    types = {c.name: c.type for c in table.schema.columns if not isinstance(c, ComputedColumn)}
    return {
        name: read_value(value, types[name]) if name in types else value
        for name, value in row.items()
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
