"""Batches of JSON records: every good record gives its rows, in order, whatever its neighbours are."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from penstock.catalog.errors import BadRecordError
from penstock.connector.arrow import CalculationError
from penstock.connector.formats.json import decoder as json_decoder
from penstock.connector.formats.json import format as json_format
from penstock.connector.formats.json import lines
from penstock.connector.formats.json.decoder import RecordReader
from tests.connector.formats.decoding import decode, make_decoder, where

IGNORE = {"json.ignore-parse-errors": "true"}
COLUMNS = {"id": "BIGINT", "name": "STRING"}

MALFORMED = [
    *(" ", "null", "true", "5", '"x"', "{", "}", "garbage", '{"id":1', '{"id":1,}', '{"id":01}'),
    *(
        '{"id":+1}',
        "{'id':1}",
        "{id:1}",
        '{"id":1 "name":"x"}',
        '{"name":"\\x"}',
        '{"name":"\\u12"}',
    ),
    *('{"id":1/*c*/}', '{"id":.5}', '{"id":5.}', '{"id":}', "\x00", '{"name":"x}', '{"id":1]'),
    '{"a":' + "[" * 100_000 + "]" * 100_000 + ',"id":tru}',
]


def good(count: int, start: int = 0) -> list[str]:
    """Records that are as they should be."""
    return [
        json.dumps({"id": i, "name": f"n{i}", "more": [i]}) for i in range(start, start + count)
    ]


@pytest.fixture
def no_slow_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail when a record is read one by one."""

    def refuse(_: RecordReader, value: bytes) -> None:
        raise AssertionError(value)

    monkeypatch.setattr(RecordReader, "read", refuse)


@pytest.mark.usefixtures("no_slow_path")
@pytest.mark.parametrize(
    ("logical", "value"),
    [
        ("BOOLEAN", True),
        ("TINYINT", 1),
        ("SMALLINT", 1),
        ("INT", 1),
        ("BIGINT", 1),
        ("FLOAT", 1.5),
        ("DOUBLE", 1e-9),
        ("DECIMAL(10, 2)", 1.239),
        ("DECIMAL(10, 2)", "1.23"),
        ("STRING", "ü\n"),
        ("BYTES", "aGVsbG8="),
        ("DATE", "2024-02-29"),
        ("TIME(3)", "12:30:00.1239"),
        ("TIMESTAMP(3)", "2024-02-29 12:30:00"),
        ("TIMESTAMP(9)", "2024-02-29 12:30:00.123456789"),
        ("TIMESTAMP_LTZ(3)", "2024-02-29 12:30:00.123Z"),
        ("ARRAY<ARRAY<INT>>", [[1], [], None]),
        ("ROW<a ROW<b STRING>, c ARRAY<ROW<d INT>>>", {"a": {"b": "x"}, "c": [{"d": 1}]}),
        ("MAP<STRING, ROW<a INT, b ARRAY<STRING>>>", {"k": {"a": 1, "b": ["x"]}, "l": None}),
        ("MAP<STRING, MAP<STRING, STRING>>", {"k": {"x": "y"}, "l": {}}),
        ("MULTISET<STRING>", {"a": 2, "b": 1}),
        ("ROW<m MAP<STRING, INT>>", {"m": {"a": 1}}),
        # not what the column says, but always the same other thing
        ("BIGINT", "123"),
        ("DOUBLE", "1.5e3"),
        ("BOOLEAN", "true"),
        ("STRING", 17),
    ],
)
def test_usual_records_are_decoded_as_a_batch(logical, value):
    """Nothing of what producers usually write is read record by record."""
    records = [json.dumps({"v": value}), '{"v":null}', "{}", ' {"v":null}\n']

    assert len(decode({"v": logical}, records * 3).rows) == 12


@pytest.mark.usefixtures("no_slow_path")
def test_pretty_printed_records_are_decoded_as_a_batch():
    """Newlines between the values of a record are whitespace."""
    records = [json.dumps({"id": i, "name": "x"}, indent=2) for i in range(5)]

    assert [row["id"] for row in decode(COLUMNS, records).rows] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("bad", MALFORMED, ids=lambda text: repr(text[:20]))
