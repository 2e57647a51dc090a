"""JSON that the native package reads gives the rows, bad records and errors that Penstock's own decoder gives."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.formats.json.decoder import JsonDecoder
from penstock.connector.formats.json.lines import to_lines
from tests.connector.formats.decoding import make_decoder, where
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


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "".join(options.values()) or "-")
@pytest.mark.parametrize("logical", [*TYPES, "INT NOT NULL", "STRING NOT NULL"])
def test_each_value_is_read_alike(logical: str, options: dict[str, str]) -> None:
    """As the value of the column, beside it, and behind whitespace: in one batch, each value a record."""
    records = [f'{{"v":{token}}}'.encode() for token in TOKENS]
    records += [f'{{"w":{token},"v":null}}'.encode() for token in (*NUMBERS, *TEXTS, *WORDS)]
    records += [f'{{ "w" : 1 ,\n"v" :\t{token} }}'.encode() for token in (*NUMBERS, *TEXTS)]

    compare({"v": logical}, options, [*records, *RECORDS])


@pytest.mark.parametrize("record", [*RECORDS, b'{"v":17}', b'{"v":"x"}'], ids=repr)
def test_a_record_alone_is_read_alike(record: bytes | None) -> None:
    """A batch of one, of which nothing is left for either."""
    compare({"v": "BIGINT"}, {}, [record])
    compare({"w": "STRING", "v": "STRING"}, {}, [record])


@pytest.mark.parametrize("cut", ["begin", "end"])
def test_a_record_that_is_cut_at_any_byte_is_read_alike(cut: str) -> None:
    """Nothing is read outside of it, whatever stands beside it."""
    whole = '{"i":-12,"w":[{"y":1.5e3}],"s":"é\\ud83d\\ude00","t":"2024-02-29 12:30:00.5","b":false}'.encode()
    pieces = [whole[:i] if cut == "end" else whole[i:] for i in range(len(whole) + 1)]

    compare({"i": "INT", "s": "STRING", "t": "TIMESTAMP(3)", "b": "BOOLEAN"}, {}, pieces)


def test_records_read_natively_have_the_values_of_the_rules_for_single_records() -> None:
    """Of those rules the other parsers are a fast form, too: thousands of records, some broken at random."""
    rng = random.Random(11)
    read = 0
    for _ in range(150):
        chosen = rng.sample(FIELDS, rng.randint(1, 5))
        columns = {name: rng.choice(TYPES) + rng.choice(("", "", " NOT NULL")) for name in chosen}
        read += check_single(
            columns, rng.choice(OPTIONS), [random_record(rng, columns) for _ in range(100)]
        )

    assert read > 3000, "enough are not broken"


FIELDS = ("v", "w", "x", "dateTime", "é", "", "a b", "not there")


def random_record(rng: random.Random, columns: Mapping[str, str]) -> bytes:
    """An object, most of whose values are of the columns' types."""
    names = rng.sample(FIELDS[:-1], rng.randint(0, 7))
    if rng.random() < 0.05:
        names += names[:1]
    ascii_only = rng.random() < 0.1
    members = [
        f"{space(rng)}{json.dumps(name, ensure_ascii=ascii_only)}{space(rng)}:{space(rng)}"
        f"{random_value(rng, columns.get(name, 'STRING'))}{space(rng)}"
        for name in names
    ]
    raw = bytearray(
        f"{space(rng)}{{{','.join(members)}}}{space(rng)}".encode("utf-8", "surrogatepass")
    )
    for _ in range(rng.choice((0,) * 12 + (1, 2))):
        raw[(at := rng.randint(0, len(raw))) : at + rng.randint(0, 2)] = rng.choice(BREAKS)
    return bytes(raw)


def test_few_columns_of_many() -> None:
    """Keys in another order from record to record, some missing; the columns asked for in an order of their own."""
    rng = random.Random(5)
    names = [f"c{index}" for index in range(60)]
    records = []
    for _ in range(300):
        chosen = rng.sample(names, rng.randint(0, 60))
        records.append(json.dumps({name: rng.randint(-5, 5) for name in chosen}).encode())

    compare(dict.fromkeys(("c41", "c7", "c59", "not there"), "INT"), {}, records)
    compare(dict.fromkeys(names, "BIGINT"), {}, records)


def test_a_slice_of_lines_is_read_from_where_it_begins() -> None:
    """With its own bits of what is missing."""
    lines = to_lines([None, b'{"v":0}', None, *(f'{{"v":{i}}}'.encode() for i in range(20)), None])
    column = native.JsonColumn(name="v", kind=native.JsonKind.INT64, type=pa.int64())
    for begin in range(len(lines)):
        (found,), refused = native.read_json(lines.slice(begin, 9), [column])
        expected = [line.strip() for line in lines.slice(begin, 9).to_pylist() if line is not None]

        assert [b'{"v":%d}' % value for value in found.to_pylist()] == expected
        assert len(found) + len(refused) == len(lines.slice(begin, 9))


