"""What `peek`, `tail` and the status page read of a table: its split source, and how its rows are made. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.definitions.encryption import encrypt_references
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import parse_identifier, short_name
from penstock.catalog.model.table import Table
from penstock.connector.arrow import arrow_schema, python_values, query
from penstock.connector.capabilities import ScanModes
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.contract import SourceKind, SplitSource
from penstock.connector.registry import connector_of
from penstock.connector.scan import Rowtime
from penstock.sql.expressions.expression import to_duckdb
from penstock.sql.expressions.rowtime import inline_computed, rowtime_of

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.sql.script.project import Project


OP = "op"
TIME_ZONE = "table.local-time-zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitScan:
    """A table as it is shown: `columns` in table order, of which `delivered` come from the source.

    A table of changes has their kinds (+I, -U, +U, -D) as first column. `computed` are the others with their DuckDB
    SQL, `left_out` those computed columns that only Spark can make.
    """

    table: Table
    source: SplitSource
    columns: tuple[str, ...]
    delivered: tuple[str, ...]
    computed: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]
    time_zone: str

    @property
    def name(self) -> str:
        """The table's name as a person would type it."""
        return short_name(self.table.identifier)

    @property
    def rowtime(self) -> Rowtime | None:
        """How watermarks are found; None for a table without one. Raises UnsupportedError."""
        return rowtime_of(self.table)

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        """Return a batch's rows as Python values, in the order of `columns`."""
        values = {name: python_values(batch.column(name)) for name in self.delivered}
        if ROW_KIND in values:
            values[self.columns[0]] = [RowKind(kind).short for kind in values[ROW_KIND]]
        if self.computed:
            import pyarrow as pa

            made = _compute(self.computed, pa.Table.from_batches([batch]), self.time_zone)
            values |= {name: python_values(made.column(name)) for name, _ in self.computed}
        if not self.columns:
            return iter([()] * batch.num_rows)
        return zip(*(values[name] for name in self.columns), strict=True)


def open_scan(
    names: Namespace, text: str, project: Project, *, start: str | None, follow: bool
) -> SplitScan:
    """Find a table and describe its scan.

    `start` is `earliest` or `latest`, None is the table's own; a scan that is to `follow` the table starts at its end
    then, and has no end.

    Raises UnknownObjectError, and UnsupportedError for what is not read by splits.
    """
    found = names.lookup(names.resolve(parse_identifier(text)))
    if not isinstance(found, Table):
        raise UnsupportedError(f"{text} is a view, not a table", hint=use_run(text))
    table = encrypt_references(found, names.secrets)
    connector = connector_of(table, project=Path(project.root))
    if follow:
        table = _without(table, "scan.bounded.")
    if start is not None or follow:
        table = _starting_at(table, connector.scan_modes, start)
    source = connector.source(table)
    if source.kind is not SourceKind.SPLITS:
        raise UnsupportedError(
            f"table {text} has the connector '{table.connector}', whose tables only Spark reads",
            hint=use_run(text),
        )
    return _describe(table, source, project.settings.get(TIME_ZONE, "UTC"))


def left_out_note(scan: SplitScan) -> tuple[str, ...]:
    """Say, in one line, which columns are not shown; no line when all are."""
    if not scan.left_out:
        return ()
    names = ", ".join(scan.left_out)
    return (f"note: without {names}, which only Spark can compute",)


def use_run(name: str) -> str:
    """Say how a table is read that only Spark reads."""
    return f"`penstock run` a file that selects from {name}, with a LIMIT"


def _starting_at(table: Table, modes: ScanModes | None, start: str | None) -> Table:
    """Replace the startup mode; without a `start` that was asked for by the newest records, where tables have one."""
    mode = f"{start or 'latest'}-offset"
    started = None if modes is None else modes.starting_at(table, mode)
    if started is None and start is not None:
        raise UnsupportedError(
            f"a table with the connector '{table.connector}' has no startup mode",
            hint="leave --from out: it is read from its beginning",
        )
    return started or table


def _without(table: Table, prefix: str) -> Table:
    remaining = tuple((key, value) for key, value in table.options if not key.startswith(prefix))
    return replace(table, options=remaining)


def _describe(table: Table, source: SplitSource, time_zone: str) -> SplitScan:
    schema = table.schema
    computed_names = {column.name for column in schema.computed}
    delivered = tuple(name for name in schema.names if name not in computed_names)
    kinds = source.changes is not ChangelogMode.INSERT_ONLY
    # as the SQL client of Flink calls it
    shown = (OP if OP not in schema.names else ROW_KIND,) if kinds else ()
    computed = {
        column.name: sql
        for column in schema.computed
        if (sql := _expression(table, column.expression, delivered, time_zone)) is not None
    }
    return SplitScan(
        table=table,
        source=source,
        columns=(*shown, *(n for n in schema.names if n in computed or n in delivered)),
        delivered=(*delivered, ROW_KIND) if kinds else delivered,
        computed=tuple(computed.items()),
        left_out=tuple(c.name for c in schema.computed if c.name not in computed),
        time_zone=time_zone,
    )


def _expression(
    table: Table, expression: str, delivered: tuple[str, ...], time_zone: str
) -> str | None:
    """Return a computed column in DuckDB's SQL, tried on no rows; None where DuckDB would not do as Spark does."""
    import duckdb

    columns = [(name, table.schema.column(name).type) for name in delivered]
    empty = arrow_schema((name, kind) for name, kind in columns if kind is not None).empty_table()
    try:
        sql = to_duckdb(inline_computed(expression, table.schema), table.schema)
        _compute((("tried", sql),), empty, time_zone)
    except (UnsupportedError, duckdb.Error):
        return None
    return sql


def _compute(computed: tuple[tuple[str, str], ...], records: pa.Table, time_zone: str) -> pa.Table:
    items = ", ".join(f'{sql} AS "{name.replace(chr(34), chr(34) * 2)}"' for name, sql in computed)
    return query(f"SELECT {items} FROM records", records, time_zone=time_zone)  # noqa: S608  as in rowtime
