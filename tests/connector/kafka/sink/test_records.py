"""What the slots of a batch follow from, beside its rows: whether a changed table gives the records of before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from penstock.connector.kafka.sink.records import ZONE, encoded_digest
from penstock.connector.spark.session import configured
from tests.connector.kafka.sink.writing import made_sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSERTED = ("id", "name")
COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING"}
KEYED = {"key.format": "json", "key.fields": "id"}


def digest(
    spark: SparkSession,
    options: Mapping[str, str | None] | None = None,
    inserted: tuple[str, ...] = INSERTED,
    columns: Mapping[str, str] | None = None,
    metadata: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """The digest of a batch of rows with the columns `inserted`, for a table."""
    table = made_sink(options or {}, columns=columns or COLUMNS, metadata=metadata).table
    frame = spark.range(1).selectExpr(*(f"CAST(id AS STRING) AS {name}" for name in inserted))
    return encoded_digest("content", frame, table)


def test_it_ends_the_digest_of_the_content(spark: SparkSession) -> None:
    """In eight digits, as each start makes them."""
    content, _, encoding = digest(spark).partition(".")

    assert (content, len(encoding)) == ("content", 8)
    assert digest(spark) == digest(spark)


def test_what_changes_the_bytes_of_records_changes_it(spark: SparkSession) -> None:
    """Each alone: a slot is chosen by all the bytes of a record without a key."""
    plain = digest(spark)
    nulls, standard = "json.encode.ignore-null-fields", "json.timestamp-format.standard"

    changed = [
        digest(spark, {nulls: "true"}),
        digest(spark, {standard: "ISO-8601"}),
        digest(spark, KEYED),
        digest(spark, inserted=("name", "id")),
        digest(spark, inserted=("id",)),
        digest(spark, columns={**COLUMNS, "name": "VARCHAR(10)"}),
        digest(spark, columns={**COLUMNS, "more": "STRING"}),
        digest(spark, metadata={"at": ("timestamp", "TIMESTAMP_LTZ(3)")}),
        digest(spark, {"format": "raw"}, inserted=("name",), columns={"name": "STRING"}),
    ]
    with configured(spark, {ZONE: "Asia/Kolkata"}):
        changed.append(digest(spark))

    assert plain not in changed
    assert len(set(changed)) == len(changed)


@pytest.mark.parametrize(
    "options",
    [
        {"properties.linger.ms": "7"},
        {"json.ignore-parse-errors": "true"},
        {"json.encode.ignore-null-fields": "false"},
        {"scan.startup.mode": "latest-offset"},
        {"sink.partitioner": "fixed"},
    ],
)
def test_what_leaves_records_as_they_are_does_not(
    spark: SparkSession, options: Mapping[str, str]
) -> None:
    """How records are read, and sent; and an option that is set to its default."""
    assert digest(spark, options) == digest(spark)


def test_a_column_that_takes_null_leaves_records_as_they_are(spark: SparkSession) -> None:
    """Such a change lets a batch pass that it ended."""
    assert digest(spark, columns={**COLUMNS, "name": "STRING NOT NULL"}) == digest(spark)


def test_where_each_record_has_a_key_it_alone_counts(spark: SparkSession) -> None:
    """Rows stay in their slots, whatever becomes of the value."""
    plain = {**KEYED, "format": None, "value.format": "json"}
    changed = {**plain, "value.json.encode.ignore-null-fields": "true"}

    assert digest(spark, changed) == digest(spark, plain)
    assert digest(spark, plain, inserted=("name", "id")) != digest(spark, plain)
    nullable = {**COLUMNS, "id": "BIGINT"}
    assert digest(spark, changed, columns=nullable) != digest(spark, plain, columns=nullable)
