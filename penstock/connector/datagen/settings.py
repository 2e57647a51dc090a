"""The WITH clause of a datagen table as one checked, typed value: Flink's options, with its defaults.

Flink's DataGenConnectorOptions and RandomGeneratorVisitor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.catalog.errors import DefinitionError, OptionError, did_you_mean
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import (
    INT,
    LONG,
    STRING,
    Option,
    PrefixOption,
    optional,
    resolve,
)
from penstock.connector.datagen.field_options import FieldSettings, read_field
from penstock.connector.options.watermark import (
    WATERMARK_OPTIONS,
    WatermarkSettings,
    read_watermark_settings,
)

__all__ = ["DatagenSettings", "read_settings"]

FIELDS = "fields."
ROWS_PER_SECOND = Option(
    key="rows-per-second", type=LONG, default=10_000, doc="rows that are made each second"
)
NUMBER_OF_ROWS: Option[int | None] = optional(
    LONG,
    "number-of-rows",
    "rows in all: they are there at once, as those of the last seconds; default without end",
)
PARALLELISM: Option[int | None] = optional(INT, "scan.parallelism", "tasks of a batch; default one")
OPTIONS: tuple[Option[Any] | PrefixOption, ...] = (
    Option(key="connector", type=STRING, default=None, doc="'datagen'", required=True),
    ROWS_PER_SECOND,
    NUMBER_OF_ROWS,
    PARALLELISM,
    PrefixOption(prefix=FIELDS, doc="what a column holds: fields.<column>.kind, .min, .max, ..."),
    *WATERMARK_OPTIONS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagenSettings:
    """What the WITH clause says, checked. `number_of_rows` is None for a table without end.

    A column that counts up ends the table with its last value, as in Flink. `fields` are in the order of the columns.
    """

    rows_per_second: int
    number_of_rows: int | None
    parallelism: int | None
    fields: tuple[FieldSettings, ...]
    watermark: WatermarkSettings


def read_settings(table: Table) -> DatagenSettings:
    """Read a table's WITH clause. Raises OptionError, UnsupportedError, and DefinitionError for metadata."""
    owner = f"table {table.identifier}"
    for column in table.schema.metadata:
        raise DefinitionError(
            f"{owner}: column '{column.name}' asks for metadata '{column.metadata_key}', but 'datagen' has none",
            hint="make it a physical column, which is filled",
        )
    resolved = resolve(table.option_map, OPTIONS, owner=owner)
    by_column = _by_column(resolved.prefixed(FIELDS), table, owner)
    fields = tuple(
        read_field(column, by_column.get(column.name, {}), owner=owner)
        for column in table.schema.physical
    )
    limits = [resolved.at_least_one(NUMBER_OF_ROWS, owner=owner)]
    limits += [field.sequence.count for field in fields if field.sequence is not None]
    known = [limit for limit in limits if limit is not None]
    rows_per_second = resolved.at_least_one(ROWS_PER_SECOND, owner=owner)
    return DatagenSettings(
        rows_per_second=rows_per_second,
        number_of_rows=min(known) if known else None,
        parallelism=resolved.at_least_one(PARALLELISM, owner=owner),
        fields=fields,
        watermark=read_watermark_settings(resolved, owner=owner, connector="datagen"),
    )


def _by_column(options: Mapping[str, str], table: Table, owner: str) -> dict[str, dict[str, str]]:
    """Sort `column.option` keys by their column, whose name may hold dots itself. Raises OptionError.

    A column of a composed type has options of its parts, too: `column.part.option`.
    """
    names = [column.name for column in table.schema.physical]
    found: dict[str, dict[str, str]] = {}
    for key, value in options.items():
        owners = [name for name in names if key.startswith(f"{name}.")]
        name = max(owners, key=len, default=key.rpartition(".")[0])
        option = key.removeprefix(f"{name}.")
        if not owners:
            raise OptionError(
                f"{owner}: option '{FIELDS}{key}' names no physical column of the table",
                hint=did_you_mean(name, names) or f"columns are: {', '.join(names)}",
            )
        found.setdefault(name, {})[option] = value
    return found
