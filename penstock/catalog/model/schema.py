"""A table's columns, key and watermark, and the rules that hold between them. Expressions stay Flink SQL text."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.catalog.errors import DefinitionError, UnknownObjectError, did_you_mean
from penstock.catalog.model.identifier import name_clash, quote
from penstock.catalog.model.types import LogicalType, TimestampLtzType, TimestampType

__all__ = [
    "Column",
    "ComputedColumn",
    "MetadataColumn",
    "PhysicalColumn",
    "PrimaryKey",
    "Schema",
    "Watermark",
]


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
