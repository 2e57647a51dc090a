"""Tables, views and materialized tables as values: columns, key, watermark, distribution and freshness.

The rules between columns, key and watermark hold for every `Schema`. Expressions stay Flink SQL text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from penstock.catalog.errors import DefinitionError, UnknownObjectError, did_you_mean
from penstock.catalog.model.identifier import Identifier, name_clash, quote, quoted
from penstock.catalog.model.types import LogicalType, TimestampLtzType, TimestampType
from penstock.catalog.options.redaction import redact


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalColumn:
    """A column that the records hold."""

    name: str
    type: LogicalType
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataColumn:
    """A column that the connector fills: METADATA [FROM key] [VIRTUAL]. A virtual one is not written."""

    name: str
    type: LogicalType
    key: str | None = None
    virtual: bool = False
    comment: str | None = None

    @property
    def metadata_key(self) -> str:
        """The connector's name for it."""
        return self.name if self.key is None else self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedColumn:
    """A column made of others: `name AS expression`. Its type is known only where the expression determines it."""

    name: str
    expression: str
    type: LogicalType | None = None
    comment: str | None = None


Column = PhysicalColumn | MetadataColumn | ComputedColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """WATERMARK FOR column AS expression: no row earlier than the expression's highest value is to come."""

    column: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryKey:
    """PRIMARY KEY (...) NOT ENFORCED."""

    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Columns in order, key, watermark. Raises DefinitionError where they do not fit together."""

    columns: tuple[Column, ...]
    watermark: Watermark | None = None
    primary_key: PrimaryKey | None = None

    def __post_init__(self) -> None:
        clash = name_clash(self.names)
        if clash is not None:
            raise DefinitionError(f"column {clash}")
        if "" in self.names:
            raise DefinitionError("a column has no name")
        if self.primary_key is not None:
            self._check_key(self.primary_key)
        if self.watermark is not None:
            self._check_watermark(self.watermark)

    def column(self, name: str) -> Column:
        """Find a column by its exact name. Raises UnknownObjectError."""
        for column in self.columns:
            if column.name == name:
                return column
        names = [column.name for column in self.columns]
        raise UnknownObjectError(
            f"there is no column {quote(name)}",
            hint=did_you_mean(name, names) or f"columns are: {', '.join(names)}",
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All column names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def physical(self) -> tuple[PhysicalColumn, ...]:
        """The columns that records hold."""
        return tuple(column for column in self.columns if isinstance(column, PhysicalColumn))

    @property
    def metadata(self) -> tuple[MetadataColumn, ...]:
        """The columns that the connector fills."""
        return tuple(column for column in self.columns if isinstance(column, MetadataColumn))

    @property
    def computed(self) -> tuple[ComputedColumn, ...]:
        """The columns made of others."""
        return tuple(column for column in self.columns if isinstance(column, ComputedColumn))

    def _check_key(self, key: PrimaryKey) -> None:
        if not key.columns:
            raise DefinitionError("PRIMARY KEY names no column")
        for name in key.columns:
            if key.columns.count(name) > 1:
                raise DefinitionError(f"PRIMARY KEY names column {quote(name)} twice")
            column = self._known(name, "PRIMARY KEY")
            if not isinstance(column, PhysicalColumn):
                raise DefinitionError(f"PRIMARY KEY column {quote(name)} is not a physical column")

    def _check_watermark(self, watermark: Watermark) -> None:
        column = self._known(watermark.column, "WATERMARK")
        fits = (
            isinstance(column.type, TimestampType | TimestampLtzType) and column.type.precision <= 3
        )
        if column.type is not None and not fits:
            raise DefinitionError(
                f"WATERMARK column {quote(watermark.column)} has type {column.type}",
                hint="event time is TIMESTAMP(3) or TIMESTAMP_LTZ(3); make a computed column of that type: "
                "ts AS CAST(... AS TIMESTAMP(3))",
            )

    def _known(self, name: str, role: str) -> Column:
        try:
            return self.column(name)
        except UnknownObjectError as error:
            raise DefinitionError(
                f"{role} names column {quote(name)}, which is not declared", hint=error.hint
            ) from None


DistributionKind = Literal["HASH", "RANGE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDistribution:
    """Buckets by columns, or by number alone. None as `kind`: the connector chooses."""

    kind: DistributionKind | None = None
    columns: tuple[str, ...] = ()
    buckets: int | None = None

    def __post_init__(self) -> None:
        if not self.columns and self.buckets is None:
            raise DefinitionError("DISTRIBUTED names neither columns nor a number of buckets")
        if self.buckets is not None and self.buckets < 1:
            raise DefinitionError("DISTRIBUTED INTO needs 1 bucket or more")
        if len(set(self.columns)) < len(self.columns):
            raise DefinitionError("DISTRIBUTED BY names a column twice")

    def __str__(self) -> str:
        """The clause, behind DISTRIBUTED or DISTRIBUTION."""
        parts = []
        if self.columns:
            columns = f"({', '.join(quoted(name) for name in self.columns)})"
            parts.append(f"BY {self.kind}{columns}" if self.kind else f"BY {columns}")
        if self.buckets is not None:
            parts.append(f"INTO {self.buckets} BUCKETS")
        return " ".join(parts)


DEFAULT_FRESHNESS_MS = {"CONTINUOUS": 3 * 60_000, "FULL": 60 * 60_000}
"""Of a table that names none (Flink: materialized-table.default-freshness.continuous and .full)."""

FULL_FROM_MS = 30 * 60_000
"""From this freshness on a table that names no mode is refreshed in full.