@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_malformed_record_costs_no_other_its_row(bad, at):
    """The malformed record is left out and counted, first, in the middle, or last."""
    records = good(4)
    records.insert(at, bad)
    result = decode(COLUMNS, records, IGNORE)

    assert [row["id"] for row in result.rows] == [0, 1, 2, 3]
    assert (result.kept, result.skipped) == ([i for i in range(5) if i != at], 1)


@pytest.mark.parametrize("bad", MALFORMED, ids=lambda text: repr(text[:20]))
def test_a_malformed_record_fails_the_batch_by_its_name(bad):
    """Without ignore-parse-errors, the error names the record, and the option that would skip it."""
    with pytest.raises(BadRecordError, match="topic t, partition 0, offset 102: ") as caught:
        decode(COLUMNS, [*good(2), bad, *good(2)])

    assert "'json.ignore-parse-errors' = 'true'" in (caught.value.hint or "")
    assert len(caught.value.message) < 600


def test_the_first_bad_record_is_the_one_reported():
    """Not the one that the vectorised checks happen to find first."""
    with pytest.raises(BadRecordError, match="offset 101"):
        decode(COLUMNS, ['{"id":1}', '{"id":"x"}', "garbage"])


def test_an_error_says_field_type_and_value():
    """The place inside the record, what was expected, what was there, and the record itself."""
    columns = {"r": "ROW<items ARRAY<ROW<price DECIMAL(10, 2)>>>"}
    record = '{"r":{"items":[{"price":1},{"price":"cheap"}]}}'

    with pytest.raises(BadRecordError) as caught:
        decode(columns, [record])
    assert caught.value.message == (
        "topic t, partition 0, offset 100: field 'r.items[1].price': not a DECIMAL(10, 2): \"cheap\"; "
        f"the record is {record}"
    )


def test_an_error_quotes_a_large_record_only_in_part():
    """A record of megabytes, or of unprintable bytes, gives one line of at most some hundred characters."""
    with pytest.raises(BadRecordError) as caught:
        decode(COLUMNS, [b'{"id":"x","name":"' + b"\x00\xff\n" * 1_000_000 + b'"}'])

    assert len(caught.value.message) < 500
    assert caught.value.message.isprintable()


def test_two_objects_in_one_record_give_the_first():
    """As in Flink, what follows the first value is not checked; no other record takes the second's place."""
    for extra in ('{"id":7}', "null", '\n{"id":7}', " trailing", "}"):
        records = good(3)
        records[1] += extra

        assert [row["id"] for row in decode(COLUMNS, records).rows] == [0, 1, 2]


def test_a_record_never_joins_the_next():
    """Two records that would be one object together are two bad records."""
    result = decode(COLUMNS, ['{"id":1,"name":"}', '{"}', '{"id":2}{"id":3}', '{"id":4}'], IGNORE)

    assert [row["id"] for row in result.rows] == [2, 4]
    assert (result.kept, result.skipped) == ([2, 3], 2)


def test_records_without_a_value_give_no_row():
    """Tombstones and empty values are skipped without an error, and counted."""
    result = decode(COLUMNS, [None, '{"id":1}', "", '{"id":2}', None])

    assert [row["id"] for row in result.rows] == [1, 2]
    assert (result.kept, result.skipped) == ([1, 3], 3)


def test_a_batch_of_nothing_has_the_columns():
    """No values, or none that gives a row."""
    for values in ([], [None], ["[]"]):
        decoded = make_decoder(COLUMNS).decode([v and v.encode() for v in values], where)

        assert decoded.batch.num_rows == 0
        assert decoded.batch.schema.names == ["id", "name"]


def test_an_array_gives_a_row_for_each_object():
    """Top-level arrays explode; NULL elements give no row; the rows know their record."""
    result = decode(COLUMNS, ['[{"id":1},null,{"id":2}]', '{"id":3}', "[]", '[{"id":4}]'])

    assert [row["id"] for row in result.rows] == [1, 2, 3, 4]
    assert (result.kept, result.skipped) == ([0, 0, 1, 3], 0)