def test_a_column_that_is_not_known_is_a_fault() -> None:
    """Of the two sides of the package, which the caller sees as an error."""
    column = native.JsonColumn(name="v", kind=77, type=pa.int64())

    with pytest.raises(RuntimeError, match="unknown column"):
        native.read_json(to_lines([b'{"v":1}']), [column])


def test_columns_outlive_the_records_and_each_other() -> None:
    """The memory of a batch is freed when nothing refers to it any more."""
    column = native.JsonColumn(name="v", kind=native.JsonKind.TEXT, type=pa.string())
    kept = []
    for i in range(200):
        records = [f'{{"v":"{i}-{j}"}}'.encode() for j in range(50)]
        (found,), _ = native.read_json(to_lines(records), [column])
        kept.append(found.slice(i % 50, 1))

    assert [array.to_pylist() for array in kept] == [[f"{i}-{i % 50}"] for i in range(200)]


def test_usual_records_leave_nothing_to_the_other_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that all that is compared here is not the same decoder twice."""
    columns = dict(zip("abcdefghi", (*TYPES[:8], "DATE"), strict=True)) | {"t": "TIMESTAMP(3)"}
    row = '{"a":true,"b":1,"c":-2,"d":3,"e":4,"f":1.5,"g":-2e3,"h":"é\\n","i":"2024-02-29","t":"2024-02-29 12:30:00.1"}'
    _, reading = both(columns, {})
    monkeypatch.setattr(JsonDecoder, "_read_lines", None)

    decoded = reading.decode([row.encode(), b"{}"] * 50, where)
    assert decoded.kept is None
    assert decoded.batch.num_rows == 100
    assert not any(value is None for value in decoded.batch.to_pylist()[0].values())


def test_a_batch_that_is_mostly_left_ends_the_trying() -> None:
    """Numbers in quotes, always: what reads them is asked at once from then on."""
    _, reading = both({"v": "BIGINT"}, {})
    tried = []
    for left in (1, 3, 1):
        batch = [b'{"v":1}'] * (4 - left) + [b'{"v":"2"}'] * left
        assert reading.decode(batch, where).batch.num_rows == 4
        tried.append(reading._native is not None)

    assert tried == [True, False, False]


@pytest.mark.parametrize(
    "logical",
    [
        "DECIMAL(10, 2)",
        "BYTES",
        "TIME(0)",
        "ARRAY<INT>",
        "ROW<a INT, b ROW<c BYTES>>",
        "MAP<STRING, INT>",
    ],
)
def test_other_types_are_not_read(logical: str) -> None:
    """One of them in a table leaves the whole table to Penstock's own decoder."""
    decoder = make_decoder({"a": "INT", "v": logical})
    assert isinstance(decoder, JsonDecoder)

    assert decoder.natively(native)._native is None


NAMES = st.sampled_from(["v", "w", "dateTime", "é", "a b", 'q"', "", "\\", "x" * 20])
KEYS = NAMES | st.text(max_size=3)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A value as text, of a corpus or of any kind."""
    if draw(st.booleans()):
        return draw(st.sampled_from(TOKENS))
    return json.dumps(draw(ANY), ensure_ascii=draw(st.booleans()))


@st.composite
def records(draw: st.DrawFn) -> bytes | None:
    """A record: most are objects; some are broken at one place or more."""
    if draw(st.integers(0, 30)) == 0:
        return draw(st.sampled_from(RECORDS))
    spaces = st.sampled_from(["", "", "", " ", "\n", "\t \r"])
    members = draw(st.lists(st.tuples(KEYS, texts()), max_size=6))
    text = ",".join(
        f"{draw(spaces)}{json.dumps(key, ensure_ascii=draw(st.booleans()))}{draw(spaces)}:{draw(spaces)}{value}"
        for key, value in members
    )
    raw = bytearray(
        f"{draw(spaces)}{{{text}{draw(spaces)}}}{draw(spaces)}".encode("utf-8", "surrogatepass")
    )
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        at = draw(st.integers(0, len(raw)))
        match draw(st.integers(0, 2)):
            case 0:
                del raw[at : at + draw(st.integers(1, 4))]
            case 1:
                raw[at:at] = draw(
                    st.sampled_from(
                        [b'"', b"\\", b"{", b"}", b"[", b",", b":", b"\x00", b"\xff", b"0"]
                    )
                )
            case _:
                raw[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
    return bytes(raw)


@given(
    columns=st.dictionaries(NAMES, st.sampled_from(TYPES), min_size=1, max_size=5),
    options=st.sampled_from(OPTIONS),
    required=st.booleans(),
    batch=st.lists(records(), max_size=8),
)
def test_any_batch_is_read_alike(
    columns: dict[str, str],
    options: dict[str, str],
    required: bool,
    batch: list[bytes | None],
) -> None:
    """Whatever is in it, whichever columns are read, under all options."""
    if required:
        name = next(iter(columns))
        columns |= {name: columns[name] + " NOT NULL"}

    compare(columns, options, batch)
