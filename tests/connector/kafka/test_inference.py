"""How a sample is shared out among partitions."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import DefinitionError
from penstock.connector.inference.inferred_table import ddl_lines
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.connector import describe
from penstock.connector.kafka.inference import infer_topic_table, spread
from tests.connector.inferring.samples import rows, sample, split


@pytest.mark.parametrize(
    ("wanted", "held", "shares"),
    [
        (30, [100, 100, 100], [10, 10, 10]),
        (30, [2, 100, 100], [2, 14, 14]),
        (30, [2, 3, 4], [2, 3, 4]),
        (2, [5, 5, 5], [1, 1, 0]),
        (30, [0, 100], [0, 30]),
    ],
)
def test_what_a_short_partition_lacks_is_taken_from_the_others(wanted, held, shares):
    """As even as what is there allows."""
    places = [TopicPartition("t", number) for number in range(len(held))]
    found = spread(wanted, dict(zip(places, held, strict=True)))

    assert [found[place] for place in places] == shares
    assert sum(shares) <= wanted


# --- inferred definitions of Kafka tables from samples; what they say is SQL that is right, ---


BROKER = {"bootstrap.servers": "broker:9092"}


def inferred(taken, asked=None, properties=BROKER):
    """Infer the table `orders`, and see that the connector takes it."""
    made = infer_topic_table(
        taken, name="orders", topic="orders", properties=properties, asked=asked
    )
    describe(made.table("default_catalog", "default_database"))
    return made


def declared(made):
    """Give the columns as in SQL."""
    return {each.column.name: str(each.column.type) for each in made.columns}


def orders(count=20, **more):
    """Make orders, a second apart."""
    return [{"id": n, "ts": f"2026-01-01 00:00:{n:02}", **more} for n in range(count)]


def test_json_records_give_columns_a_watermark_and_options():
    """The whole of it."""
    made = inferred(sample(split(rows(*orders()))))

    assert declared(made) == {"id": "BIGINT", "ts": "TIMESTAMP(3)"}
    assert made.watermark is not None
    assert made.watermark.expression == "ts - INTERVAL '1' SECOND"
    assert dict(made.options) == {
        "connector": "kafka",
        "topic": "orders",
        "properties.bootstrap.servers": "broker:9092",
        "scan.startup.mode": "earliest-offset",
        "format": "json",
    }


def test_the_standard_is_the_one_that_makes_most_columns_times():
    """A table has one; the column that is written otherwise is a text."""
    records = [
        {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01T01:00:00.5Z", "c": "2026-01-01 00:00:00"}
    ]
    made = inferred(sample(split(rows(*records))))

    assert list(declared(made).values()) == ["TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(3)", "STRING"]
    assert dict(made.options)["json.timestamp-format.standard"] == "ISO-8601"


def test_an_epoch_number_becomes_a_computed_rowtime():
    """The number itself stays a column."""
    records = [{"id": n, "at": 1_767_225_600_000 + n} for n in range(5)]
    made = inferred(sample(split(rows(*records))))

    assert declared(made)["at"] == "BIGINT"
    assert made.columns[-1].column.expression == "TO_TIMESTAMP_LTZ(`at`, 3)"
    assert made.watermark.column == "rowtime"


def test_without_a_time_the_records_own_is_taken():
    """A metadata column, and the disorder of it."""
    times = [1_767_225_600_000, 1_767_225_609_000, 1_767_225_605_000]
    made = inferred(sample(split(rows({"a": 1}, {"a": 2}, {"a": 3}), times_ms=times)))

    assert made.watermark.expression == "record_time - INTERVAL '10' SECOND"
    assert any("most 4.0 s" in remark for remark in made.remarks)


def test_times_in_no_order_get_no_watermark():
    """It would have to wait for years."""
    records = [{"born_at": f"{1990 + n * 7 % 30}-01-01 00:00:00"} for n in range(20)]
    made = inferred(sample(split(rows(*records))))

    assert made.watermark is None
    assert any("No WATERMARK is proposed" in remark for remark in made.remarks)


def test_bad_records_are_counted_and_named():
    """With their places; a query would keep them aside."""
    values = rows(*orders())
    values[7] = b"{oops"
    made = inferred(sample(split(values, number=3)))

    assert any("1 of 20 records (partition 3, offset 7: " in remark for remark in made.remarks)
    assert dict(made.options)["bad-records"] == "dead-letter"


def test_tombstones_are_pointed_out():
    """A topic that is compacted is one of upserts."""
    made = inferred(sample(split([*rows(*orders()), None])))

    assert any("tombstones" in remark and "upsert-kafka" in remark for remark in made.remarks)


@pytest.mark.parametrize(
    ("keys", "options", "first"),
    [
        (
            rows(*({"id": n} for n in range(20))),
            {"key.format": "json", "key.fields": "id"},
            ("id", "BIGINT"),
        ),
        (
            rows(*({"shop": "a"} for _ in range(20))),
            {"key.format": "json", "key.fields": "shop", "value.fields-include": "EXCEPT_KEY"},
            ("shop", "STRING"),
        ),
        (
            rows(*({"id": "x"} for _ in range(20))),
            {
                "key.format": "json",
                "key.fields": "key_id",
                "key.fields-prefix": "key_",
                "value.fields-include": "EXCEPT_KEY",
            },
            ("key_id", "STRING"),
        ),
        (
            [f"k{n}".encode() for n in range(20)],
            {"key.format": "raw", "key.fields": "record_key", "value.fields-include": "EXCEPT_KEY"},
            ("record_key", "STRING"),
        ),
        (
            [n.to_bytes(8, "big") for n in range(20)],
            {"key.format": "raw", "key.fields": "record_key", "value.fields-include": "EXCEPT_KEY"},
            ("record_key", "BIGINT"),
        ),
    ],
)
def test_keys_become_columns(keys, options, first):
    """In the value too, beside it, of another type there, or without fields."""
    made = inferred(sample(split(rows(*orders()), keys=keys)))
    found = {key: value for key, value in made.options if "key" in key or "include" in key}

    assert found == options
    assert next(iter(declared(made).items())) == first
    assert dict(made.options)["value.format"] == "json"


def test_a_key_that_the_value_holds_is_told():
    """It may be left out, where it is no text there."""
    keys = [str(n).encode() for n in range(20)]
    made = inferred(sample(split(rows(*orders()), keys=keys)))

    assert any("record_key holds the same as id" in remark for remark in made.remarks)


def test_a_text_key_that_a_column_holds_is_that_column():
    """One column, filled from the value as in Flink."""
    records = [{"customer": f"c{n % 3}", "other": "c1"} for n in range(20)]
    keys = [record["customer"].encode() for record in records]
    made = inferred(sample(split(rows(*records), keys=keys)))

    assert list(declared(made)) == ["customer", "other"]
    assert dict(made.options)["key.fields"] == "customer"


DEBEZIUM = {"before": None, "after": {"id": 1, "name": "a"}, "op": "c", "source": {}, "ts_ms": 1}


@pytest.mark.parametrize(
    ("record", "keys", "format_options"),
    [
        (DEBEZIUM, rows({"id": 1}), {"format": "debezium-json"}),
        (
            {"schema": {}, "payload": DEBEZIUM},
            rows({"schema": {}, "payload": {"id": 1}}),
            {"format": "debezium-json", "debezium-json.schema-include": "true"},
        ),
        (
            {
                "data": [{"id": 1, "name": "a"}],
                "old": None,
                "type": "INSERT",
                "isDdl": False,
                "pkNames": ["id"],
            },
            None,
            {"format": "canal-json"},
        ),
        (
            {
                "database": "d",
                "table": "t",
                "type": "insert",
                "data": {"id": 1, "name": "a"},
                "primary_key_columns": ["id"],
            },
            None,
            {"format": "maxwell-json"},
        ),
        (
            {"op_type": "I", "table": "t", "after": {"id": 1, "name": "a"}, "primary_keys": ["id"]},
            None,
            {"format": "ogg-json"},
        ),
    ],
)
def test_records_of_changes_give_the_rows_inside_and_their_key(record, keys, format_options):
    """The format is known by its envelope; the key by the record's, or by what the envelope names."""
    made = inferred(sample(split(rows(record), keys=keys)))
    found = {key: value for key, value in made.options if "json" in key or key == "format"}

    assert declared(made) == {"id": "BIGINT", "name": "STRING"}
    assert found == format_options
    assert made.primary_key.columns == ("id",)
    assert made.watermark is None


