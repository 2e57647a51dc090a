"""ROWs that the native package reads are those of Penstock's own decoder, however deep, NULL, or broken."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.model.type_parser import MAX_DEPTH
from penstock.connector.formats.json.decoder import JsonDecoder
from penstock.connector.formats.json.lines import to_lines
from tests.connector.formats.decoding import where
from tests.native.json_comparison import both, check_single, compare, native
from tests.native.json_corpus import (
    BREAKS,
    NUMBERS,
    OPTIONS,
    RECORDS,
    TEXTS,
    TOKENS,
    TYPES,
    WORDS,
    random_value,
    space,
)

NESTED = "ROW<a INT NOT NULL, s ROW<b STRING, c DOUBLE NOT NULL>>"


def read_rows(columns: Mapping[str, str], records: list[bytes]) -> list[dict[str, object]]:
    """Rows of records that are read natively, all of them."""
    _, reading = both(columns, {})
    assert reading._native is not None
    found, refused = reading._native.read(to_lines(records))
    assert not len(refused)
    rows: list[dict[str, object]] = pa.table(found, names=list(columns)).to_pylist()
    return rows


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "".join(options.values()) or "-")
@pytest.mark.parametrize("logical", ["BOOLEAN", "SMALLINT NOT NULL", "DOUBLE", "TIMESTAMP(3)"])
def test_each_value_in_a_row_is_read_alike(logical: str, options: dict[str, str]) -> None:
    """As a field's value, beside the field, and in place of the ROW: in one batch, each value a record."""
    records = [f'{{"r":{{"v":{token}}}}}'.encode() for token in TOKENS]
    records += [f'{{"r":{{"w":{token},"v":null}}}}'.encode() for token in (*NUMBERS, *WORDS)]
    records += [f'{{"r":{token}}}'.encode() for token in (*NUMBERS, *TEXTS, *WORDS)]
    records += [f'{{ "r" : {{ "v"\n:\t{token} }} , "w":1 }}'.encode() for token in NUMBERS]

    compare({"r": f"ROW<v {logical}>"}, options, records)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "".join(options.values()) or "-")
@pytest.mark.parametrize("required", ["", " NOT NULL"])
def test_a_record_in_a_record_is_read_alike(required: str, options: dict[str, str]) -> None:
    """Repeated keys, escapes in keys, keys in capitals, bytes that are no UTF-8, broken objects: inside of a ROW."""
    inner = [record for record in RECORDS if record is not None]
    records = [b'{"r":' + record + b"}" for record in inner]
    records += [b'{"r":{"q":' + record + b',"v":3}}' for record in inner]
    records += [
        *(b'{"r":{"v":1},"r":{"v":2}}', b'{"r":{"v":1},"r":null}', b'{"r":null,"r":{"v":1}}'),
        *(b'{"R":{"v":1}}', b'{"r":{"v":1}', b'{"r":{"v":1}}}', b'{"r":{"v":1,"v":null}}'),
        *(b'{"r":{"q":{"v":1},"v":2}}', b'{"r":{"q":{"v":1,"v":2}}}', b'{"v":1,"r":{}}'),
    ]

    compare({"r": f"ROW<v BIGINT, q ROW<v BIGINT{required}>>", "v": "STRING"}, options, records)
    compare({"r": f"ROW<v BIGINT{required}>{required}"}, options, records)


def test_rows_have_the_values_of_their_records() -> None:
    """Fields in any order, missing ones NULL, others skipped; a ROW that is NULL or missing has none."""
    records = [
        b'{"r":{"a":1,"s":{"b":"x","c":1.5}}}',
        b'{"r":{"s":{"c":-0.5,"other":[{"b":1}],"b":null},"more":{"a":7},"a":2}}',
        b'{"r":null}',
        b'{ "r" : { "a" : 3 , "s" : null } }',
        b"{}",
        b'{"r":{"a":4}}',
        b'{"r":{"s":{"c":2},"a":5}}',
    ]

    assert [row["r"] for row in read_rows({"r": NESTED}, records)] == [
        {"a": 1, "s": {"b": "x", "c": 1.5}},
        {"a": 2, "s": {"b": None, "c": -0.5}},
        None,
        {"a": 3, "s": None},
        None,
        {"a": 4, "s": None},
        {"a": 5, "s": {"b": None, "c": 2.0}},
    ]
    compare({"r": NESTED}, {}, list(records))


