"""Records that Spark expressions write: Flink's text rules, and what the source's decoders read back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import Resolved, resolve
from penstock.connector.arrow import arrow_schema
from penstock.connector.changelog import RowKind
from penstock.connector.formats import find_format
from penstock.connector.spark.encoding import WrittenField, bytes_expression

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

TYPES = {
    "b": "BOOLEAN",
    "i": "INT",
    "l": "BIGINT",
    "d": "DOUBLE",
    "dec": "DECIMAL(20, 10)",
    "s": "STRING",
    "raw": "BYTES",
    "day": "DATE",
    "ts": "TIMESTAMP(6)",
    "ltz": "TIMESTAMP_LTZ(6)",
    "list": "ARRAY<STRING>",
    "map": "MAP<STRING, BIGINT>",
    "row": "ROW<`a b` INT, n ROW<x STRING>>",
}
_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
_TIMES = st.datetimes(datetime(1600, 1, 1), datetime(9000, 1, 1))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "b": st.booleans(),
    "i": st.integers(-(2**31), 2**31 - 1),
    "l": st.integers(-(2**63), 2**63 - 1),
    "d": st.floats(allow_nan=False),
    "dec": st.decimals(-(10**9), 10**9, places=10, allow_nan=False),
    "s": _TEXT,
    "raw": st.binary(max_size=80),
    "day": st.dates(date(1600, 1, 1), date(9000, 1, 1)),
    "ts": _TIMES,
    "ltz": _TIMES.map(lambda at: at.replace(tzinfo=UTC)),
    "list": st.lists(st.none() | _TEXT, max_size=3),
    "map": st.dictionaries(_TEXT, st.none() | st.integers(-9, 9), max_size=3).map(
        lambda found: list(found.items())
    ),
    "row": st.fixed_dictionaries(
        {
            "a b": st.none() | st.integers(0, 9),
            "n": st.none() | st.fixed_dictionaries({"x": st.none() | _TEXT}),
        }
    ),
}
ROWS = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})


def resolved(format_: str, options: Mapping[str, str]) -> Resolved:
    """The format's options, checked."""
    return resolve(options, find_format(format_).options(), owner="a test")


def written(
    spark: SparkSession,
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
    options: Mapping[str, str] | None = None,
    *,
    format_: str = "json",
) -> list[bytes | None]:
    """The records of rows."""
    types = {name: parse_type(text) for name, text in columns.items()}
    schema = arrow_schema(types.items())
    frame = spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema))
    fields = [
        WrittenField(name=name, type=logical, expression=f"`{name}`")
        for name, logical in types.items()
    ]
    expression = bytes_expression(
        find_format(format_),
        fields,
        resolved(format_, options or {}),
        prefix="",
        owner="a test",
    )
    found = [row["record"] for row in frame.selectExpr(f"{expression} AS record").collect()]
    return [None if record is None else bytes(record) for record in found]


def one(spark: SparkSession, type_: str, *values: Any, **options: str) -> list[str]:
    """The texts of single JSON values of a type; options are written with underscores."""
    keys = {f"json.{key.replace('__', '.').replace('_', '-')}": v for key, v in options.items()}
    records = written(spark, {"v": type_}, [{"v": value} for value in values], keys)
    return [record.decode().removeprefix('{"v":').removesuffix("}") for record in records if record]


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(ROWS, min_size=30, max_size=60),
    st.sampled_from(["SQL", "ISO-8601", "ISO-8601-WITH-OFFSET"]),
)
def test_what_is_written_as_json_is_read_back_equal(
    spark: SparkSession, rows: list[dict[str, Any]], standard: str
) -> None:
    """By the decoder of the source, whatever the standard of timestamps."""
    options = {"json.timestamp-format.standard": standard}
    records = written(spark, TYPES, rows, options)
    fields = [(name, parse_type(text)) for name, text in TYPES.items()]
    decoder = find_format("json").decoder(fields, resolved("json", options))
    decoded = decoder.decode(records, lambda index: f"record {index}")
    expected = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(fields))

    assert decoded.batch.to_pylist() == expected.to_pylist()
    assert all(json.loads(record or b"").keys() == TYPES.keys() for record in records)


def test_decimals_are_written_as_flink_writes_them(spark: SparkSession) -> None:
    """Without trailing zeros and perhaps with an exponent, or with all digits where the option asks."""
    values = [Decimal(text) for text in ("0.000000027", "100", "-1.50", "0", "-0.0000001", "12.34")]

    assert one(spark, "DECIMAL(20, 10)", *values) == [
        "2.7E-8",
        "1E+2",
        "-1.5",
        "0",
        "-1E-7",
        "12.34",
    ]
    assert one(
        spark, "DECIMAL(9, 2)", Decimal("-1.50"), encode__decimal_as_plain_number="true"
    ) == ["-1.50"]


def test_times_are_written_by_the_standard(spark: SparkSession) -> None:
    """Instants end with Z, in UTC, also where the session's time zone is another."""
    at = datetime(2020, 1, 2, 3, 4, 5, 120000)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        sql = one(spark, "TIMESTAMP_LTZ(3)", at.replace(tzinfo=UTC))
        iso = one(spark, "TIMESTAMP(3)", at, timestamp_format__standard="ISO-8601")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert sql == ['"2020-01-02 03:04:05.12Z"']
    assert iso == ['"2020-01-02T03:04:05.12"']
    assert one(spark, "TIME(3)", time(12, 0, 1, 100000)) == ['"12:00:01.1"']