def test_a_bad_element_of_an_array_costs_only_itself():
    """With ignore-parse-errors the other elements stay, and the record counts as skipped once."""
    result = decode(COLUMNS, ['[{"id":1},5,{"id":2},"x"]', '{"id":3}'], IGNORE)

    assert [row["id"] for row in result.rows] == [1, 2, 3]
    assert (result.kept, result.skipped) == ([0, 0, 1], 1)


def test_keys_are_case_sensitive():
    """Another spelling is another field, which is ignored."""
    assert decode({"id": "INT"}, ['{"ID":1,"Id":2,"id":3}', '{"ID":4}']).rows == [
        {"id": 3},
        {"id": None},
    ]


def test_of_equal_keys_the_last_counts():
    """The parser of the fast path refuses them; Flink's tree takes the last."""
    records = ['{"id":1,"id":2}', '{"id":3,"name":"a","name":null}', '{"id":4}']

    assert decode(COLUMNS, records).rows == [
        {"id": 2, "name": None},
        {"id": 3, "name": None},
        {"id": 4, "name": None},
    ]


def test_byte_order_marks_and_other_unicode_encodings_are_read():
    """As Jackson does by the first bytes."""
    record = '{"id":1,"name":"ü"}'
    codecs = ("utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-16")
    result = decode(COLUMNS, [record.encode(codec) for codec in codecs])

    assert result.rows == [{"id": 1, "name": "ü"}] * 5


@pytest.mark.parametrize("bad", [b'{"name":"\xff"}', b'{"other":"\xc3"}', b'{"name":"\xc0\xaf"}'])
def test_invalid_utf8_is_a_bad_record(bad):
    """Anywhere in the record, asked for or not."""
    result = decode(COLUMNS, ['{"id":1}', bad, '{"id":2,"name":"ü"}'], IGNORE)

    assert (result.kept, result.skipped) == ([0, 2], 1)


def test_null_where_a_column_is_not_null_is_a_bad_record():
    """Missing, null or, with ignored errors, malformed: no NULL may reach a NOT NULL column."""
    columns = {"id": "BIGINT NOT NULL", "r": "ROW<x INT NOT NULL>", "l": "ARRAY<INT NOT NULL>"}
    fine = '{"id":1,"r":{"x":1},"l":[1]}'
    for bad in ("{}", '{"id":null}', '{"id":1,"r":{}}', '{"id":1,"l":[null]}'):
        with pytest.raises(BadRecordError, match="NULL, but the column is"):
            decode(columns, [fine, bad])

        assert decode(columns, [fine, bad, fine], IGNORE).kept == [0, 2]
    assert decode(columns, ['{"id":1,"r":{"x":"?"}}', fine], IGNORE).kept == [1]
    assert decode(columns, ['{"id":1}']).rows == [{"id": 1, "r": None, "l": None}]


def test_a_missing_field_fails_when_told_so():
    """json.fail-on-missing-field: a field that is not there, also inside a row; null is there."""
    options = {"json.fail-on-missing-field": "true"}
    columns = {"id": "INT", "r": "ROW<x INT>"}
    fine = ['{"id":null,"r":{"x":null}}', '{"id":1,"r":null}']

    assert len(decode(columns, fine, options).rows) == 2
    for bad, field in (('{"id":1}', "r"), ('{"id":1,"r":{}}', "r.x")):
        with pytest.raises(BadRecordError, match=f"offset 102: field '{field}': missing"):
            decode(columns, [*fine, bad], options)


def test_without_columns_nothing_is_decoded():
    """COUNT(*): a row for each value that is there, bad or not."""
    result = decode({}, ["garbage", None, '{"id":1}', "", "[1,2]"])

    assert (len(result.kept), result.kept, result.skipped) == (3, [0, 2, 4], 2)
    assert make_decoder({}).decode([b"x"] * 3, where).batch.num_rows == 3


