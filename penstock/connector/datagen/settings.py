"""The WITH clause of a datagen table as one checked, typed value: Flink's options, with its defaults.

The options of a column, `fields.<column>.*`, are read for the type that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from penstock.catalog.errors import DefinitionError, OptionError, UnsupportedError, did_you_mean
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn, Table
from penstock.catalog.options.option import (
    BOOLEAN,
    DURATION,
    INT,
    LONG,
    STRING,
    Option,
    OptionScope,
    OptionType,
    PrefixOption,
    Resolved,
    enum_type,
    optional,
    resolve,
)
from penstock.connector.options.watermark import (
    WATERMARK_OPTIONS,
    WatermarkSettings,
    read_watermark_settings,
)

ELEMENTS = 3
"""Elements of an array, a map or a multiset (RandomGeneratorVisitor.RANDOM_COLLECTION_LENGTH_DEFAULT)."""
DEFAULT_LENGTH = 100
"""Characters or bytes of a random text (RandomGeneratorVisitor.RANDOM_STRING_LENGTH_DEFAULT)."""


def _number(text: str) -> Decimal:
    try:
        found = Decimal(text.strip())
    except ArithmeticError:
        raise ValueError(text) from None
    if not found.is_finite():
        raise ValueError(text)
    return found


NUMBER: OptionType[Decimal] = OptionType(name="a number", parse=_number)
_INTEGERS: Mapping[type, int] = {
    t.TinyIntType: 8,
    t.SmallIntType: 16,
    t.IntType: 32,
    t.BigIntType: 64,
}
_TEXTS = (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)
_VARYING = (t.VarCharType, t.VarBinaryType)
_TIMES = (t.TimestampType, t.TimestampLtzType)
_MADE = (*_INTEGERS, t.FloatType, t.DoubleType, t.DecimalType, *_TEXTS, *_TIMES)
_PLAIN = (t.BooleanType, t.DateType, t.TimeType)
_COLLECTIONS = (t.ArrayType, t.MapType, t.MultisetType)
_COMPOSED = (*_COLLECTIONS, t.RowType)
_COUNTED = (*_INTEGERS, t.FloatType, t.DoubleType, t.DecimalType, t.CharType, t.VarCharType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """A column that counts from `start` to `end`, both inclusive."""

    start: int
    end: int

    @property
    def count(self) -> int:
        """How many values that is."""
        return self.end - self.start + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSettings:
    """What one column holds. `sequence` is None for random values.

    `low` and `high` are inclusive bounds of numbers; `length` is that of texts in characters or bytes, the greatest
    one where lengths vary, and that of collections in elements; `max_past_ms` is how far a time may lie before that of
    its row; `null_rate` is a share. `parts` are the fields of a ROW, or the element, or the key and the value.
    """

    name: str
    type: t.LogicalType
    sequence: Counting | None = None
    low: Decimal = Decimal(0)
    high: Decimal = Decimal(0)
    length: int = DEFAULT_LENGTH
    varies: bool = False
    max_past_ms: int = 0
    null_rate: float = 0.0
    parts: tuple[FieldSettings, ...] = ()


def read_field(column: PhysicalColumn, options: Mapping[str, str], *, owner: str) -> FieldSettings:
    """Read the options of a column. Raises OptionError, and UnsupportedError for a type that is not made."""
    base = f"fields.{column.name}."
    if isinstance(column.type, _COMPOSED):
        return _composed(column, options, owner)
    if not isinstance(column.type, (*_MADE, *_PLAIN)):
        raise UnsupportedError(
            f"{owner}: 'datagen' makes no values of the type {column.type} (column '{column.name}')",
            hint="declare another type, and make the value in a computed column or a view",
        )
    kind = _kind(base)
    counts = options.get("kind", "").strip().lower() == "sequence"
    known = _sequence_options(base) if counts else _random_options(base, column.type)
    full = {f"{base}{key}": value for key, value in options.items()}
    resolved = resolve(full, (kind, *known.values()), owner=owner)
    if counts:
        return _sequence(column, resolved, known, owner)
    return _random(column, resolved, known, owner)


def _composed(column: PhysicalColumn, options: Mapping[str, str], owner: str) -> FieldSettings:
    """Read the options of a ROW, ARRAY, MAP or MULTISET, and those of its parts: `fields.buyer.first_name.length`."""
    own, parts = dict(options), []
    for name, kind in _parts(column.type):
        of_part = {key: own.pop(key) for key in options if key.startswith(f"{name}.")}
        part = PhysicalColumn(name=f"{column.name}.{name}", type=kind)
        below = {key.removeprefix(f"{name}."): value for key, value in of_part.items()}
        found = read_field(part, below, owner=owner)
        if found.sequence is not None:
            raise OptionError(
                f"{owner}: 'fields.{part.name}.kind' = 'sequence' counts nothing up inside of a {column.type}",
                hint="make a column of its own count",
            )
        parts.append(found)
    base = f"fields.{column.name}."
    known = {"null-rate": _null_rate(base)}
    if isinstance(column.type, _COLLECTIONS):
        known["length"] = optional(INT, f"{base}length", "elements of a value; default 3")
    full = {f"{base}{key}": value for key, value in own.items()}
    resolved = resolve(full, tuple(known.values()), owner=owner)
    length = resolved.get(known["length"]) if "length" in known else None
    if length is not None and length < 0:
        raise OptionError(f"{owner}: '{base}length' = '{length}' is no number of elements")
    return FieldSettings(
        name=column.name,
        type=column.type,
        length=ELEMENTS if length is None else length,
        null_rate=_share_of_nulls(column, resolved.get(known["null-rate"]), owner),
        parts=tuple(parts),
    )


def _kind(base: str) -> Option[Any]:
    return Option(
        key=f"{base}kind",
        type=enum_type("random", "sequence"),
        default="random",
        doc="random values, or a sequence that counts up",
    )


def _parts(kind: t.LogicalType) -> list[tuple[str, t.LogicalType]]:
    """Name what a value is made of, as Flink's options do."""
    match kind:
        case t.RowType():
            return [(field.name, field.type) for field in kind.fields]
        case t.MapType():
            return [("key", kind.key), ("value", kind.value)]
        case t.ArrayType() | t.MultisetType():
            return [("element", kind.element)]
    raise AssertionError(f"{kind} has no parts")


