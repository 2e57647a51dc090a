"""The results of a case: rows of tables, late rows, bad records, dead letters, the watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.catalog.model.table import ComputedColumn, Table
from penstock.connector.dead_letters.table import define_dead_letter_table
from penstock.connector.options.bad_records import BesideCheckpoint
from penstock.connector.source.state import instant_text
from penstock.connector.testing.captured import captured
from penstock.connector.testing.values import read_value
from penstock.sql.testing.queries import RunningQuery
from penstock.sql.testing.substitutes import local_store_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ActualResults", "ActualRow", "dead_letters", "rows_of", "watermark_of"]


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
    double: Table, own: Table, place: str, spark: SparkSession, *, changes: bool
) -> list[ActualRow]:
    """Return the rows of a table: of its `double` where that is really written, or what was captured at `place`."""
    key = own.schema.primary_key.columns if own.schema.primary_key is not None else ()
    if changes:
        found = captured(place).changes(key)
        return [ActualRow(cells=_typed(row, own), kind=kind.short) for kind, row in found]
    store = local_store_of(double)
    rows = captured(place).final(key) if store is None else store.rows(double, spark)
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
    return [found[place] for place in sorted(found)]


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
