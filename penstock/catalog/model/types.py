"""Flink's logical types as values that print in Flink's spelling. Sizes are in characters or bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.identifier import name_clash

MAX_LENGTH = 2_147_483_647


@dataclass(frozen=True, slots=True, kw_only=True)
class _Type:
    """What all types share: whether NULL is a value."""

    nullable: bool = True

    def _spelling(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._spelling() if self.nullable else f"{self._spelling()} NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanType(_Type):
    """BOOLEAN."""

    def _spelling(self) -> str:
        return "BOOLEAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyIntType(_Type):
    """TINYINT, 8 bits."""

    def _spelling(self) -> str:
        return "TINYINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallIntType(_Type):
    """SMALLINT, 16 bits."""

    def _spelling(self) -> str:
        return "SMALLINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntType(_Type):
    """INT, 32 bits."""

    def _spelling(self) -> str:
        return "INT"


@dataclass(frozen=True, slots=True, kw_only=True)
class BigIntType(_Type):
    """BIGINT, 64 bits."""

    def _spelling(self) -> str:
        return "BIGINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatType(_Type):
    """FLOAT, 32 bits."""

    def _spelling(self) -> str:
        return "FLOAT"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleType(_Type):
    """DOUBLE, 64 bits."""

    def _spelling(self) -> str:
        return "DOUBLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalType(_Type):
    """DECIMAL(precision, scale), precision 1 to 38."""

    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= 38 or not 0 <= self.scale <= self.precision:
            raise DefinitionError(
                f"DECIMAL({self.precision}, {self.scale}) is out of range",
                hint="the precision is 1 to 38, the scale 0 to the precision",
            )

    def _spelling(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sized(_Type):
    length: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MAX_LENGTH:
            raise DefinitionError(
                f"the length {self.length} is out of range", hint=f"it is 1 to {MAX_LENGTH}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CharType(_Sized):
    """CHAR(n)."""

    def _spelling(self) -> str:
        return f"CHAR({self.length})"


@dataclass(frozen=True, slots=True, kw_only=True)
class VarCharType(_Sized):
    """VARCHAR(n); STRING is the longest."""

    def _spelling(self) -> str:
        return "STRING" if self.length == MAX_LENGTH else f"VARCHAR({self.length})"


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryType(_Sized):
    """BINARY(n)."""

    def _spelling(self) -> str:
        return f"BINARY({self.length})"


@dataclass(frozen=True, slots=True, kw_only=True)
class VarBinaryType(_Sized):
    """VARBINARY(n); BYTES is the longest."""

    def _spelling(self) -> str:
        return "BYTES" if self.length == MAX_LENGTH else f"VARBINARY({self.length})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DateType(_Type):
    """DATE."""

    def _spelling(self) -> str:
        return "DATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fractional(_Type):
    precision: int = 6

    def __post_init__(self) -> None:
        if not 0 <= self.precision <= 9:
            raise DefinitionError(
                f"the precision {self.precision} is out of range", hint="it is 0 to 9"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeType(_Fractional):
    """TIME(p): time of day."""

    precision: int = 0

    def _spelling(self) -> str:
        return f"TIME({self.precision})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampType(_Fractional):
    """TIMESTAMP(p): date and time of day, of no time zone. Kept to the microsecond."""

    def _spelling(self) -> str:
        return f"TIMESTAMP({self.precision})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampLtzType(_Fractional):
    """TIMESTAMP_LTZ(p): an instant, shown in the session's time zone. Kept to the microsecond."""

    def _spelling(self) -> str:
        return f"TIMESTAMP_LTZ({self.precision})"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalYearMonthType(_Type):
    """INTERVAL YEAR TO MONTH."""

    def _spelling(self) -> str:
        return "INTERVAL YEAR TO MONTH"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalDaySecondType(_Type):
    """INTERVAL DAY TO SECOND."""

    def _spelling(self) -> str:
        return "INTERVAL DAY TO SECOND"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType(_Type):
    """ARRAY<element>."""

    element: LogicalType

    def _spelling(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType(_Type):
    """MAP<key, value>."""

    key: LogicalType
    value: LogicalType

    def _spelling(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class MultisetType(_Type):
    """MULTISET<element>: how often each element occurs."""

    element: LogicalType

    def _spelling(self) -> str:
        return f"MULTISET<{self.element}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowField:
    """A field of a row."""

    name: str
    type: LogicalType
    comment: str | None = None

    def __str__(self) -> str:
        comment = "" if self.comment is None else " '" + self.comment.replace("'", "''") + "'"
        return f"`{self.name.replace('`', '``')}` {self.type}{comment}"

    def __post_init__(self) -> None:
        if not self.name:
            raise DefinitionError("a field of a ROW has no name")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowType(_Type):
    """ROW<name type, ...>."""

    fields: tuple[RowField, ...]

    def __post_init__(self) -> None:
        if not self.fields:
            raise DefinitionError("ROW has no fields", hint="write ROW<name TYPE, ...>")
        clash = name_clash(field.name for field in self.fields)
        if clash is not None:
            raise DefinitionError(f"ROW: {clash}")

    def _spelling(self) -> str:
        return f"ROW<{', '.join(str(field) for field in self.fields)}>"


LogicalType = (
    BooleanType
    | TinyIntType
    | SmallIntType
    | IntType
    | BigIntType
    | FloatType
    | DoubleType
    | DecimalType
    | CharType
    | VarCharType
    | BinaryType
    | VarBinaryType
    | DateType
    | TimeType
    | TimestampType
    | TimestampLtzType
    | IntervalYearMonthType
    | IntervalDaySecondType
    | ArrayType
    | MapType
    | MultisetType
    | RowType
)


def parts_of(logical: LogicalType) -> Iterator[LogicalType]:
    """Return a type and every type inside it."""
    yield logical
    match logical:
        case ArrayType() | MultisetType():
            yield from parts_of(logical.element)
        case MapType():
            yield from parts_of(logical.key)
            yield from parts_of(logical.value)
        case RowType():
            for field in logical.fields:
                yield from parts_of(field.type)
