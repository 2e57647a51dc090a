"""Which records tasks write, why Spark writes the others, and what tasks make of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.catalog.errors import SinkError
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.contract import Sink
from penstock.connector.expression import Constant, Expression, FieldValue, FunctionCall
from penstock.connector.file_output import (
    FilledColumn,
    RecordOutput,
    WrittenByEngine,
    output_from_json,
    output_to_json,
)
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.connector import UpsertKafkaConnector
from penstock.connector.kafka.sink.protocol import BY_TASKS, Marker, SlotNames, digest_by_tasks
from penstock.connector.kafka.sink.sink_state import BatchBegun
from penstock.connector.kafka.sink.task_output import ended_by
from penstock.connector.kafka.sink.task_records import RecordEncoder
from penstock.connector.kafka.sink.tasks import (
    Transactions,
    read_transactions,
    transactions_text,
)
from tests.connector.kafka.sink.writing import KEYED, ONCE, made_sink
from tests.connector.kafka.tables import CONNECTION, kafka_table

TIME = {"at": ("timestamp", "TIMESTAMP_LTZ(3)")}


def filled(**types: str) -> tuple[FilledColumn, ...]:
    """Columns filled by columns of the same names."""
    return tuple(
        FilledColumn(name=name, source=FieldValue(path=(name,), type=parse_type(kind)))
        for name, kind in types.items()
    )


def decided(
    sink: Sink, columns: tuple[FilledColumn, ...] | None = None
) -> RecordOutput | WrittenByEngine:
    """What is decided without Spark; by default for an INSERT of id and name."""
    assert sink.task_writer is not None
    found = sink.task_writer.output(columns or filled(id="BIGINT", name="STRING"))
    assert isinstance(found, RecordOutput | WrittenByEngine)
    return found


def test_tasks_write_json_and_raw_with_keys_and_times() -> None:
    """The options reach tasks as they are: the sink is made again of the table."""
    sink = made_sink({**KEYED, **ONCE, "sink.parallelism": "3"}, metadata=TIME)
    output = decided(sink, filled(id="INT NOT NULL", at="TIMESTAMP_LTZ(6)"))
    whole = decided(sink, filled(id="BIGINT NOT NULL", at="TIMESTAMP_LTZ(6)"))

    assert output == WrittenByEngine(reason="column id is cast from INT NOT NULL to BIGINT")
    assert isinstance(whole, RecordOutput)
    assert [(c.name, c.source is None) for c in whole.columns] == [
        ("id", False),
        ("name", True),
        ("at", False),
    ]
    assert whole.tasks == 3
    assert [column.name for column in whole.filled] == ["id", "at"]
    assert output_from_json(output_to_json(whole)) == whole


@pytest.mark.parametrize(
    ("options", "more", "given", "reason"),
    [
        ({"sink.writer": "spark"}, {}, {}, "'sink.writer' = 'spark'"),
        ({**ONCE, "sink.staging": "always"}, {}, {}, "'sink.staging' = 'always'"),
        ({"format": "debezium-json"}, {}, {}, "the format 'debezium-json' writes changes"),
        (
            {"topic": "a;b"},
            {"metadata": {"to": ("topic", "STRING")}},
            {"to": "STRING"},
            "rows say their topic",
        ),
        (
            {},
            {"metadata": {"h": ("headers", "MAP<STRING, BYTES>")}},
            {"h": "MAP<STRING, BYTES>"},
            "column h is written as 'headers'",
        ),
        (
            {},
            {"metadata": {"at": ("timestamp", "TIMESTAMP(3)")}},
            {"at": "TIMESTAMP(3)"},
            "column at is written as 'timestamp'",
        ),
        ({}, {"columns": {"x": "DOUBLE"}}, {"x": "DOUBLE"}, "column x: DOUBLE in JSON"),
        (
            {"key.format": "raw", "key.fields": "id", "key.raw.charset": "UTF-16"},
            {"columns": {"id": "STRING"}},
            {"id": "STRING"},
            "column id: a text in the charset UTF-16",
        ),
    ],
)
def test_spark_writes_the_others(
    options: Mapping[str, str | None], more: dict[str, Any], given: Mapping[str, str], reason: str
) -> None:
    """EXPLAIN says why."""
    if "key.format" in options:
        options = {**options, "format": None, "value.format": "json"}
    found = decided(made_sink(options, **more), filled(**given) if given else None)

    assert found == WrittenByEngine(reason=reason)


def test_the_rows_of_a_key_come_together() -> None:
    """An upsert topic is written by Spark."""
    options = {**CONNECTION, "connector": "upsert-kafka", "topic": "t", "key.format": "json"}
    table = kafka_table(
        {**options, "value.format": "json", "format": None, "scan.startup.mode": None},
        columns={"id": "BIGINT NOT NULL", "name": "STRING"},
        key=("id",),
    )

    found = decided(UpsertKafkaConnector().sink(table))
    assert found == WrittenByEngine(reason="the rows of a key come together")


def test_those_who_began_a_batch_end_it() -> None:
    """Whatever the option says now; else it decides."""
    sink = made_sink({})
    output = decided(sink)
    assert isinstance(output, RecordOutput)
    tasks, spark = (BatchBegun(batch_id=7, by_tasks=by_tasks) for by_tasks in (True, False))
    off = replace(sink.settings, by_tasks=False)

    def ended(began: BatchBegun | None, *, by_option: bool) -> object:
        return ended_by(output, began, sink.settings if by_option else off, owner="t")

    assert ended(None, by_option=True) is output
    assert ended(None, by_option=False) == WrittenByEngine(reason="'sink.writer' = 'spark'")
    assert ended(tasks, by_option=False) is output
    assert ended(spark, by_option=True) == WrittenByEngine(
        reason="it wrote a part of batch 7, and ends it"
    )


def test_what_the_driver_says_of_a_batch_reaches_its_tasks() -> None:
    """As a text; the marker says who wrote the batch."""
    shared = Transactions(
        names=SlotNames.of("p", "q", "t"),
        timeout_ms=1000,
        partition=TopicPartition("topic", 0),
        batch_id=3,
        first_batch=1,
        digest=digest_by_tasks("0123456789abcdef"),
    )
    marker = Marker(next_batch=4, rows=2, digest=shared.digest)
    read = Marker.parse(4, marker.metadata)

    assert read_transactions(transactions_text(shared)) == shared
    assert (read, read.by_tasks) == (marker, True)
    assert not Marker(next_batch=4, digest="0123").by_tasks
    assert shared.digest == f"{BY_TASKS}0123456789abcdef"


def encoded(
    rows: pa.RecordBatch, options: Mapping[str, str | None] | None = None, **sources: Expression
) -> pa.RecordBatch:
    """The records of rows, in a table of id NOT NULL, name, and the time of the record."""
    sink = made_sink(
        {**KEYED, "format": None, "value.format": "json", **(options or {})},
        columns={"id": "BIGINT NOT NULL", "name": "STRING"},
        metadata=TIME,
    )
    types = {"id": "BIGINT", "name": "STRING", "at": "TIMESTAMP_LTZ(3)"}
    given = tuple(
        FilledColumn(
            name=name,
            source=sources.get(name, FieldValue(path=(name,), type=parse_type(types[name]))),
        )
        for name in rows.schema.names
    )
    output = decided(sink, given)
    assert isinstance(output, RecordOutput)
    return RecordEncoder(sink.table, output.columns, owner=sink.name).records(rows)


def rows_of(*ids: int | None, at_us: int | None = None) -> pa.RecordBatch:
    """Rows with these ids; with a time, if there is one."""
    columns: dict[str, pa.Array] = {"id": pa.array(ids, pa.int64())}
    if at_us is not None:
        columns["at"] = pa.array([at_us] * len(ids), pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_pydict(columns)


def test_records_have_keys_values_and_times() -> None:
    """A column that the INSERT leaves out is NULL; a time is cut to its millisecond."""
    records = encoded(rows_of(1, 2, at_us=1_999))

    assert records.to_pylist() == [
        {"value": b'{"id":%d,"name":null}' % n, "key": b'{"id":%d}' % n, "timestamp": 1}
        for n in (1, 2)
    ]


@pytest.mark.parametrize("at_us", [0, 999, -1])
def test_a_time_that_the_client_cannot_write_ends_the_query(at_us: int) -> None:
    """It takes 0 for the present."""
    with pytest.raises(SinkError, match="column at: the timestamp of a record has to be after"):
        encoded(rows_of(1, at_us=at_us))


def test_null_in_a_column_that_is_not_null_ends_the_query() -> None:
    """No row is dropped."""
    with pytest.raises(SinkError, match="column id is NOT NULL, and the query gives NULL"):
        encoded(rows_of(1, None))


def test_a_value_that_cannot_be_computed_ends_the_query() -> None:
    """As it does in Spark, with the column's name."""
    big = parse_type("BIGINT")
    sums = FunctionCall(
        function="add",
        arguments=(FieldValue(path=("id",), type=big), Constant(value=1, type=big)),
        type=big,
    )
    with pytest.raises(SinkError, match="column id cannot be computed"):
        encoded(rows_of(2**63 - 1), id=sums)

    assert encoded(rows_of(1), id=sums).column("key").to_pylist() == [b'{"id":2}']
