"""Encode dead letters as records of a Kafka topic, and decode them: Spark expressions only.

Key, value and headers are kept. Facts about the record are appended as headers under `__penstock.errors.`, as
Kafka Connect does with its dead letter queues (KIP-298). Numbers and times (epoch ms) are texts. A record that
is read again and fails again gets these headers once more, so the last ones count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connector.spark.encoding.bytes import sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["HEADERS", "decode_dead_letters", "encode_dead_letters"]

_BEGIN = "__penstock.errors."
_OF_LETTERS = (
    # column, header, Spark type, the text of the value
    ("table", "table", "STRING", "`table`"),
    ("pipeline", "pipeline", "STRING", "`pipeline`"),
    ("query_id", "query", "STRING", "`query_id`"),
    ("batch_id", "batch", "BIGINT", "CAST(`batch_id` AS STRING)"),
    ("topic", "topic", "STRING", "`topic`"),
    ("partition", "partition", "INT", "CAST(`partition` AS STRING)"),
    ("offset", "offset", "BIGINT", "CAST(`offset` AS STRING)"),
    ("timestamp", "timestamp", "BIGINT", "CAST(unix_millis(`timestamp`) AS STRING)"),
    ("stage", "stage", "STRING", "`stage`"),
    ("error", "message", "STRING", "`error`"),
)
HEADERS = tuple(f"{_BEGIN}{header}" for _, header, _, _ in _OF_LETTERS)
"""The headers of a letter, in their order behind those of the record."""


def encode_dead_letters(letters: DataFrame) -> DataFrame:
    """Return the records of dead letters: `key`, `value`, `headers`. Dead letters of files lose their path."""
    added = ", ".join(
        f"named_struct('key', {sql_text(name)}, 'value', CAST({text} AS BINARY))"
        for name, (_, _, _, text) in zip(HEADERS, _OF_LETTERS, strict=True)
    )
    own = "coalesce(headers, CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>))"
    return letters.selectExpr("key", "value", f"concat({own}, array({added})) AS headers")


def decode_dead_letters(records: DataFrame) -> DataFrame:
    """Return the dead letters among records with `key`, `value`, `headers` and `left_out_at`; other
    records give none.
    """
    places = [f"try_element_at(headers, {at - len(HEADERS)})" for at in range(len(HEADERS))]
    is_letter = " AND ".join(
        f"{place}.key <=> {sql_text(name)}" for place, name in zip(places, HEADERS, strict=True)
    )
    columns = [
        f"{_read(column, kind, place)} AS `{column}`"
        for place, (column, _, kind, _) in zip(places, _OF_LETTERS, strict=True)
    ]
    return records.filter(is_letter).selectExpr(
        *columns,
        "CAST(NULL AS STRING) AS path",
        "CAST(NULL AS BIGINT) AS position",
        "key",
        "value",
        f"slice(headers, 1, greatest(size(headers) - {len(HEADERS)}, 0)) AS headers",
        "left_out_at",
    )


def _read(column: str, kind: str, place: str) -> str:
    # not what we wrote: NULL, as nobody is helped by a list of letters that fails for one of them
    value = f"try_cast(CAST({place}.value AS STRING) AS {kind})"
    return f"timestamp_millis({value})" if column == "timestamp" else value
