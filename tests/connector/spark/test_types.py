"""Logical types as Spark's."""

from __future__ import annotations

import pytest
from hypothesis import given
from pyspark.sql import types as s

from penstock.catalog.model.table import ComputedColumn, MetadataColumn, PhysicalColumn
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import LogicalType
from penstock.connector.spark.types import flink_type_text, spark_schema, spark_type
from tests.catalog.strategies import logical_types


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        ("BOOLEAN", "boolean"),
        ("TINYINT", "tinyint"),
        ("SMALLINT", "smallint"),
        ("INT", "int"),
        ("BIGINT", "bigint"),
        ("FLOAT", "float"),
        ("DOUBLE", "double"),
        ("DECIMAL(20, 3)", "decimal(20,3)"),
        ("CHAR(3)", "string"),
        ("VARCHAR(3)", "string"),
        ("STRING", "string"),
        ("BINARY(3)", "binary"),
        ("BYTES", "binary"),
        ("DATE", "date"),
        ("TIME(3)", "time(6)"),
        ("TIMESTAMP(3)", "timestamp_ntz"),
        ("TIMESTAMP(9)", "timestamp_ntz"),
        ("TIMESTAMP_LTZ(3)", "timestamp"),
        ("INTERVAL YEAR TO MONTH", "interval year to month"),
        ("INTERVAL DAY TO SECOND", "interval day to second"),
        ("ARRAY<INT>", "array<int>"),
        ("MAP<STRING, BIGINT>", "map<string,bigint>"),
        ("MULTISET<STRING>", "map<string,int>"),
        ("ROW<a INT, b ROW<c TIMESTAMP(3)>>", "struct<a:int,b:struct<c:timestamp_ntz>>"),
    ],
)
def test_each_type_has_its_place(flink: str, spark: str) -> None:
    """TIMESTAMP is of no time zone in Flink and TIMESTAMP_NTZ in Spark."""
    assert spark_type(parse_type(flink)).simpleString() == spark


@given(logical_types)
def test_every_type_has_one(logical: LogicalType) -> None:
    """None is left out, however nested."""
    assert isinstance(spark_type(logical), s.DataType)


def test_what_may_be_null_may_be_null_in_spark() -> None:
    """On every level."""
    kind = spark_type(parse_type("ROW<a INT NOT NULL, b ARRAY<INT NOT NULL>, c MAP<INT, INT>>"))

    assert isinstance(kind, s.StructType)
    assert [field.nullable for field in kind] == [False, True, True]
    assert kind["b"].dataType == s.ArrayType(s.IntegerType(), containsNull=False)
    assert kind["c"].dataType == s.MapType(s.IntegerType(), s.IntegerType(), valueContainsNull=True)


def test_a_schema_keeps_order_comments_and_not_null() -> None:
    """Of columns of every kind whose type is known, and of fields inside."""
    schema = spark_schema(
        [
            PhysicalColumn(name="id", type=parse_type("INT NOT NULL"), comment="number"),
            MetadataColumn(name="offset", type=parse_type("BIGINT")),
            ComputedColumn(name="r", expression="x", type=parse_type("ROW<a INT 'inner'>")),
        ]
    )

    assert schema.names == ["id", "offset", "r"]
    assert [field.nullable for field in schema] == [False, True, True]
    assert schema["id"].metadata == {"comment": "number"}
    assert schema["r"].dataType["a"].metadata == {"comment": "inner"}  # type: ignore[index]


@pytest.mark.parametrize(
    ("flink", "text"),
    [
        ("TINYINT", "TINYINT"),
        ("DECIMAL(20, 3)", "DECIMAL(20, 3)"),
        ("CHAR(3)", "STRING"),
        ("BYTES", "BYTES"),
        ("TIMESTAMP(3)", "TIMESTAMP"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ"),
        ("INTERVAL DAY TO SECOND", "INTERVAL DAY TO SECOND"),
        ("MAP<STRING, ARRAY<INT>>", "MAP<STRING, ARRAY<INT>>"),
        ("ROW<a INT, `b c` ROW<c DATE>>", "ROW<`a` INT, `b c` ROW<`c` DATE>>"),
    ],
)
def test_a_spark_type_is_written_in_flinks_words(flink: str, text: str) -> None:
    """People who write BIGINT read BIGINT; what Spark does not keep is left out."""
    assert flink_type_text(spark_type(parse_type(flink))) == text