@pytest.mark.parametrize("ignored", ["true", "false"])
def test_records_that_break_within_a_row_leave_nothing_of_it(ignored: str) -> None:
    """Between ROWs that are NULL and ROWs that are there, of which fields were read before the fault."""
    good = [b'{"r":{"a":1,"s":{"b":"x","c":1}},"t":"y"}', b'{"r":null}', b'{"t":"z","r":{"a":2}}']
    bad = [
        *(b'{"t":"q","r":{"a":9,"s":{"b":"long text","c":2}}', b'{"r":{"s":{"b":"p"},"a":1}}'),
        *(b'{"r":{"a":9,"s":{"b":"p","c":"text"}}}', b'{"r":{"a":9,"s":{"b":"p","c":null}}}'),
        *(b'{"r":{"s":{"c":1,"b":"p"}}}', b'{"r":[]}', b'{"r":{"a":1,"s":{"b":"\\ud800","c":1}}}'),
        *(b'{"r":{"a":1.5}}', b'{"r":{"s":null,"a":null}}', b'{"r":{"a":9,"s":{"b":"p","c":2},}}'),
    ]
    rng = random.Random(3)
    records = [rng.choice(good if rng.random() < 0.8 else bad) for _ in range(500)]

    columns = {"r": NESTED, "t": "STRING"}
    compare(columns, {"json.ignore-parse-errors": ignored}, records)
    assert check_single(columns, {}, records) > 300


def test_a_row_that_is_cut_at_any_byte_is_read_alike() -> None:
    """Nothing is read outside of the record, however deep the end is."""
    whole = '{"r":{"a":-12,"w":{"y":[1.5e3]},"s":{"b":"é\\ud83d\\ude00","c":2}},"i":7}'.encode()
    pieces = [whole[:end] for end in range(len(whole) + 1)]
    pieces += [whole[:at] + whole[at + 1 :] for at in range(len(whole))]

    compare({"r": NESTED, "i": "INT"}, {}, pieces)


def test_fewer_fields_than_records_have_are_read_alike() -> None:
    """What a statement does not use is skipped, in every ROW, and is checked as JSON all the same."""
    event = {
        "event_type": 2,
        "person": None,
        "bid": {
            "auction": 7,
            "bidder": 8,
            "url": "https://x/\u00e9",
            "extra": "a\nb",
            "deep": [{}],
        },
    }
    records = [json.dumps(event | {"event_type": kind}).encode() for kind in range(50)]
    records += [record.replace(b"[{}]", b"[{]") for record in records[:3]]
    columns = {"bid": "ROW<bidder BIGINT>", "person": "ROW<name STRING>"}

    found = read_rows(columns, records[:50])
    assert found == [{"bid": {"bidder": 8}, "person": None}] * 50
    compare(columns, {"json.ignore-parse-errors": "true"}, list(records))


FIELD_NAMES = ("v", "w", "x", "dateTime", "é", "a b", "not there")


def random_row(rng: random.Random, depth: int) -> tuple[str, dict[str, object]]:
    """The type of a ROW, and what its fields are: texts of types, or fields again."""
    fields: dict[str, object] = {}
    texts = []
    for name in rng.sample(FIELD_NAMES, rng.randint(1, 4)):
        required = rng.choice(("", "", "", " NOT NULL"))
        if depth and rng.random() < 0.4:
            text, fields[name] = random_row(rng, depth - 1)
        else:
            text = rng.choice(TYPES)
            fields[name] = text
        texts.append(f"`{name}` {text}{required}")
    return f"ROW<{', '.join(texts)}>", fields