def test_null_fields_may_be_left_out(spark: SparkSession) -> None:
    """Of rows in rows, too; elements of arrays and values of maps stay."""
    columns = {"a": "INT", "r": "ROW<x INT, y INT>", "l": "ARRAY<INT>", "m": "MAP<STRING, INT>"}
    row = {"a": None, "r": {"x": None, "y": 1}, "l": [None, 1], "m": [("k", None)]}
    (short,) = written(spark, columns, [row], {"json.encode.ignore-null-fields": "true"})
    (whole,) = written(spark, columns, [row])

    assert short == b'{"r":{"y":1},"l":[null,1],"m":{"k":null}}'
    assert whole == b'{"a":null,"r":{"x":null,"y":1},"l":[null,1],"m":{"k":null}}'


def test_numbers_that_json_lacks_are_quoted(spark: SparkSession) -> None:
    """As Jackson does."""
    assert one(spark, "DOUBLE", float("nan"), float("-inf"), 1e10) == [
        '"NaN"',
        '"-Infinity"',
        "1.0E10",
    ]


@pytest.mark.parametrize("endianness", ["big-endian", "little-endian"])
def test_what_is_written_raw_is_read_back_equal(spark: SparkSession, endianness: str) -> None:
    """Each type by the decoder of the source; NULL gives no value."""
    options = {"raw.endianness": endianness}
    cases: dict[str, list[Any]] = {
        "BOOLEAN": [True, False, None],
        "TINYINT": [-128, 127],
        "INT": [-(2**31), 7, None],
        "BIGINT": [-1, 2**63 - 1],
        "FLOAT": [1.5, -0.0, None],
        "DOUBLE": [1e300, float("inf")],
        "STRING": ["é", None],
        "BYTES": [b"\x00\xff"],
    }
    for type_, values in cases.items():
        records = written(spark, {"v": type_}, [{"v": v} for v in values], options, format_="raw")
        decoder = find_format("raw").decoder([("v", parse_type(type_))], resolved("raw", options))

        assert decoder.decode(records, str).batch.column(0).to_pylist() == values


CHANGED = [(1, "a", 0), (1, "a", 1), (1, 'b"', 2), (2, None, 3)]
"""Id, name and row kind: an insert, an update, a delete of another row."""


@pytest.mark.parametrize(
    ("format_", "first", "last"),
    [
        (
            "debezium-json",
            '{"before":null,"after":{"id":1,"name":"a"},"op":"c"}',
            '{"before":{"id":2,"name":null},"after":null,"op":"d"}',
        ),
        (
            "canal-json",
            '{"data":[{"id":1,"name":"a"}],"type":"INSERT"}',
            '{"data":[{"id":2,"name":null}],"type":"DELETE"}',
        ),
        (
            "maxwell-json",
            '{"data":{"id":1,"name":"a"},"type":"insert"}',
            '{"data":{"id":2,"name":null},"type":"delete"}',
        ),
        (
            "ogg-json",
            '{"before":null,"after":{"id":1,"name":"a"},"op_type":"I"}',
            '{"before":{"id":2,"name":null},"after":null,"op_type":"D"}',
        ),
    ],
)
def test_changes_are_written_as_flink_does_and_read_back(
    spark: SparkSession, format_: str, first: str, last: str
) -> None:
    """An update as a deletion and an insertion, which is what its reader makes of it."""
    types = {"id": parse_type("BIGINT"), "name": parse_type("STRING")}
    fields = [WrittenField(name=n, type=kind, expression=n) for n, kind in types.items()]
    expression = bytes_expression(
        find_format(format_), fields, resolved(format_, {}), prefix="", owner="t", kind="k"
    )
    rows = spark.createDataFrame(CHANGED, "id BIGINT, name STRING, k TINYINT").coalesce(1)
    records = [bytes(row["r"]) for row in rows.selectExpr(f"{expression} AS r").collect()]
    decoded = find_format(format_).decoder(list(types.items()), resolved(format_, {}))
    found = decoded.decode(records, str)
    assert found.kinds is not None
    kinds = [RowKind(kind).short for kind in found.kinds.tolist()]

    assert (records[0].decode(), records[-1].decode()) == (first, last)
    assert kinds == ["+I", "-D", "+I", "-D"]
    assert [tuple(row.values()) for row in found.batch.to_pylist()] == [row[:2] for row in CHANGED]


def test_rows_without_kinds_are_insertions() -> None:
    """And a schema is not written beside them, as in Flink."""
    field = WrittenField(name="v", type=parse_type("STRING"), expression="v")
    include = {"debezium-json.schema-include": "true"}
    chosen = find_format("debezium-json")
    text = bytes_expression(chosen, [field], resolved("debezium-json", {}), prefix="", owner="t")
    with pytest.raises(UnsupportedError, match="schema-include"):
        bytes_expression(chosen, [field], resolved("debezium-json", include), prefix="", owner="t")

    assert "CASE WHEN k" not in text
    assert '"op":"c"' in text
    assert '"op":"d"' not in text