Flink: materialized-table.refresh-mode.freshness-threshold.
"""


class RefreshMode(StrEnum):
    """How a materialized table is refreshed: by a streaming query, or rewritten as a whole from time to time."""

    CONTINUOUS = "CONTINUOUS"
    FULL = "FULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialization:
    """A materialized table's query, as Flink SQL with full names, and what it was declared with.

    `freshness_ms` and `mode` are None where the declaration leaves them open. `suspended`: it is not to be kept fresh,
    neither by a streaming query nor by refreshes.
    """

    query: str
    freshness_ms: int | None = None
    mode: RefreshMode | None = None
    suspended: bool = False

    def __post_init__(self) -> None:
        if self.freshness_ms is not None and self.freshness_ms < 1:
            raise DefinitionError(
                "FRESHNESS is a time above zero", hint="FRESHNESS = INTERVAL '3' MINUTE"
            )

    @property
    def refresh_mode(self) -> RefreshMode:
        """How it is kept: as declared, else by its freshness."""
        if self.mode is not None:
            return self.mode
        long = self.freshness_ms is not None and self.freshness_ms >= FULL_FROM_MS
        return RefreshMode.FULL if long else RefreshMode.CONTINUOUS

    @property
    def interval_ms(self) -> int:
        """Its freshness: as declared, else by its mode."""
        return self.freshness_ms or DEFAULT_FRESHNESS_MS[self.refresh_mode]


def materialization_to_json(value: Materialization | None) -> dict[str, Any] | None:
    """Write it as plain values."""
    if value is None:
        return None
    return {
        "query": value.query,
        "freshness_ms": value.freshness_ms,
        "mode": None if value.mode is None else value.mode.value,
        "suspended": value.suspended,
    }


def materialization_from_json(value: Mapping[str, Any] | None) -> Materialization | None:
    """Read what `materialization_to_json` wrote."""
    if value is None:
        return None
    return Materialization(
        query=value["query"],
        freshness_ms=value["freshness_ms"],
        mode=None if value["mode"] is None else RefreshMode(value["mode"]),
        suspended=value["suspended"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table's definition. `options` are those of WITH, in their order. `version`: as in `contract.Catalog`."""

    identifier: Identifier
    schema: Schema
    options: tuple[tuple[str, str], ...] = ()
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    temporary: bool = False
    distribution: TableDistribution | None = None
    materialization: Materialization | None = None
    version: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._check_declared("PARTITIONED BY", self.partition_keys)
        self._check_declared(
            "DISTRIBUTED BY", self.distribution.columns if self.distribution else ()
        )
        if len(set(self.partition_keys)) < len(self.partition_keys):
            raise DefinitionError("PARTITIONED BY names a column twice")

    def _check_declared(self, clause: str, columns: tuple[str, ...]) -> None:
        names = self.schema.names
        for name in columns:
            if name not in names:
                raise DefinitionError(
                    f"{clause} names column {quote(name)}, which is not declared",
                    hint=did_you_mean(name, names),
                )

    @property
    def option_map(self) -> dict[str, str]:
        """The options by key."""
        return dict(self.options)

    @property
    def connector(self) -> str | None:
        """The `connector` option."""
        return self.option_map.get("connector")

    def __repr__(self) -> str:
        # a table ends up in errors and logs, its secrets may not
        shown = redact(self.option_map)
        return f"Table({self.identifier}, columns={list(self.schema.names)}, options={shown})"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view's definition. `query` is Flink SQL; `columns` rename its columns where they are given.

    `column_comments` are as many as `columns`, or none. `version`: as in `contract.Catalog`.
    """

    identifier: Identifier
    query: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    temporary: bool = False
    version: int | None = field(default=None, compare=False, repr=False)
    column_comments: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        assert not self.column_comments or len(self.column_comments) == len(self.columns), (
            "a comment without a column"
        )