def _null_rate(base: str) -> Option[Any]:
    return Option(
        key=f"{base}null-rate",
        type=NUMBER,
        default=Decimal(0),
        doc="the share of values that are NULL, 0 to 1",
    )


def _share_of_nulls(column: PhysicalColumn, given: Decimal, owner: str) -> float:
    null_rate = float(given)
    if not 0 <= null_rate <= 1 or (null_rate and not column.type.nullable):
        why = "is no share from 0 to 1" if column.type.nullable else "contradicts NOT NULL"
        raise OptionError(f"{owner}: 'fields.{column.name}.null-rate' = '{null_rate:g}' {why}")
    return null_rate


def _sequence_options(base: str) -> dict[str, Option[Any]]:
    return {
        name: Option(key=f"{base}{name}", type=LONG, default=None, doc=doc, required=True)
        for name, doc in (
            ("start", "the first value of a sequence, which needs it"),
            ("end", "the last value of a sequence, which needs it; the table ends with it"),
        )
    }


def _random_options(base: str, kind: t.LogicalType) -> dict[str, Option[Any]]:
    """Return the options that a type has, by their short names."""
    found: dict[str, Option[Any]] = {"null-rate": _null_rate(base)}
    if isinstance(kind, (*_INTEGERS, t.FloatType, t.DoubleType, t.DecimalType)):
        found["min"] = optional(NUMBER, f"{base}min", "the lowest value; default that of the type")
        found["max"] = optional(NUMBER, f"{base}max", "the highest value; default that of the type")
    if isinstance(kind, _VARYING):
        found["length"] = optional(
            INT, f"{base}length", f"characters or bytes of a value; default {DEFAULT_LENGTH}"
        )
        found["var-len"] = Option(
            key=f"{base}var-len",
            type=BOOLEAN,
            default=False,
            doc="whether lengths of values vary, from 1 to 'length'",
        )
    if isinstance(kind, _TIMES):
        found["max-past"] = Option(
            key=f"{base}max-past",
            type=DURATION,
            default=0,
            doc="how far a time may lie before the row's own",
        )
    return found


def _sequence(
    column: PhysicalColumn, resolved: Resolved, known: Mapping[str, Option[Any]], owner: str
) -> FieldSettings:
    if not isinstance(column.type, _COUNTED):
        raise OptionError(
            f"{owner}: a column of type {column.type} cannot be a sequence (column '{column.name}')",
            hint="numbers and texts can; leave 'kind' out for random values",
        )
    start, end = resolved.get(known["start"]), resolved.get(known["end"])
    if end < start:
        raise OptionError(
            f"{owner}: '{known['end'].key}' = '{end}' lies before '{known['start'].key}' = '{start}'"
        )
    low, high = _range_of(column.type)
    if not isinstance(column.type, _TEXTS) and not low <= start <= end <= high:
        raise OptionError(
            f"{owner}: the sequence {start} to {end} does not fit {column.type} (column '{column.name}')"
        )
    sequence = Counting(start=start, end=end)
    return FieldSettings(name=column.name, type=column.type, sequence=sequence)


