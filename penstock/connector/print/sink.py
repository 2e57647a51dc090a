"""Print rows in the spelling of Flink's `Row.toString`: text is made in tasks and written by the driver."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from penstock.catalog.errors import ConfigError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quoted
from penstock.catalog.model.table import Schema, Table
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.contract import (
    Guarantee,
    MicroBatch,
    OutputMode,
    Sink,
    SinkCapabilities,
    SinkSettings,
)
from penstock.connector.spark.sink.micro_batch import micro_batch_query
from penstock.connector.spark.sink.target_rows import check_complete, target_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


def row_text(schema: Schema, kind: RowKind | None) -> str:
    """Return the Spark expression of a row's line. `kind` is that of all rows; None: ROW_KIND says it."""
    fields = [_text(column.type, quoted(column.name), 0) for column in schema.physical]
    if kind is not None:
        first = _literal(f"{kind.short}[")
    else:
        cases = " ".join(f"WHEN {each.value} THEN '{each.short}['" for each in RowKind)
        first = f"CASE {quoted(ROW_KIND)} {cases} END"
    return f"concat({first}, concat_ws(', ', {', '.join(fields)}), ']')"


def _text(logical: t.LogicalType, value: str, depth: int) -> str:
    """Return the expression of a value's text, which is never NULL."""
    return f"coalesce({_spelled(logical, value, depth)}, 'null')"


def _spelled(logical: t.LogicalType, value: str, depth: int) -> str:
    element = f"e{depth}"
    match logical:
        case t.BinaryType() | t.VarBinaryType():
            return f"concat('x\\'', lower(hex({value})), '\\'')"
        case t.TimestampType():
            return _without_zero_seconds(_java_time(f"CAST({value} AS STRING)"))
        case t.TimestampLtzType():
            in_utc = f"convert_timezone('UTC', CAST({value} AS TIMESTAMP_NTZ))"
            return f"concat({_java_time(f'CAST({in_utc} AS STRING)')}, 'Z')"
        case t.ArrayType():
            texts = f"transform({value}, {element} -> {_text(logical.element, element, depth + 1)})"
            return f"concat('[', array_join({texts}, ', '), ']')"
        case t.MapType():
            return _map(value, logical.key, logical.value, depth)
        case t.MultisetType():
            return _map(value, logical.element, t.IntType(), depth)
        case t.RowType():
            fields = [_text(f.type, f"{value}.{quoted(f.name)}", depth) for f in logical.fields]
            whole = f"concat('+I[', concat_ws(', ', {', '.join(fields)}), ']')"
            return f"CASE WHEN {value} IS NOT NULL THEN {whole} END"
    return f"CAST({value} AS STRING)"


def _map(value: str, key: t.LogicalType, item: t.LogicalType, depth: int) -> str:
    entry = f"e{depth}"
    pair = f"concat({_text(key, f'{entry}.key', depth + 1)}, '=', {_text(item, f'{entry}.value', depth + 1)})"
    return (
        f"concat('{{', array_join(transform(map_entries({value}), {entry} -> {pair}), ', '), '}}')"
    )


def _java_time(text: str) -> str:
    """Respell Spark's time: T between date and time, fractions of three, six or nine digits."""
    with_t = f"replace({text}, ' ', 'T')"
    one_short = f"regexp_replace({with_t}, '([.]([0-9]{{3}})?[0-9])$', '$100')"
    return f"regexp_replace({one_short}, '([.]([0-9]{{3}})?[0-9][0-9])$', '$10')"


def _without_zero_seconds(text: str) -> str:
    return f"regexp_replace({text}, '(T[0-9]{{2}}:[0-9]{{2}}):00$', '$1')"


def _literal(text: str) -> str:
    return f"'{text}'"


LINES = 1000
"""Written together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintSink(Sink):
    """Prints each row as a line, `prefix` first, as in `orders> -D[1, a]`."""

    table: Table
    prefix: str = ""
    to_stderr: bool = False

    @property
    def capabilities(self) -> SinkCapabilities:
        """A batch that is run again is printed again; every change is a line of its own."""
        return SinkCapabilities(guarantee=Guarantee.AT_LEAST_ONCE, accepts=ChangelogMode.ALL)

    def prepare(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002  of the contract
        """Check that the INSERT fills the NOT NULL columns. Raises DefinitionError."""
        check_complete(self.table.schema, schema.names, owner=str(self.table.identifier))

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start printing. In update mode rows are `+U`: Spark does not tell the first one of a key."""
        updates = settings.output is OutputMode.UPDATE
        kind = RowKind.UPDATE_AFTER if updates else RowKind.INSERT

        def write(rows: DataFrame, batch: MicroBatch) -> None:  # noqa: ARG001  of the contract
            self._print(rows, kind)

        return micro_batch_query(frame, settings, write)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:  # noqa: ARG002  of the contract
        """Print the rows of a micro-batch."""
        self._print(frame, RowKind.INSERT)

    def write(self, frame: DataFrame) -> None:
        """Print the rows of a batch frame."""
        self._print(frame, RowKind.INSERT)

    def _print(self, frame: DataFrame, kind: RowKind) -> None:
        text = row_text(self.table.schema, None if ROW_KIND in frame.columns else kind)
        rows = target_rows(frame, self.table.schema).selectExpr(f"{text} AS line")
        lines = (row[0] for row in rows.toLocalIterator(prefetchPartitions=True))
        # looked up now: who wants other streams replaces them
        stream = sys.stderr if self.to_stderr else sys.stdout
        try:
            while some := list(islice(lines, LINES)):
                stream.write("".join(f"{self.prefix}{line}\n" for line in some))
                stream.flush()
        except (BrokenPipeError, UnicodeEncodeError) as error:
            raise ConfigError(
                f"table {self.table.identifier} cannot be printed: {error}",
                hint="whoever reads the output may have ended; for other characters set PYTHONIOENCODING=utf-8",
            ) from error
