"""Flink's logical types as values, and their Flink spelling both ways. Sizes are characters or bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from penstock.catalog.errors import DefinitionError
from penstock.catalog.identifier import quote

__all__ = [
    "MAX_LENGTH",
    "ArrayType",
    "BigIntType",
    "BinaryType",
    "BooleanType",
    "CharType",
    "DateType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "IntType",
    "IntervalDaySecondType",
    "IntervalYearMonthType",
    "LogicalType",
    "MapType",
    "MultisetType",
    "RowField",
    "RowType",
    "SmallIntType",
    "TimeType",
    "TimestampLtzType",
    "TimestampType",
    "TinyIntType",
    "VarBinaryType",
    "VarCharType",
    "parse_type",
]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RowType(_Type):
    """ROW<name type, ...>."""

    fields: tuple[RowField, ...]

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        for name in names:
            if names.count(name) > 1:
                raise DefinitionError(f"ROW has two fields named {quote(name)}")

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

_TOKEN = re.compile(
    r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^']|'')*')|([A-Za-z_][A-Za-z0-9_]*)|(\d+)|([<>(),]))"
)
_SIMPLE: dict[str, type[_Type]] = {
    "BOOLEAN": BooleanType,
    "TINYINT": TinyIntType,
    "SMALLINT": SmallIntType,
    "INT": IntType,
    "INTEGER": IntType,
    "BIGINT": BigIntType,
    "FLOAT": FloatType,
    "DATE": DateType,
}
_SIZED: dict[str, type[_Sized]] = {
    "CHAR": CharType,
    "VARCHAR": VarCharType,
    "BINARY": BinaryType,
    "VARBINARY": VarBinaryType,
}


def parse_type(text: str) -> LogicalType:
    """Read a type from its Flink spelling, all synonyms included. Raises DefinitionError."""
    return _TypeParser(text).parse()


class _TypeParser:
    """Recursive descent over the tokens of one type."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._error(text[position:].strip()[:20])
            self._tokens.append(found.group(0).strip())
            position = found.end()
        self._next = 0

    def parse(self) -> LogicalType:
        parsed = self._type()
        if self._next < len(self._tokens):
            raise self._error(self._tokens[self._next])
        return parsed

    def _error(self, at: str) -> DefinitionError:
        return DefinitionError(
            f"{self._text.strip()!r} is not a type: {at!r} was not expected",
            hint="types are those of Flink SQL, such as BIGINT, DECIMAL(10, 2), TIMESTAMP(3), ROW<a INT, b STRING>",
        )

    def _peek(self) -> str:
        return self._tokens[self._next].upper() if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        if self._next >= len(self._tokens):
            raise self._error("the end")
        self._next += 1
        return self._tokens[self._next - 1]

    def _accept(self, *words: str) -> bool:
        upper = [token.upper() for token in self._tokens[self._next : self._next + len(words)]]
        if upper != list(words):
            return False
        self._next += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._error(self._peek() or "the end")

    def _type(self) -> LogicalType:
        parsed = self._bare()
        # SQL's suffix form: INT ARRAY, STRING NOT NULL MULTISET
        while True:
            if self._accept("NOT", "NULL"):
                parsed = replace(parsed, nullable=False)
            elif self._accept("NULL"):
                parsed = replace(parsed, nullable=True)
            elif self._accept("ARRAY"):
                parsed = ArrayType(element=parsed)
            elif self._accept("MULTISET"):
                parsed = MultisetType(element=parsed)
            else:
                return parsed

    def _bare(self) -> LogicalType:  # noqa: C901, PLR0911, PLR0912  one case for each word of the grammar
        word = self._take().upper()
        if word in _SIMPLE:
            return _SIMPLE[word]()  # type: ignore[return-value]
        if word in _SIZED:
            return _SIZED[word](length=self._argument(1))  # type: ignore[return-value]
        match word:
            case "STRING":
                return VarCharType(length=MAX_LENGTH)
            case "BYTES":
                return VarBinaryType(length=MAX_LENGTH)
            case "DOUBLE":
                self._accept("PRECISION")
                return DoubleType()
            case "DECIMAL" | "DEC" | "NUMERIC":
                return self._decimal()
            case "TIME":
                precision = self._argument(0)
                self._accept("WITHOUT", "TIME", "ZONE")
                return TimeType(precision=precision)
            case "TIMESTAMP":
                return self._timestamp()
            case "TIMESTAMP_LTZ":
                return TimestampLtzType(precision=self._argument(6))
            case "INTERVAL":
                return self._interval()
            case "ARRAY":
                return ArrayType(element=self._one_inside())
            case "MULTISET":
                return MultisetType(element=self._one_inside())
            case "MAP":
                self._expect("<")
                key = self._type()
                self._expect(",")
                value = self._type()
                self._expect(">")
                return MapType(key=key, value=value)
            case "ROW":
                return self._row()
        raise self._error(word)

    def _argument(self, default: int) -> int:
        if not self._accept("("):
            return default
        number = self._number()
        self._expect(")")
        return number

    def _number(self) -> int:
        token = self._take()
        if not token.isdigit():
            raise self._error(token)
        return int(token)

    def _decimal(self) -> LogicalType:
        if not self._accept("("):
            return DecimalType()
        precision = self._number()
        scale = self._number() if self._accept(",") else 0
        self._expect(")")
        return DecimalType(precision=precision, scale=scale)

    def _timestamp(self) -> LogicalType:
        precision = self._argument(6)
        if self._accept("WITH", "LOCAL", "TIME", "ZONE"):
            return TimestampLtzType(precision=precision)
        if self._accept("WITH", "TIME", "ZONE"):
            raise DefinitionError(
                "TIMESTAMP WITH TIME ZONE is not supported", hint="use TIMESTAMP_LTZ(3)"
            )
        self._accept("WITHOUT", "TIME", "ZONE")
        return TimestampType(precision=precision)

    def _interval(self) -> LogicalType:
        unit = self._take().upper()
        self._argument(0)
        if self._accept("TO"):
            self._take()
            self._argument(0)
        if unit in ("YEAR", "MONTH"):
            return IntervalYearMonthType()
        if unit in ("DAY", "HOUR", "MINUTE", "SECOND"):
            return IntervalDaySecondType()
        raise self._error(unit)

    def _one_inside(self) -> LogicalType:
        self._expect("<")
        element = self._type()
        self._expect(">")
        return element

    def _row(self) -> LogicalType:
        closing = ">" if self._accept("<") else ")"
        if closing == ")":
            self._expect("(")
        fields: list[RowField] = []
        while not self._accept(closing):
            if fields:
                self._expect(",")
            fields.append(self._field())
        return RowType(fields=tuple(fields))

    def _field(self) -> RowField:
        token = self._take()
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        kind = self._type()
        comment = self._take()[1:-1].replace("''", "'") if self._peek().startswith("'") else None
        return RowField(name=name, type=kind, comment=comment)
