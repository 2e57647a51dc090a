"""The connector `delta`: what a table of it may declare, and its source and sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog import types as t
from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.identifier import quote
from penstock.catalog.options import Resolved, resolve
from penstock.catalog.table import Table
from penstock.connector.contract import EngineSource, Sink
from penstock.connector.delta.options import OPTIONS, resolve_path

__all__ = ["DeltaConnector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaConnector:
    """Delta tables by path; relative paths are relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "delta"

    def check(self, table: Table) -> None:
        """Check options and schema. Raises OptionError, DefinitionError, UnsupportedError."""
        self._options(table)
        schema = table.schema
        if schema.watermark is not None:
            raise UnsupportedError(
                f"table {table.identifier}: a Delta table has no splits to take a watermark from",
                hint="declare the watermark on the source that the rows come from",
            )
        if schema.metadata:
            raise DefinitionError(
                f"table {table.identifier}: Delta tables have no metadata column {quote(schema.metadata[0].name)}"
            )
        for column in schema.physical:
            for part in _parts(column.type):
                if isinstance(part, t.TimeType | t.IntervalYearMonthType | t.IntervalDaySecondType):
                    raise DefinitionError(
                        f"table {table.identifier}: Delta cannot store column {quote(column.name)} of type {part}",
                        hint="store it as a STRING or a BIGINT",
                    )

    def source(self, table: Table) -> EngineSource:
        """Describe reading the table."""
        from penstock.connector.delta.source import DeltaSource

        return DeltaSource(
            table=table, location=resolve_path(table, self.project), options=self._options(table)
        )

    def sink(self, table: Table) -> Sink:
        """Describe writing into the table. Raises UnsupportedError for one with a PRIMARY KEY."""
        from penstock.connector.delta.sink import DeltaSink

        if table.schema.primary_key is not None:
            raise UnsupportedError(
                f"table {table.identifier}: upserts into a Delta table with a PRIMARY KEY are not supported yet",
                hint="drop the PRIMARY KEY to append every row",
            )
        properties = {
            f"delta.{key}": value for key, value in self._options(table).prefixed("delta.").items()
        }
        return DeltaSink(
            table=table, location=resolve_path(table, self.project), properties=properties
        )

    def _options(self, table: Table) -> Resolved:
        return resolve(table.option_map, OPTIONS, owner=f"table {table.identifier}")


def _parts(logical: t.LogicalType) -> Iterator[t.LogicalType]:
    """Give a type and every type inside it."""
    yield logical
    match logical:
        case t.ArrayType() | t.MultisetType():
            yield from _parts(logical.element)
        case t.MapType():
            yield from _parts(logical.key)
            yield from _parts(logical.value)
        case t.RowType():
            for field in logical.fields:
                yield from _parts(field.type)