def random_object(rng: random.Random, fields: Mapping[str, object]) -> str:
    """An object, most of whose values are of the fields' types."""
    names = [name for name in FIELD_NAMES[:-1] if name in fields or rng.random() < 0.2]
    names = [name for name in names if rng.random() < 0.9]
    rng.shuffle(names)
    members = []
    for name in names:
        kind = fields.get(name, "STRING")
        if isinstance(kind, str):
            value = random_value(rng, kind)
        else:
            assert isinstance(kind, dict)
            value = "null" if rng.random() < 0.2 else random_object(rng, kind)
        key = json.dumps(name, ensure_ascii=rng.random() < 0.02)
        members.append(f"{space(rng)}{key}{space(rng)}:{space(rng)}{value}{space(rng)}")
    return f"{{{','.join(members)}{space(rng)}}}"


def random_batch(rng: random.Random, fields: Mapping[str, object], count: int) -> list[bytes]:
    """Records, some of them broken at a place."""
    batch = []
    for _ in range(count):
        raw = bytearray(random_object(rng, fields).encode("utf-8", "surrogatepass"))
        if rng.random() < 0.1:
            raw[(at := rng.randint(0, len(raw))) : at + rng.randint(0, 2)] = rng.choice(BREAKS)
        batch.append(bytes(raw))
    return batch


def test_rows_at_random_have_the_values_of_the_rules_for_single_records() -> None:
    """ROWs in ROWs of all types, NULL and NOT NULL; thousands of records, some broken at random."""
    rng = random.Random(23)
    read = 0
    for _ in range(150):
        text, fields = random_row(rng, 4)
        read += check_single({"r": text}, rng.choice(OPTIONS), random_batch(rng, {"r": fields}, 60))

    assert read > 2000, "enough are not broken"


ROW_NAMES = st.sampled_from(["v", "w", "dateTime", "é", "a b", "x" * 20])
LEAVES = st.sampled_from(TYPES)


@st.composite
def row_types(draw: st.DrawFn, leaves: st.SearchStrategy[str]) -> str:
    """A ROW of such fields."""
    fields = draw(st.dictionaries(ROW_NAMES, leaves, min_size=1, max_size=4))
    parts = [
        f"`{name}` {kind}{draw(st.sampled_from(['', ' NOT NULL']))}"
        for name, kind in fields.items()
    ]
    return f"ROW<{', '.join(parts)}>"


TYPES_WITH_ROWS = st.recursive(LEAVES, row_types, max_leaves=8)


@st.composite
def objects(draw: st.DrawFn, depth: int = 3) -> str:
    """An object of values of the corpus and objects again, under names that columns have."""
    members = []
    for name in draw(st.lists(ROW_NAMES, max_size=4)):
        inner = depth and draw(st.booleans())
        value = draw(objects(depth - 1)) if inner else draw(st.sampled_from(TOKENS))
        members.append(f"{json.dumps(name, ensure_ascii=draw(st.booleans()))}:{value}")
    return f"{{{draw(st.sampled_from(['', ' ']))}{','.join(members)}}}"


@given(
    columns=st.dictionaries(ROW_NAMES, TYPES_WITH_ROWS, min_size=1, max_size=4),
    options=st.sampled_from(OPTIONS),
    batch=st.lists(objects(), max_size=8),
)
def test_any_batch_with_rows_is_read_alike(
    columns: dict[str, str], options: dict[str, str], batch: list[str]
) -> None:
    """Whatever is where a ROW is asked for, or a value where the record has an object."""
    compare(columns, options, [text.encode("utf-8", "surrogatepass") for text in batch])


def nested_type(depth: int) -> str:
    """A ROW in as many ROWs."""
    return "ROW<r " * depth + "INT" + ">" * depth


