"""The format debezium-json: Flink's rules for each operation, its options, its metadata."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from penstock.catalog.errors import BadRecordError, DefinitionError, OptionError
from penstock.connector.changelog import ChangelogMode
from penstock.connector.formats import find_format
from penstock.connector.formats.decoders import collecting_errors
from tests.connector.formats.decoding import changes, decode, make_decoder, where

NAME = "debezium-json"
IGNORE = {"debezium-json.ignore-parse-errors": "true"}
COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING"}
A, B = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}


def change(op: str | None, before: object = None, after: object = None, **more: object) -> dict:
    """Make an envelope."""
    return {"before": before, "after": after, "op": op, **more}


def test_operations_become_the_kinds_of_changes_in_flink():
    """Both c and r insert, u is the row before and the row after, d deletes the row before."""
    records = [change("r", after=A), change("c", after=A), change("u", A, B), change("d", B)]

    assert changes(NAME, COLUMNS, records) == [
        ("+I", 1, "a"),
        ("+I", 1, "a"),
        ("-U", 1, "a"),
        ("+U", 1, "b"),
        ("-D", 1, "b"),
    ]


def test_rows_know_their_record():
    """Both rows of an update come from it; the tombstone behind a deletion gives none and is not counted."""
    values = [json.dumps(change("u", A, B)), None, "", json.dumps(change("d", B))]
    result = decode(COLUMNS, values, name=NAME)

    assert (result.kept, result.skipped) == ([0, 0, 3], 0)


def test_fields_that_are_missing_are_null():
    """In the row, as in Flink; what is not asked for may be anything."""
    record = {"op": "c", "after": {"id": 2, "other": [1]}, "source": 5}

    assert changes(NAME, COLUMNS, [record]) == [("+I", 2, None)]


@pytest.mark.parametrize(
    ("record", "message", "hint"),
    [
        (change("u", None, B), "'before' of the change 'u' is null", "REPLICA IDENTITY FULL"),
        (change("d", None, None), "'before' of the change 'd' is null", "REPLICA IDENTITY FULL"),
        (change("u", A, None), "'after' of the change 'u' is null", "fix"),
        (change("c", None, None), "'after' of the change 'c' is null", "fix"),
        (change("t"), "'op' is 't'", "skipped.operations"),
        (change(None, A, B), "'op' is missing", "schema-include' = 'false'"),
        ({"payload": change("c", after=A)}, "'op' is missing", "schema-include' = 'true'"),
        ([change("c", after=A)], "not a JSON object", "fix"),
        (change("c", after={"id": None}), "field 'after.id': NULL", "fix"),
        (change("c", after={"id": "x"}), "field 'after.id': not a BIGINT", "fix"),
    ],
)
def test_a_bad_change_is_an_error_with_what_would_help(record, message, hint):
    """It names the record, what is wrong with it, and the option that would skip it."""
    with pytest.raises(BadRecordError) as caught:
        changes(NAME, COLUMNS, [change("c", after=A), record])

    assert caught.value.message.startswith("topic t, partition 0, offset 101: ")
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert "'debezium-json.ignore-parse-errors' = 'true'" in (caught.value.hint or "")


def test_bad_changes_are_skipped_and_counted_when_told_so():
    """Each decides alone: the changes around them stay, in order."""
    records = [change("c", after=A), change("u", None, B), change("x"), 5, change("d", A)]
    values = [json.dumps(record) for record in records]
    result = decode(COLUMNS, values, IGNORE, name=NAME)

    assert (result.kept, result.skipped) == ([0, 4], 3)


def test_bad_changes_are_listed_with_their_reasons():
    """Envelopes that are no JSON, and those with a fault, in the order of the records."""
    values = [b"{", json.dumps(change("u", None, B)).encode(), json.dumps(change("d", A)).encode()]
    decoded = collecting_errors(make_decoder(COLUMNS, name=NAME)).decode([*values, b"5"], where)

    assert [bad.index for bad in decoded.bad] == [0, 1, 3]
    assert decoded.bad[1].error == "the field 'before' of the change 'u' is null"
    assert (decoded.kept.tolist(), decoded.skipped) == ([2], 3)


def test_a_record_with_its_schema_is_read_from_the_payload():
    """debezium-json.schema-include; the schema itself is metadata, as JSON."""
    options = {"debezium-json.schema-include": "true"}
    records = [
        {"schema": {"type": "struct"}, "payload": change("c", after=A, ts_ms=5)},
        {"schema": None, "payload": change("u", A, B, ts_ms=6)},
    ]
    found = changes(NAME, {"id": "BIGINT"}, records, options, ["schema", "ingestion-timestamp"])

    assert found == [
        ("+I", 1, '{"type":"struct"}', at_ms(5)),
        ("-U", 1, None, at_ms(6)),
        ("+U", 1, None, at_ms(6)),
    ]


def test_metadata_is_that_of_flink():
    """Names, types and what they are read from; a map of all properties of the source as texts."""
    source = {"db": "shop", "schema": "public", "table": "orders", "ts_ms": 1000, "snapshot": True}
    record = change("c", after=A, ts_ms=2000, source=source)
    keys = [key for key in find_format(NAME).metadata if key != "schema"]
    named = changes(NAME, {}, [record], metadata=keys[:-1])
    whole = changes(NAME, {}, [record], metadata=keys)

    assert {key: str(kind) for key, kind in find_format(NAME).metadata.items()} == {
        "schema": "STRING",
        "ingestion-timestamp": "TIMESTAMP_LTZ(3)",
        "source.timestamp": "TIMESTAMP_LTZ(3)",
        "source.database": "STRING",
        "source.schema": "STRING",
        "source.table": "STRING",
        "source.properties": "MAP<STRING, STRING>",
    }
    assert named == [("+I", at_ms(2000), at_ms(1000), "shop", "public", "orders")]
    properties = [
        ("db", "shop"),
        ("schema", "public"),
        ("table", "orders"),
        ("ts_ms", "1000"),
        ("snapshot", "true"),
    ]
    assert whole == [(*named[0], properties)]


def test_metadata_that_is_not_there_is_null():
    """No source, no times, or none that is a time."""
    records = [change("c", after=A), change("c", after=A, source={"ts_ms": "soon"}, ts_ms=1 << 60)]
    keys = ["ingestion-timestamp", "source.timestamp", "source.database"]

    assert changes(NAME, {}, records, metadata=keys) == [("+I", None, None, None)] * 2


def test_rows_are_counted_where_no_column_is_asked_for():
    """COUNT(*) of changes: an update is two rows."""
    decoded = make_decoder({}, name=NAME).decode(
        [json.dumps(record).encode() for record in (change("u", A, B), change("d", B))], where
    )

    assert (decoded.batch.num_rows, decoded.kinds.tolist()) == (3, [1, 2, 3])


def test_timestamps_follow_the_standard_chosen():
    """debezium-json.timestamp-format.standard."""
    options = {"debezium-json.timestamp-format.standard": "ISO-8601"}
    record = change("c", after={"ts": "2024-05-06T07:08:09"})

    assert changes(NAME, {"ts": "TIMESTAMP(3)"}, [record], options) == [
        ("+I", datetime(2024, 5, 6, 7, 8, 9))
    ]


def test_it_gives_all_kinds_of_changes_and_refuses_keys_of_maps_that_are_no_texts():
    """As a format of changes, and as one of JSON."""
    assert find_format(NAME).changes is ChangelogMode.ALL
    with pytest.raises(DefinitionError, match="'debezium-json' doesn't support non-string"):
        make_decoder({"m": "MAP<INT, INT>"}, name=NAME)
    with pytest.raises(OptionError, match="schema-includ"):
        make_decoder({"id": "INT"}, {"debezium-json.schema-includ": "true"}, name=NAME)


def at_ms(epoch_ms: int) -> datetime:
    """Give an instant."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)


