"""Buckets of rows: those of Spark's hash, with every row once and in order."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.model import types as t
from penstock.connector.expression import (
    BUCKET,
    ENCODED,
    INPUT,
    BucketedInput,
    BucketedRows,
    Constant,
    FieldValue,
    FunctionCall,
    NamedExpression,
    PartialAggregate,
    PartialFunction,
    PartialResult,
    bucketed_from_json,
    bucketed_to_json,
)
from penstock.connector.expression import (
    ROWS as ROWS_OF,
)
from penstock.connector.spark.source import buckets
from penstock.connector.spark.source.buckets import (
    RowBuckets,
    bucket_numbers,
    decoded,
    is_hashed,
)

TEXTS = ["", "a", "ab", "abc", "abcd", "abcde", "ä", "ß€𐍈", "x" * 63, "\x7f\x80\xff", None]
LONGS = [0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32) - 7, 12_345_678_901, None]
EPOCH = datetime(1970, 1, 1)


def test_buckets_are_those_of_sparks_hash(spark: SparkSession) -> None:
    """Whole numbers as BIGINT, texts of all lengths and characters, days, moments; NULL changes nothing."""
    generator = random.Random(7)
    rows = [
        (
            generator.choice(LONGS),
            generator.choice([None, 0, -5, 2**31 - 1]),
            generator.choice(TEXTS),
            generator.choice([None, date(1969, 12, 31), date(2026, 3, 2)]),
            generator.choice([None, EPOCH - timedelta(microseconds=1), datetime(2026, 3, 2, 1)]),
        )
        for _ in range(300)
    ]
    schema = "l BIGINT, i INT, t STRING, d DATE, m TIMESTAMP_NTZ"
    columns = [F.col(name).cast("bigint") if name == "i" else F.col(name) for name in "litdm"]
    keys = {1: columns[:1], 2: columns[:2], 5: columns}
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    expected = frame.select(
        *(F.pmod(F.hash(*of), F.lit(7)).cast("int").alias(f"b{n}") for n, of in keys.items()),
        F.pmod(F.hash("t"), F.lit(5)).cast("int").alias("text"),
    ).toArrow()
    types = [pa.int64(), pa.int32(), pa.string(), pa.date32(), pa.timestamp("us")]
    arrays = [pa.array([row[n] for row in rows], kind).slice(0) for n, kind in enumerate(types)]

    for number in keys:
        found = bucket_numbers(arrays[:number], len(rows), 7)
        assert found.tolist() == expected.column(f"b{number}").to_pylist()
    part = arrays[2].slice(40, 100)
    assert bucket_numbers([part], 100, 5).tolist() == expected.column("text").to_pylist()[40:140]


def test_other_types_are_no_keys_of_it() -> None:
    """Numbers with a fraction have two zeros, and decimals two forms."""
    kinds = [pa.float64(), pa.decimal128(10, 2), pa.bool_(), pa.binary(), pa.uint64()]

    assert not any(map(is_hashed, kinds))
    assert is_hashed(pa.timestamp("us", tz="UTC"))


LONG, TEXT = t.BigIntType(), t.VarCharType(length=9)
ROW = t.RowType(fields=(t.RowField(name="a", type=LONG), t.RowField(name="b", type=TEXT)))
KIND = FieldValue(path=("kind",), type=LONG)


def of_kind(kind: int) -> FunctionCall:
    """The condition of an input."""
    constant = Constant(value=kind, type=LONG)
    return FunctionCall(function="equal", arguments=(KIND, constant), type=t.BooleanType())


ROWS = BucketedRows(
    buckets=3,
    inputs=(
        BucketedInput(
            columns=(
                NamedExpression(name="b", value=FieldValue(path=("row", "b"), type=TEXT)),
                NamedExpression(name="a", value=FieldValue(path=("row", "a"), type=LONG)),
            ),
            key=(1,),
            condition=of_kind(0),
        ),
        BucketedInput(
            columns=(NamedExpression(name="one", value=Constant(value=1, type=LONG)),), key=()
        ),
    ),
)


@pytest.mark.parametrize("at_once", [5, 10_000])
def test_every_row_is_once_in_the_bucket_of_its_key(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """In the order in which it was read, however many rows are sorted together; what Spark gets is counted."""
    monkeypatch.setattr(buckets, "ROWS_AT_ONCE", at_once)
    values = [{"kind": n % 2, "row": {"a": n * 37 % 11, "b": str(n)}} for n in range(200)]
    kinds = pa.schema(
        [("kind", pa.int64()), ("row", pa.struct([("a", pa.int64()), ("b", pa.string())]))]
    )
    task = RowBuckets(ROWS)
    given = [
        pa.RecordBatch.from_pylist(values[start : start + 30], kinds) for start in range(0, 200, 30)
    ]
    pieces = [piece for batch in given for piece in task.add(batch)] + list(task.finish())
    table = pa.Table.from_batches(pieces)
    found: dict[tuple[int, int], list[tuple[object, ...]]] = {}
    for place in range(table.num_rows):
        key = (table.column(INPUT)[place].as_py(), table.column(BUCKET)[place].as_py())
        for rows in decoded([table.column(ENCODED)[place]]):
            found.setdefault(key, []).extend(zip(*(c.to_pylist() for c in rows), strict=True))
    keys = pa.array([n * 37 % 11 for n in range(0, 200, 2)])
    expected: dict[tuple[int, int], list[tuple[object, ...]]] = {(1, 0): [(1,)] * 200}
    for n, bucket in zip(range(0, 200, 2), bucket_numbers([keys], 100, 3).tolist(), strict=True):
        expected.setdefault((0, bucket), []).append((str(n), n * 37 % 11))

    assert found == expected
    assert task.merged == 200 - table.num_rows
    assert list(task.finish()) == []


def test_buckets_travel_as_json() -> None:
    """Nothing is lost."""
    assert bucketed_from_json(bucketed_to_json(ROWS)) == ROWS


def test_moments_with_a_zone_are_hashed_as_their_instant() -> None:
    """As Spark keeps both kinds of times."""
    moment = datetime(2026, 3, 2, 4, 5, tzinfo=UTC)
    instants = pa.array([moment], pa.timestamp("us", tz="UTC"))
    local = pa.array([moment.replace(tzinfo=None)], pa.timestamp("us"))

    assert bucket_numbers([instants], 1, 97).tolist() == bucket_numbers([local], 1, 97).tolist()


def test_rows_are_grouped_before_they_are_sorted() -> None:
    """The groups of those that belong to the input, in its columns, each in the bucket of its key."""
    moment = t.TimestampType()
    groups = PartialAggregate(
        keys=(NamedExpression(name="__key_0", value=FieldValue(path=("k",), type=LONG)),),
        results=(
            PartialResult(
                name="most",
                function=PartialFunction.MAX,
                argument=FieldValue(path=("v",), type=LONG),
                condition=None,
                type=LONG,
            ),
        ),
        time=NamedExpression(name="at", value=FieldValue(path=("at",), type=moment)),
        pane_ms=10_000,
    )
    columns = (
        ("k", "__key_0", LONG),
        ("pane", "at", moment),
        ("m", "most", LONG),
        ("n", ROWS_OF, LONG),
    )
    one = BucketedInput(
        columns=tuple(
            NamedExpression(name=name, value=FieldValue(path=(of,), type=kind))
            for name, of, kind in columns
        ),
        key=(0,),
        condition=of_kind(0),
        groups=groups,
    )
    rows = BucketedRows(buckets=3, inputs=(one,))
    assert bucketed_from_json(bucketed_to_json(rows)) == rows
    values = [
        {"kind": n % 3, "k": n % 4, "v": n, "at": EPOCH + timedelta(seconds=n)} for n in range(60)
    ]
    schema = pa.schema(
        [("kind", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("at", pa.timestamp("us"))]
    )
    task = RowBuckets(rows)
    given = [pa.RecordBatch.from_pylist(values[at : at + 25], schema) for at in range(0, 60, 25)]
    (pieces,) = [piece for batch in given for piece in task.add(batch)] + list(task.finish())
    expected: dict[tuple[int, datetime], tuple[int, int]] = {}
    for value in values:
        if value["kind"] == 0:
            of = (int(str(value["k"])), EPOCH + timedelta(seconds=int(str(value["v"])) // 10 * 10))
            expected[of] = (int(str(value["v"])), expected.get(of, (0, 0))[1] + 1)
    found = {}
    for place in range(pieces.num_rows):
        (table,) = decoded([pieces.column(ENCODED)[place]])
        numbers = bucket_numbers([table.column(0).combine_chunks()], table.num_rows, 3)
        assert set(numbers.tolist()) == {pieces.column(BUCKET)[place].as_py()}
        for key, pane, most, count in zip(*(c.to_pylist() for c in table.columns), strict=True):
            found[key, pane] = (most, count)

    assert found == expected
    assert task.merged == 60 - pieces.num_rows