def test_a_decoder_learns_and_unlearns_the_kind_of_a_column():
    """Numbers in quotes, then without, then mixed: always the same values."""
    decoder = make_decoder({"v": "BIGINT", "s": "STRING"})
    quoted = [f'{{"v":"{i}","s":{i}}}'.encode() for i in range(10)]
    plain = [f'{{"v":{i},"s":"{i}"}}'.encode() for i in range(10)]
    expected = [{"v": i, "s": str(i)} for i in range(10)]
    for batch in (plain, quoted, quoted, plain):
        assert decoder.decode(batch, where).batch.to_pylist() == expected
    mixed = decoder.decode([x for pair in zip(plain, quoted, strict=True) for x in pair], where)

    assert mixed.batch.to_pylist() == [row for row in expected for _ in "ab"]


def test_large_batches_are_decoded_in_parts(monkeypatch):
    """Arrow's arrays of texts end at two gigabytes: more is halved, and put together in order."""
    monkeypatch.setattr(json_decoder, "MAX_BYTES", 200)
    values = [v.encode() for v in good(20)] + [
        None,
        b"[]",
        b'[{"id":20},{"id":21}]',
        b'{"id":"22"}',
    ]
    decoded = make_decoder(COLUMNS).decode(values, where)

    assert [row["id"] for row in decoded.batch.to_pylist()] == list(range(23))
    assert decoded.kept.tolist() == [*range(20), 22, 22, 23]
    assert decoded.skipped == 1
    with pytest.raises(BadRecordError, match="offset 115"):
        make_decoder(COLUMNS).decode([*values[:15], b"bad", *values[15:]], where)


def test_many_bad_records_of_many_kinds_are_sorted_out():
    """Thousands of records, every third bad in another way: the good ones keep order and value."""
    records: list[str | bytes | None] = []
    for i in range(3000):
        record = json.dumps({"id": i, "name": f"n{i}"})
        broken = [record[: i % 17], '{"id":"x"}', '{"id":1,"id":' + str(i) + "}", "null", None]
        records.append(record if i % 3 else broken[i // 3 % 5])
    result = decode({"id": "BIGINT NOT NULL", "name": "STRING"}, records, IGNORE)

    sound = [i for i in range(3000) if i % 3 or (i // 3 % 5 == 2)]
    assert [row["id"] for row in result.rows] == sound
    assert result.kept == sound
    assert result.skipped == 3000 - len(sound)


def test_nothing_depends_on_duckdb(monkeypatch):
    """It only finds bad lines sooner, and reads maps sooner: out of memory, it costs time but no row."""

    def refuse(*_: object, **__: object) -> None:
        raise CalculationError("none left")

    monkeypatch.setattr(lines, "query", refuse)
    columns = {"id": "INT", "m": "MAP<STRING, INT>"}
    fine = [f'{{"id":{i},"m":{{"k":{i}}}}}' for i in range(20)]
    result = decode(columns, [*fine, '{"id":"20"}', '{"id":1,}', '{"id":21,"m":{"k":"x"}}'], IGNORE)

    assert [row["id"] for row in result.rows] == list(range(22))
    assert [row["m"] for row in result.rows][18:] == [[("k", 18)], [("k", 19)], None, [("k", None)]]
    assert result.skipped == 1


def test_batches_carry_the_exact_schema():
    """Spark checks types once: every batch has those of the table, NOT NULL included."""
    decoder = make_decoder({"a": "INT NOT NULL", "m": "MAP<STRING, INT NOT NULL>", "t": "TIME(0)"})
    fast = decoder.decode([b'{"a":1,"m":{"k":1},"t":"00:00:01"}'], where).batch.schema
    slow = decoder.decode([b'{"a":"1","m":{"k":"1"}}', b"[]"], where).batch.schema

    assert fast.equals(slow)
    assert fast.field("a").type == pa.int32()
    assert not fast.field("a").nullable
    assert not fast.field("m").type.item_field.nullable
    assert fast.field("t").type == pa.time64("ns")


def test_a_format_can_be_sent_to_a_task():
    """It holds no connection and no client."""
    sent = pickle.dumps(json_format.JsonFormat())

    assert pickle.loads(sent).identifier == "json"