def on_a_small_stack(work: Callable[[], None]) -> None:
    """Run it where 256 KiB of stack are there, and raise what it raises."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  raised again by the caller
            failed.append(error)

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if failed:
        raise failed[0]


def test_nesting_does_not_exhaust_the_stack() -> None:
    """The deepest ROWs that are read, records that are deeper than those, and records of nothing but beginnings."""
    column = native.JsonColumn(name="v", kind=native.JsonKind.INT32, type=pa.int32())
    for _ in range(MAX_DEPTH):
        kind = pa.struct([(column.name, column.type)])
        column = native.JsonColumn(name="r", kind=native.JsonKind.ROW, type=kind, fields=(column,))
    deepest = b'{"r":' * MAX_DEPTH + b'{"v":7}' + b"}" * MAX_DEPTH
    records = [
        deepest,
        deepest.replace(b"7", b'7,"w":"x"'),
        deepest.replace(b"7", b'7,"w":[]'),
        b'{"r":' * 500 + b"1" + b"}" * 500,
        b'{"r":' * 1_000_000,
        b'{"r":{"w":' + b"[" * 1_000_000,
        b'{"w":' * 1_000_000,
    ]

    def read() -> None:
        (found,), refused = native.read_json(to_lines(records), [column])
        assert refused.to_pylist() == [2, 3, 4, 5, 6]
        for _ in range(MAX_DEPTH):
            found = found.field(0)
        assert found.to_pylist() == [7, 7]

    on_a_small_stack(read)


def test_rows_have_as_many_levels_as_types() -> None:
    """The deepest type that a table may have is; one more level than it is a fault of who asks."""
    compare({"r": nested_type(MAX_DEPTH - 1)}, {}, [b'{"r":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH])
    column = native.JsonColumn(name="r", kind=native.JsonKind.INT32, type=pa.int32())
    for _ in range(MAX_DEPTH + 1):
        kind = pa.struct([(column.name, column.type)])
        column = native.JsonColumn(name="r", kind=native.JsonKind.ROW, type=kind, fields=(column,))
    with pytest.raises(RuntimeError, match="unknown column"):
        native.read_json(to_lines([b"{}"]), [column])


def test_rows_at_the_depth_that_records_may_have_are_read_alike() -> None:
    """Around the bound of the package, with values beside the ROWs that are deeper than it."""
    columns = {"r": nested_type(3)}
    records = []
    for depth in (60, 61, 62, 63, 64, 65, 66):
        deep = b"[" * depth + b"]" * depth
        records += [
            *(b'{"w":%b,"r":{"r":{"r":1}}}' % deep, b'{"r":{"w":%b,"r":{"r":2}}}' % deep),
            *(b'{"r":{"r":{"w":%b,"r":3}}}' % deep, b'{"r":{"r":{"r":%b}}}' % deep),
        ]

    compare(columns, {"json.ignore-parse-errors": "true"}, list(records))


def test_a_field_outlives_its_row() -> None:
    """The memory of a batch is freed when nothing refers to one of its arrays any more."""
    kept = []
    for i in range(100):
        records = [f'{{"r":{{"a":{j},"s":{{"b":"{i}-{j}","c":0}}}}}}'.encode() for j in range(50)]
        _, reading = both({"r": NESTED}, {})
        assert reading._native is not None
        (found,), _ = reading._native.read(to_lines(records))
        kept.append(found.field(1).field(0).slice(i % 50, 1))

    assert [array.to_pylist() for array in kept] == [[f"{i}-{i % 50}"] for i in range(100)]


def test_usual_rows_leave_nothing_to_the_other_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that all that is compared here is not the same decoder twice."""
    _, reading = both({"r": NESTED, "i": "INT"}, {})
    monkeypatch.setattr(JsonDecoder, "_read_lines", None)

    records = [b'{"i":1,"r":{"a":1,"s":{"b":"x","c":1}}}', b'{"r":null}', b'{"r":{"a":2}}'] * 50
    decoded = reading.decode(records, where)
    assert decoded.kept is None
    assert decoded.batch.column("r").null_count == 50
    decoded.batch.validate(full=True)
