"""Parse a logical type from its Flink spelling: recursive descent over a handful of tokens.

Grammar and synonyms: Flink's data types page and LogicalTypeParser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model import types as t

MAX_DEPTH = 64  # types within types: far beyond any schema, and well below Python's own limit

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^']|'')*')|([^\W\d]\w*)|([0-9]+)|([<>(),]))")
_PLAIN: dict[str, t.LogicalType] = {
    "BOOLEAN": t.BooleanType(),
    "TINYINT": t.TinyIntType(),
    "SMALLINT": t.SmallIntType(),
    "INT": t.IntType(),
    "INTEGER": t.IntType(),
    "BIGINT": t.BigIntType(),
    "FLOAT": t.FloatType(),
    "DATE": t.DateType(),
    "STRING": t.VarCharType(length=t.MAX_LENGTH),
    "BYTES": t.VarBinaryType(length=t.MAX_LENGTH),
}
_SIZED: dict[str, type[t.CharType | t.VarCharType | t.BinaryType | t.VarBinaryType]] = {
    "CHAR": t.CharType,
    "VARCHAR": t.VarCharType,
    "BINARY": t.BinaryType,
    "VARBINARY": t.VarBinaryType,
}
_YEAR_MONTH = ("YEAR", "MONTH")
_DAY_TIME = ("DAY", "HOUR", "MINUTE", "SECOND")


# a catalog has few spellings, and reading a table reads each of its columns
@lru_cache(maxsize=4096)
def parse_type(text: str) -> t.LogicalType:
    """Parse a type from its Flink spelling, all synonyms included. Raises DefinitionError."""
    return _TypeParser(text).parse()


class _TypeParser:
    """Parses one type. Raises DefinitionError, also from `__init__`."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._tokens: list[str] = []
        self._next = 0
        self._depth = 0
        position = 0
        while position < len(self._text):
            found = _TOKEN.match(self._text, position)
            if found is None:
                raise self._error(self._text[position:].strip()[:20])
            self._tokens.append(found.group(0).strip())
            position = found.end()

    def parse(self) -> t.LogicalType:
        """Read the whole text as a type."""
        parsed = self._type()
        if self._next < len(self._tokens):
            raise self._error(self._tokens[self._next])
        return parsed

    def _error(self, at: str | None) -> DefinitionError:
        found = "it ends too early" if at is None else f"{at!r} was not expected"
        return DefinitionError(
            f"{self._text!r} is not a type: {found}",
            hint="types are Flink's, such as BIGINT, DECIMAL(10, 2), TIMESTAMP(3), ROW<a INT, b STRING>",
        )

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> str:
        token = self._peek()
        if token is None:
            raise self._error(None)
        self._next += 1
        return token

    def _accept(self, *words: str) -> bool:
        upper = [token.upper() for token in self._tokens[self._next : self._next + len(words)]]
        if upper != list(words):
            return False
        self._next += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._error(self._peek())

    def _type(self) -> t.LogicalType:
        if self._depth == MAX_DEPTH:
            raise DefinitionError(f"a type is nested more than {MAX_DEPTH} levels deep")
        self._depth += 1
        parsed = self._suffixed(self._bare())
        self._depth -= 1
        return parsed

    def _suffixed(self, parsed: t.LogicalType) -> t.LogicalType:
        """Read what may follow a type, SQL's other form of collections too: INT ARRAY, STRING NOT NULL MULTISET."""
        for _ in range(MAX_DEPTH):
            if self._accept("NOT", "NULL"):
                parsed = replace(parsed, nullable=False)
            elif self._accept("NULL"):
                parsed = replace(parsed, nullable=True)
            elif self._accept("ARRAY"):
                parsed = t.ArrayType(element=parsed)
            elif self._accept("MULTISET"):
                parsed = t.MultisetType(element=parsed)
            else:
                return parsed
        raise DefinitionError(f"a type is nested more than {MAX_DEPTH} levels deep")

    def _bare(self) -> t.LogicalType:
        token = self._take()
        word = token.upper()
        if word in _PLAIN:
            return _PLAIN[word]
        if word in _SIZED:
            return _SIZED[word](length=self._argument(1))
        parsers: dict[str, Callable[[], t.LogicalType]] = {
            "DOUBLE": self._double,
            "DECIMAL": self._decimal,
            "DEC": self._decimal,
            "NUMERIC": self._decimal,
            "TIME": self._time,
            "TIMESTAMP": self._timestamp,
            "TIMESTAMP_LTZ": lambda: t.TimestampLtzType(precision=self._argument(6)),
            "INTERVAL": self._interval,
            "ARRAY": lambda: t.ArrayType(element=self._inside()[0]),
            "MULTISET": lambda: t.MultisetType(element=self._inside()[0]),
            "MAP": self._map,
            "ROW": self._row,
        }
        if word not in parsers:
            raise self._error(token)
        return parsers[word]()

    def _argument(self, default: int) -> int:
        if not self._accept("("):
            return default
        number = self._number()
        self._expect(")")
        return number

    def _number(self) -> int:
        token = self._take()
        # eleven digits are beyond every limit already
        if not (token.isdigit() and len(token) <= 10):
            raise self._error(token)
        return int(token)

    def _double(self) -> t.LogicalType:
        self._accept("PRECISION")
        return t.DoubleType()

    def _decimal(self) -> t.LogicalType:
        if not self._accept("("):
            return t.DecimalType()
        precision = self._number()
        scale = self._number() if self._accept(",") else 0
        self._expect(")")
        return t.DecimalType(precision=precision, scale=scale)

    def _time(self) -> t.LogicalType:
        precision = self._argument(0)
        self._accept("WITHOUT", "TIME", "ZONE")
        return t.TimeType(precision=precision)

    def _timestamp(self) -> t.LogicalType:
        precision = self._argument(6)
        if self._accept("WITH", "LOCAL", "TIME", "ZONE"):
            return t.TimestampLtzType(precision=precision)
        if self._accept("WITH", "TIME", "ZONE"):
            raise DefinitionError(
                "TIMESTAMP WITH TIME ZONE is not supported",
                hint="use TIMESTAMP_LTZ(3), an instant shown in the session's time zone",
            )
        self._accept("WITHOUT", "TIME", "ZONE")
        return t.TimestampType(precision=precision)

    def _interval(self) -> t.LogicalType:
        """Read an interval; its fields and precisions are accepted and not kept, as Spark has one of each kind."""
        first = self._unit()
        last = self._unit() if self._accept("TO") else first
        for units, parsed in (
            (_YEAR_MONTH, t.IntervalYearMonthType()),
            (_DAY_TIME, t.IntervalDaySecondType()),
        ):
            if first in units and last in units[units.index(first) :]:
                return parsed
        raise self._error(f"INTERVAL {first} TO {last}")

    def _unit(self) -> str:
        token = self._take()
        if token.upper() not in (*_YEAR_MONTH, *_DAY_TIME):
            raise self._error(token)
        self._argument(0)
        return token.upper()

    def _inside(self, count: int = 1) -> list[t.LogicalType]:
        self._expect("<")
        inside = [self._type()]
        for _ in range(count - 1):
            self._expect(",")
            inside.append(self._type())
        self._expect(">")
        return inside

    def _map(self) -> t.LogicalType:
        key, value = self._inside(2)
        return t.MapType(key=key, value=value)

    def _row(self) -> t.LogicalType:
        closing = ">" if self._accept("<") else ")"
        if closing == ")":
            self._expect("(")
        fields: list[t.RowField] = []
        while not self._accept(closing):
            if fields:
                self._expect(",")
            fields.append(self._field())
        return t.RowType(fields=tuple(fields))

    def _field(self) -> t.RowField:
        token = self._take()
        if token.startswith("`"):
            name = token[1:-1].replace("``", "`")
        elif token[0].isalpha() or token[0] == "_":
            name = token
        else:
            raise self._error(token)
        kind = self._type()
        following = self._peek()
        if following is None or not following.startswith("'"):
            return t.RowField(name=name, type=kind)
        return t.RowField(name=name, type=kind, comment=self._take()[1:-1].replace("''", "'"))