def test_a_format_that_was_asked_for_is_taken():
    """The envelopes themselves as rows."""
    made = inferred(sample(split(rows(DEBEZIUM))), asked="json")

    assert "after" in declared(made)


@pytest.mark.parametrize(
    ("values", "kind"), [([b"a,1", b"b,2"], "STRING"), ([b"\xff\x01", b"\xfe\x02"], "BYTES")]
)
def test_records_without_fields_are_one_column(values, kind):
    """Text or bytes."""
    made = inferred(sample(split(values)))

    assert declared(made) == {"message": kind}


@pytest.mark.parametrize(
    ("values", "asked", "message"),
    [
        ([b'{"a": 1}', b"hello", b"\xff\x01"], None, "of several kinds: 33% JSON"),
        ([b"\0\0\0\0\1abc"] * 3, None, "framed by a schema registry"),
        ([b"hello", b"there"], "json", "not of the format 'json': 100% other text"),
        ([b"[1]"], None, "no object with fields"),
        ([None], None, "no record with a value"),
    ],
)
def test_what_cannot_be_inferred_is_an_error_with_what_was_seen(values, asked, message):
    """And with what to do."""
    with pytest.raises(DefinitionError, match="topic 'orders' at broker:9092") as error:
        inferred(sample(split(values)), asked)

    assert message in error.value.message
    assert error.value.hint


def test_secrets_are_not_printed():
    """They are named, so that they are not forgotten."""
    properties = {
        **BROKER,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "hunter2",
    }
    text = "\n".join(ddl_lines(inferred(sample(split(rows(*orders()))), properties=properties)))

    assert "hunter2" not in text
    assert "Left out: the value of sasl.password" in text


def test_comments_stay_comments_and_templates_text():
    """Whatever names and texts hold: line ends, Jinja's marks, words of SQL."""
    records = [{"a\nb": 1, "select": 2, "{{ x }}": 3, "`q`": 4}]
    lines = ddl_lines(inferred(sample(split(rows(*records)))))

    assert "{{ '{{' }} x }}" in "\n".join(lines)
    assert any(line.lstrip().startswith("`select`") for line in lines)
