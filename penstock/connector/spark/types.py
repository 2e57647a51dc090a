"""Logical types as Spark types.

TIMESTAMP is Spark's TIMESTAMP_NTZ, TIMESTAMP_LTZ its TIMESTAMP, both in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import types as s

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quoted
from penstock.catalog.model.table import Column

_PLAIN: dict[type, s.DataType] = {
    t.BooleanType: s.BooleanType(),
    t.TinyIntType: s.ByteType(),
    t.SmallIntType: s.ShortType(),
    t.IntType: s.IntegerType(),
    t.BigIntType: s.LongType(),
    t.FloatType: s.FloatType(),
    t.DoubleType: s.DoubleType(),
    t.CharType: s.StringType(),
    t.VarCharType: s.StringType(),
    t.BinaryType: s.BinaryType(),
    t.VarBinaryType: s.BinaryType(),
    t.DateType: s.DateType(),
    t.TimeType: s.TimeType(),
    t.TimestampType: s.TimestampNTZType(),
    t.TimestampLtzType: s.TimestampType(),
    t.IntervalYearMonthType: s.YearMonthIntervalType(),
    t.IntervalDaySecondType: s.DayTimeIntervalType(),
}


def spark_type(logical: t.LogicalType) -> s.DataType:
    """Return the Spark type of a logical type; whether it may be NULL belongs to the field around it."""
    match logical:
        case t.DecimalType():
            return s.DecimalType(logical.precision, logical.scale)
        case t.ArrayType():
            return s.ArrayType(spark_type(logical.element), logical.element.nullable)
        case t.MapType():
            return s.MapType(
                spark_type(logical.key), spark_type(logical.value), logical.value.nullable
            )
        case t.MultisetType():
            return s.MapType(spark_type(logical.element), s.IntegerType(), False)
        case t.RowType():
            return s.StructType([_field(f.name, f.type, f.comment) for f in logical.fields])
    plain = _PLAIN.get(type(logical))
    if plain is None:
        raise UnsupportedError(f"Spark has no type for {logical}")
    return plain


def spark_schema(columns: Iterable[Column]) -> s.StructType:
    """Return the Spark schema of columns whose types are known, NOT NULL and comments included."""
    fields = []
    for column in columns:
        assert column.type is not None, f"the type of computed column {column.name} is not known"
        fields.append(_field(column.name, column.type, column.comment))
    return s.StructType(fields)


_TEXTS: dict[type, str] = {
    s.BooleanType: "BOOLEAN",
    s.ByteType: "TINYINT",
    s.ShortType: "SMALLINT",
    s.IntegerType: "INT",
    s.LongType: "BIGINT",
    s.FloatType: "FLOAT",
    s.DoubleType: "DOUBLE",
    s.StringType: "STRING",
    s.BinaryType: "BYTES",
    s.DateType: "DATE",
    s.TimestampNTZType: "TIMESTAMP",
    s.TimestampType: "TIMESTAMP_LTZ",
    s.NullType: "NULL",
}


def flink_type_text(kind: s.DataType) -> str:
    """Write a Spark type in Flink SQL's words, for people; Spark's own where Flink has none.

    A MULTISET is not told from a MAP, and lengths and precisions that Spark does not keep are left out.
    """
    match kind:
        case s.DecimalType():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case s.ArrayType():
            return f"ARRAY<{flink_type_text(kind.elementType)}>"
        case s.MapType():
            return f"MAP<{flink_type_text(kind.keyType)}, {flink_type_text(kind.valueType)}>"
        case s.StructType():
            fields = (f"{quoted(f.name)} {flink_type_text(f.dataType)}" for f in kind.fields)
            return f"ROW<{', '.join(fields)}>"
    return _TEXTS.get(type(kind)) or kind.simpleString().upper()


def _field(name: str, logical: t.LogicalType, comment: str | None) -> s.StructField:
    metadata = None if comment is None else {"comment": comment}
    return s.StructField(name, spark_type(logical), logical.nullable, metadata)
