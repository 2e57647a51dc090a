"""What tasks encode is what Spark's expressions write, byte by byte, on every value."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import resolve
from penstock.connector.arrow import arrow_type
from penstock.connector.formats import find_format
from penstock.connector.formats.contract import ColumnEncoding
from penstock.connector.spark.encoding import WrittenField, bytes_expression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 400
DAYS = [
    None,
    0,
    -1,
    18_000,
    -719_163,
    -719_162,
    -719_528,
    -719_529,
    -800_000,
    2_932_896,
    2_932_897,
    9_000_000,
]
MICROS = [
    None, 0, 1, -1, 100_000, 1_600_000_000_123_000, 1_600_000_000_100_000, -62_135_596_800_000_001,
    -62_135_596_800_000_000, 253_402_300_799_999_999, 253_402_300_800_000_000, -70_000_000_000_000_000,
]  # fmt: skip
TEXTS = [
    None,
    "",
    "a",
    'say "no"',
    "back\\slash",
    "tab\tline\nend\r\b\f",
    "\x00\x1b\x1f\x7f",
    "é☂𝄞",
    "\u2028/'",
    "n" * 9,
]
DECIMALS = [
    None, "0", "1", "-1", "10", "-100", "0.1", "0.10", "0.000001", "0.0000001", "-0.00000012", "123456789.0000000001",
    "1000000000", "9999999999.9999999999", "0.0000000000", "120.5", "-1200",
]  # fmt: skip
TYPES = {
    "b": "BOOLEAN",
    "t": "TINYINT",
    "i": "INT",
    "l": "BIGINT",
    "de": "DECIMAL(20, 10)",
    "wh": "DECIMAL(12, 0)",
    'na"me': "STRING",
    "by": "BYTES",
    "da": "DATE",
    "ti": "TIMESTAMP(6)",
    "lt": "TIMESTAMP_LTZ(6)",
    "ar": "ARRAY<STRING>",
    "aa": "ARRAY<ARRAY<INT>>",
    "ro": "ROW<`a b` INT, n ROW<x STRING, y ARRAY<ROW<z BIGINT>>>>",
}


def values(name: str, draw: random.Random) -> Any:
    """A value of a column, of edge cases mostly."""

    def whole(bits: int) -> int | None:
        most = 2 ** (bits - 1)
        found: int | None = draw.choice([None, 0, -1, most - 1, -most, draw.randrange(-most, most)])
        return found

    def text() -> str | None:
        found: str | None = draw.choice([*TEXTS, "".join(draw.choices(string.printable, k=6))])
        return found

    def some(make: Any) -> Any:
        return draw.choice([None, [], [make()], [make(), make(), make()]])

    def row() -> dict[str, Any] | None:
        inner = {"x": text(), "y": some(lambda: draw.choice([None, {"z": whole(64)}]))}
        found: dict[str, Any] | None = draw.choice(
            [None, {"a b": whole(32), "n": draw.choice([None, inner])}]
        )
        return found

    made: Mapping[str, Any] = {
        "b": lambda: draw.choice([None, True, False]),
        "t": lambda: whole(8),
        "i": lambda: whole(32),
        "l": lambda: whole(64),
        "de": lambda: (v := draw.choice(DECIMALS)) and Decimal(v),
        "wh": lambda: (v := whole(38)) and Decimal(v),
        'na"me': text,
        "by": lambda: draw.choice([None, b"", b"a", b"ab", b"abc", draw.randbytes(100)]),
        "da": lambda: draw.choice(DAYS),
        "ti": lambda: draw.choice(MICROS),
        "lt": lambda: draw.choice(MICROS),
        "ar": lambda: some(text),
        "aa": lambda: some(lambda: some(lambda: whole(32))),
        "ro": row,
    }
    return made[name]()


def columns(seed: int, rows: int) -> pa.Table:
    """A table of all types."""
    draw = random.Random(seed)
    return pa.table(
        {
            name: pa.array([values(name, draw) for _ in range(rows)], storage(kind)).cast(
                arrow_type(parse_type(kind))
            )
            for name, kind in TYPES.items()
        }
    )


def storage(kind: str) -> pa.DataType:
    """The type in which the test makes values: Python has no dates of all years."""
    found = arrow_type(parse_type(kind))
    if pa.types.is_timestamp(found):
        return pa.int64()
    return pa.int32() if pa.types.is_date(found) else found


def spark_bytes(
    spark: SparkSession,
    table: pa.Table,
    format_name: str,
    types: Mapping[str, str],
    options: Mapping[str, str],
) -> list[bytes | None]:
    """What Spark writes."""
    format_ = find_format(format_name)
    fields = [
        WrittenField(name=n, type=parse_type(kind), expression=f"`{n}`")
        for n, kind in types.items()
    ]
    resolved = resolve(options, format_.options(), owner="t")
    sql = bytes_expression(format_, fields, resolved, prefix="", owner="t")
    found = spark.createDataFrame(table).selectExpr(f"{sql} AS v").toArrow()
    return list(found.column("v").to_pylist())


def task_bytes(
    batch: pa.RecordBatch, format_name: str, types: Mapping[str, str], options: Mapping[str, str]
) -> list[bytes | None]:
    """What a task writes."""
    format_ = find_format(format_name)
    fields = [(name, parse_type(kind)) for name, kind in types.items()]
    resolved = resolve(options, format_.options(), owner="t")
    assert isinstance(format_, ColumnEncoding)
    assert format_.why_not_encoded(fields, resolved, prefix="") is None
    encode = format_.encoder(fields, resolved, prefix="")
    found = encode([batch.column(name) for name, _ in fields], batch.num_rows)
    assert found.type == pa.binary()
    return list(found.to_pylist())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"json.encode.ignore-null-fields": "true"},
        {
            "json.encode.decimal-as-plain-number": "true",
            "json.timestamp-format.standard": "ISO-8601",
        },
        {"json.timestamp-format.standard": "ISO-8601-WITH-OFFSET"},
    ],
    ids=["default", "without NULL", "plain and ISO", "offset"],
)
def test_json_is_what_spark_writes(spark: SparkSession, options: Mapping[str, str]) -> None:
    """All types with NULL, the ends of their ranges, and years that four digits do not hold."""
    table = columns(len(options), ROWS)
    found = task_bytes(table.combine_chunks().to_batches()[0], "json", TYPES, options)

    assert found == spark_bytes(spark, table, "json", TYPES, options)


def test_slices_are_encoded_as_whole_batches() -> None:
    """A batch that is a part of another has buffers with rows that are not its own."""
    (batch,) = columns(7, 60).combine_chunks().to_batches()
    whole = task_bytes(batch, "json", TYPES, {})
    parts = [task_bytes(batch.slice(at, 13), "json", TYPES, {}) for at in range(0, 60, 13)]

    assert [value for part in parts for value in part] == whole
    assert task_bytes(batch.slice(0, 0), "json", TYPES, {}) == []


RAW: Sequence[tuple[str, list[Any]]] = (
    ("STRING", TEXTS),
    ("BYTES", [None, b"", b"\xff\x00"]),
    ("BOOLEAN", [None, True, False]),
    ("TINYINT", [None, 0, -128, 127]),
    ("SMALLINT", [None, 1, -32768]),
    ("INT", [None, 258, -(2**31)]),
    ("BIGINT", [None, 258, -(2**63), 2**63 - 1]),
    ("FLOAT", [None, 1.5, -0.0, float("inf")]),
    ("DOUBLE", [None, 0.1, -0.0, float("-inf"), 5e-324]),
)


@pytest.mark.parametrize("order", ["big-endian", "little-endian"])
def test_raw_is_what_spark_writes(spark: SparkSession, order: str) -> None:
    """Each type, NULL as no value; of a slice, too."""
    for kind, given in RAW:
        table = pa.table({"v": pa.array(given, arrow_type(parse_type(kind)))})
        options = {"raw.endianness": order}
        (batch,) = table.combine_chunks().to_batches()
        expected = spark_bytes(spark, table, "raw", {"v": kind}, options)

        assert task_bytes(batch, "raw", {"v": kind}, options) == expected, kind
        assert task_bytes(batch.slice(1), "raw", {"v": kind}, options) == expected[1:], kind


def test_bytes_are_those_that_were_read() -> None:
    """A record of `raw` that passes unchanged is neither decoded nor copied."""
    (batch,) = pa.table({"v": pa.array([b"\xff\xfe", None, b"x"])}).to_batches()
    format_ = find_format("raw")
    assert isinstance(format_, ColumnEncoding)
    resolved = resolve({}, format_.options(), owner="t")
    encode = format_.encoder([("v", parse_type("BYTES"))], resolved, prefix="")
    found = encode([batch.column(0)], 3)

    assert [b and b.address for b in found.buffers()] == [
        b and b.address for b in batch.column(0).buffers()
    ]


@pytest.mark.parametrize(
    ("format_name", "kind", "options", "reason"),
    [
        ("json", "DOUBLE", {}, "column v: DOUBLE in JSON"),
        ("json", "ARRAY<ROW<x FLOAT>>", {}, "column v: FLOAT in JSON"),
        ("json", "MAP<STRING, INT>", {}, "column v: MAP<STRING, INT> in JSON"),
        ("raw", "STRING", {"raw.charset": "UTF-16"}, "column v: a text in the charset UTF-16"),
    ],
)
def test_what_may_differ_is_not_encoded(
    format_name: str, kind: str, options: Mapping[str, str], reason: str
) -> None:
    """Java writes fractions with digits of its own; NaN and order of a map are not looked at."""
    format_ = find_format(format_name)
    resolved = resolve(options, format_.options(), owner="t")

    assert isinstance(format_, ColumnEncoding)
    assert format_.why_not_encoded([("v", parse_type(kind))], resolved, prefix="") == reason


def test_years_are_those_of_java() -> None:
    """Numpy's year 0 is the one before the year 1."""
    from penstock.connector.formats.json.encoder import _any_year

    assert _any_year(np.datetime64(-719_528, "D")) == "0000-01-01"
    assert _any_year(np.datetime64(-719_529, "D")) == "-0001-12-31"
    assert _any_year(np.datetime64(2_932_897, "D")) == "+10000-01-01"