# --- the format ogg-json: the rules of debezium-json with GoldenGate's names, and its times ---


OGG = "ogg-json"
OGG_COLUMNS = {"id": "INT", "name": "STRING"}


def test_operations_of_ogg_become_the_kinds_of_changes_in_flink():
    """I, U and D."""
    records = [
        {"op_type": "I", "after": A},
        {"op_type": "U", "before": A, "after": B},
        {"op_type": "D", "before": B},
        None,
    ]

    assert changes(OGG, OGG_COLUMNS, records) == [
        ("+I", 1, "a"),
        ("-U", 1, "a"),
        ("+U", 1, "b"),
        ("-D", 1, "b"),
    ]


def test_a_truncation_is_no_change_of_a_row():
    """T is a bad record, as in Flink."""
    with pytest.raises(BadRecordError, match="'op_type' is 'T'") as caught:
        changes(OGG, OGG_COLUMNS, [{"op_type": "T"}])

    assert "truncation" in (caught.value.hint or "")


def test_an_update_without_the_row_before_is_bad():
    """With the same hint as Debezium's."""
    with pytest.raises(BadRecordError, match="'before' of the change 'U' is null") as caught:
        changes(OGG, OGG_COLUMNS, [{"op_type": "U", "after": B}])

    assert "REPLICA IDENTITY FULL" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2020-05-13 15:40:06.000000", datetime(2020, 5, 13, 15, 40, 6, tzinfo=UTC)),
        ("2020-05-13T15:40:07.123456789", datetime(2020, 5, 13, 15, 40, 7, 123456, UTC)),
        ("2020-05-13T15:40:07Z", datetime(2020, 5, 13, 15, 40, 7, tzinfo=UTC)),
        (1589384407001, datetime(2020, 5, 13, 15, 40, 7, 1000, UTC)),
        ("1589384407001", datetime(2020, 5, 13, 15, 40, 7, 1000, UTC)),
        ("2020-02-30 00:00:00", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_times_are_texts_of_utc_or_epoch_ms(written, read):
    """As GoldenGate writes them, and as Flink's class expects them; what is neither is NULL."""
    record = {"op_type": "I", "after": A, "op_ts": written, "current_ts": written}
    keys = ["event-timestamp", "ingestion-timestamp", "op_ts", "current_ts"]

    assert changes(OGG, {}, [record], metadata=keys) == [("+I", *[read] * 4)]


def test_other_metadata_is_what_the_documentation_lists():
    """Table and primary keys."""
    record = {"op_type": "D", "before": A, "table": "DB.ORDERS", "primary_keys": ["id"]}

    assert changes(OGG, {"id": "INT"}, [record], metadata=["table", "primary-keys"]) == [
        ("-D", 1, "DB.ORDERS", ["id"])
    ]