def _random(
    column: PhysicalColumn, resolved: Resolved, known: Mapping[str, Option[Any]], owner: str
) -> FieldSettings:
    def value(name: str, default: Any) -> Any:
        found = resolved.get(known[name]) if name in known else None
        return default if found is None else found

    lowest, highest = _range_of(column.type)
    low, high = value("min", lowest), value("max", highest)
    if not lowest <= low <= high <= highest:
        raise OptionError(
            f"{owner}: '{known['min'].key}' = '{low}' and '{known['max'].key}' = '{high}' are no range of "
            f"{column.type}"
        )
    return FieldSettings(
        name=column.name,
        type=column.type,
        low=low,
        high=high,
        length=_length(column, value("length", None), owner),
        varies=value("var-len", False),
        max_past_ms=value("max-past", 0),
        null_rate=_share_of_nulls(column, value("null-rate", Decimal(0)), owner),
    )


def _length(column: PhysicalColumn, length: int | None, owner: str) -> int:
    """Return the length of texts: that of the type where it is fixed, else as asked, at most that of the type."""
    kind = column.type
    if isinstance(kind, t.CharType | t.BinaryType):
        return kind.length
    if not isinstance(kind, _VARYING):
        return DEFAULT_LENGTH
    if length is not None and not 1 <= length <= kind.length:
        raise OptionError(
            f"{owner}: 'fields.{column.name}.length' = '{length}' does not fit {kind}: it is at least 1 and at most "
            "the declared length"
        )
    return min(DEFAULT_LENGTH, kind.length) if length is None else length


def _range_of(kind: t.LogicalType) -> tuple[Decimal, Decimal]:
    """Return the lowest and the highest value of a numeric type; of others nothing is asked."""
    match kind:
        case t.DecimalType():
            # what 64 bits hold of it, as values are made in 64 bits
            most = Decimal(min(10**kind.precision - 1, 2**63 - 1)).scaleb(-kind.scale)
            return -most, most
        case t.FloatType():
            most = Decimal("3.4028234663852886e38")
            return -most, most
        case t.DoubleType():
            most = Decimal("1.7976931348623157e308")
            return -most, most
    bits = _INTEGERS.get(type(kind), 1)
    return Decimal(-(1 << (bits - 1))), Decimal((1 << (bits - 1)) - 1)


def _documented() -> tuple[Option[Any], ...]:
    """Return the options of a column, each once, whatever its type."""
    base = f"{FIELDS}<column>."
    random = _random_options(base, t.BigIntType()) | _random_options(base, t.TimestampType())
    random |= _random_options(base, t.VarCharType())
    # what a sequence needs, other columns do not have
    sequence = (replace(option, required=False) for option in _sequence_options(base).values())
    return tuple(
        replace(option, scope=OptionScope.SOURCE)
        for option in (_kind(base), *sequence, *random.values())
    )


FIELDS = "fields."
ROWS_PER_SECOND = Option(
    key="rows-per-second",
    type=LONG,
    default=10_000,
    doc="rows that are made each second",
    scope=OptionScope.SOURCE,
)
NUMBER_OF_ROWS: Option[int | None] = optional(
    LONG,
    "number-of-rows",
    "rows in all: they are there at once, as those of the last seconds; default without end",
    scope=OptionScope.SOURCE,
)
PARALLELISM: Option[int | None] = optional(
    INT, "scan.parallelism", "tasks of a batch; default one", flink="tasks of the source operator"
)
OPTIONS: tuple[Option[Any] | PrefixOption, ...] = (
    Option(
        key="connector",
        type=STRING,
        default=None,
        doc="'datagen': rows that are made up",
        required=True,
        scope=OptionScope.SOURCE,
    ),
    ROWS_PER_SECOND,
    NUMBER_OF_ROWS,
    PARALLELISM,
    PrefixOption(
        prefix=FIELDS,
        doc="what a column holds, by the options below; of a part of it by its name, fields.<column>.<field>.length, "
        "or as .element, .key and .value",
        members=_documented(),
        scope=OptionScope.SOURCE,
    ),
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
