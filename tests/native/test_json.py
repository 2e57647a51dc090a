"""JSON that the native package reads gives the rows, bad records and errors that Penstock's own decoder gives."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.errors import BadRecordError
from penstock.connector.formats import Decoded
from penstock.connector.formats.decoders import collecting_errors
from penstock.connector.formats.json.decoder import JsonDecoder
from penstock.connector.formats.json.lines import to_lines
from penstock.connector.formats.values import ArrowValues
from tests.connector.formats.decoding import make_decoder, where

native = pytest.importorskip("penstock_native", reason="built by `make native`, where cargo is")

TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "CHAR(3)"),
    *("VARCHAR(2)", "DATE", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)"),
)
OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"json.timestamp-format.standard": "ISO-8601"},
    {"json.timestamp-format.standard": "ISO-8601-WITH-OFFSET"},
    {"json.ignore-parse-errors": "true"},
    {"json.fail-on-missing-field": "true"},
)
NUMBERS = (
    *("0", "-0", "1", "-1", "12", "127", "128", "-128", "-129", "32767", "32768", "-32769", "00"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "9007199254740993", "01", "-01"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.", ".5", "+1"),
    *("-9223372036854775809", "123456789012345678901234567890", "1e2", "1E+2", "1e-2", "1.0", "1e"),
    *("0.1", "-0.0", "1.5", "0.1e1", "3.4028235e38", "3.4028236e38", "1e39", "1e308", "1e309", "-"),
    *("-1e309", "5e-324", "2e-324", "1e-400", "1e-45", "7e-46", "16777217", "16777217.00000001"),
    *("0.30000000000000004", "1.00000017881393432617187499", "1.00000017881393432617187501", "1e+"),
    *(
        "9007199254740993.00000000000000000000000001",
        "1" + "0" * 400,
        "0." + "0" * 400 + "1",
        "0x1",
    ),
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "1_0",
        "1f",
        "1d",
        "2.2250738585072011e-308",
        "1e99999999999",
    ),
)
TEXTS = (
    *('""', '"x"', '"abcdefgh"', '"abcdefg\\""', '"null"', '"true"', '"TRUE"', '"17"', '" 17 "'),
    *(
        '"\\u0041"',
        '"\\u0000"',
        '"\\ud83d\\ude00"',
        '"\\ud83d"',
        '"\\ude00"',
        '"\\ud83dx"',
        '"\\u12"',
    ),
    *(
        '"\\ud83d\\ud83d\\ude00"',
        '"\\uD83D\\uDE00"',
        '"\\uFFFF"',
        '"\\b\\f\\n\\r\\t\\/\\\\"',
        '"\\x"',
    ),
    *(
        '"é€😀"',
        '"\u2028"',
        '"\u007f"',
        '"a\tb"',
        '"a\nb"',
        '"\x00"',
        '"' + "é" * 3000 + '"',
        '"\\',
    ),
    *(
        '"NaN"',
        '"1e3"',
        '"0x1p3"',
        '"\ufeff"',
        '"\U0010ffff"',
        '"x',
        "x",
        "'x'",
        '"\\u00e9\\u20AC"',
    ),
    '"' + "\\n" * 2000 + '"',
)
DAYS = (
    *(
        "1970-01-01",
        "2024-02-29",
        "2023-02-29",
        "1900-02-29",
        "2000-02-29",
        "2024-02-30",
        "2024-04-31",
    ),
    *(
        "0000-01-01",
        "0001-12-31",
        "9999-12-31",
        "-0001-01-01",
        "+10000-01-01",
        "2024-1-01",
        "1969-12-31",
    ),
    *(
        "2024-13-01",
        "2024-00-10",
        "2024-01-00",
        "2024-01-32",
        "2024/01/01",
        "20240101",
        "2024-01-01 ",
    ),
    *("\uff12024-01-01", "1582-10-10", "2024-01-0a"),
)
TIMES = (
    *(
        "00:00:00",
        "23:59:59",
        "24:00:00",
        "23:59:60",
        "12:30",
        "12:30:00.",
        "12:30:00.1",
        "1:00:00",
    ),
    *("12:30:00.123", "12:30:00.123456", "12:30:00.1234567", "12:30:00.123456789", "25:00:00", ""),
    *(
        "12:30:00.1234567891",
        "12:60:00",
        "12:30:00,5",
        "12-30-00",
        "12:30:00.12a",
        "12:30:00.999999999",
    ),
)
ENDINGS = (
    "",
    "Z",
    "z",
    "+01:00",
    "-17:59",
    "+18:00",
    "+17:60",
    "+0100",
    "+01",
    "-00:00",
    "+01:00:30",
    " ",
)
WORDS = (
    *(
        "null",
        "true",
        "false",
        "nul",
        "True",
        "nulls",
        "[]",
        "{}",
        "[1]",
        '{"a":1}',
        "[",
        "{",
        "]",
        "}",
    ),
    *(
        "",
        " ",
        "[1,]",
        "[,1]",
        '{"a"}',
        '{"a":1,}',
        "{a:1}",
        "/**/1",
        "[[[[]]]]",
        '{"v":{"v":1}}',
        ",",
    ),
    *(
        "[" * 64 + "]" * 64,
        "[" * 65 + "]" * 65,
        "[1 2]",
        '[{"a":[{"b":"\\ud800"}]}]',
        '{"a":1,"a":2}',
    ),
)
RECORDS: tuple[bytes | None, ...] = (
    *(None, b"", b" ", b"\n", b"null", b"{}", b" {} ", b"[]", b"[{}]", b'[{"v":1},{"v":2}]', b"1"),
    *(b'{"v":1}{"v":2}', b'{"v":1} x', b'{"v":1}\n\n', b'{"v":1}\x00', b'\xef\xbb\xbf{"v":1}'),
    *(
        b'{"v":1,"v":2}',
        b'{"w":1,"w":2,"v":3}',
        b'{"\\u0076":1}',
        b'{"v":1,"\\u0076":2}',
        b'{"V":1}',
    ),
    *(
        b'{"w":{"v":7},"v":1}',
        b'{"w":"\xff","v":1}',
        b'{"v":"\xff"}',
        b'{"v":"\xed\xa0\x80"}',
        b'{"v"',
    ),
    *(b'{"v":"\xc3"}', b'{"\xff":1,"v":2}', b'{"v":1', b'{"v":', b"{", b'{"v":1,}', b'{,"v":1}'),
    *(
        b'{"v":"\xc0\x80"}',
        b'{"v":"\xf4\x90\x80\x80"}',
        b'{"v"\t:\r\n1 ,"w" :2}',
        b'{"v" 1}',
        b'{"v":1;}',
    ),
    *(
        b'{"":1}',
        b'{"":1,"v":2}',
        b'{"v\\"":1}',
        b'{"v\x00":1}',
        b"\xff\xfe{\x00}\x00",
        b'{"v":1\x0c}',
    ),
    *(b'{"v":1}'.decode().encode("utf-16-le"), b" " * 40 + b'{"v":1}', b'{"v":1}' + b" " * 40),
    *(
        b'{"v":1}]',
        b'{"v":1]',
        b'{"w":' + b"[" * 200 + b"]" * 200 + b',"v":1}',
        b"{'v':1}",
        b"{v:1}",
    ),
    *(
        b'{"w":01,"v":1}',
        b'{"w":NaN,"v":1}',
        b'{"w":"\\x","v":1}',
        b'{"w":"\n","v":1}',
        b'{"w":1e,"v":1}',
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is seen of a decoded batch; numbers by their bits."""

    columns: tuple[tuple[Any, ...], ...]
    kept: tuple[int, ...]
    skipped: int
    bad: tuple[tuple[int, str], ...]


def outcome(decoded: Decoded, count: int) -> Outcome:
    """All of a batch, which is well-formed."""
    decoded.batch.validate(full=True)
    kept = range(count) if decoded.kept is None else decoded.kept.tolist()
    return Outcome(
        columns=tuple(tuple(bits(column).to_pylist()) for column in decoded.batch.columns),
        kept=tuple(kept),
        skipped=decoded.skipped,
        bad=tuple((bad.index, bad.error) for bad in decoded.bad),
    )


def bits(column: pa.Array) -> pa.Array:
    """Values in which 0 and -0 differ, and years that Python has not are numbers."""
    match column.type:
        case pa.DataType(id=pa.lib.Type_FLOAT):
            return column.view(pa.int32())
        case pa.DataType(id=pa.lib.Type_DOUBLE) | pa.TimestampType():
            return column.view(pa.int64())
        case pa.DataType(id=pa.lib.Type_DATE32):
            return column.view(pa.int32())
    return column


def both(columns: Mapping[str, str], options: Mapping[str, str]) -> tuple[JsonDecoder, JsonDecoder]:
    """Decoders of the same columns, without and with the package."""
    plain = make_decoder(columns, options)
    assert isinstance(plain, JsonDecoder)
    reading = plain.natively(native)
    assert reading._native is not None
    return plain, reading


def compare(
    columns: Mapping[str, str], options: Mapping[str, str], records: Sequence[bytes | None]
) -> None:
    """Check that rows, bad records and the first error are the same."""
    plain, reading = both(columns, options)
    for values in (records, ArrowValues.of_lines(to_lines(records))):
        expected = collecting_errors(plain).decode(records, where)
        found = collecting_errors(reading).decode(values, where)
        assert outcome(found, len(records)) == outcome(expected, len(records))
        assert found.batch.schema == expected.batch.schema
    assert raised(reading, records) == raised(plain, records)


def raised(decoder: JsonDecoder, records: Sequence[bytes | None]) -> str | Outcome:
    """The error of a batch, or what it gives."""
    try:
        return outcome(decoder.decode(records, where), len(records))
    except BadRecordError as error:
        return str(error)


def tokens() -> tuple[str, ...]:
    """All values, whatever their type: right ones, wrong ones, and what is no JSON."""
    moments = [
        f'"{day}{separator}{time}{ending}"'
        for day in ("2024-02-29", "1969-12-31")
        for separator in " Tt_"
        for time in TIMES
        for ending in ENDINGS
    ]
    moments += [
        f'"{day}{separator}12:30:00{end}"'
        for day in DAYS
        for separator in " T"
        for end in ("", "Z")
    ]
    days = [f'"{day}"' for day in DAYS]
    return (*NUMBERS, *TEXTS, *WORDS, *days, '"2024-02-2\\u0039"', *moments)


TOKENS = tokens()


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


def check_single(
    columns: Mapping[str, str], options: Mapping[str, str], batch: Sequence[bytes]
) -> int:
    """Compare what is read natively, and return how many records that are."""
    _, decoder = both(columns, options)
    assert decoder._native is not None
    found, refused = decoder._native.read(to_lines(batch))
    left = set(refused.tolist())
    taken = [record for index, record in enumerate(batch) if index not in left]
    single = [decoder._records.read(record) for record in taken]
    assert [rows.problem for rows in single] == [None] * len(taken)
    assert [len(rows.rows) for rows in single] == [1] * len(taken)
    for index, column in enumerate(found):
        expected = pa.array([rows.rows[0][index] for rows in single], column.type)
        assert bits(column).to_pylist() == bits(expected).to_pylist()
    return len(taken)


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


BREAKS = (
    b"",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b",",
    b":",
    b"\x00",
    b"\xff",
    b"0",
    b"-",
    b".",
    b"\xc3\xa9",
    b"n",
)


def space(rng: random.Random) -> str:
    """Whitespace, or none."""
    return rng.choice(("", "", "", "", " ", "\n", "\t \r"))


def random_value(rng: random.Random, logical: str) -> str:
    """A value that is often of a type, at an edge of it, or a token of all."""
    chance = rng.random()
    if chance < 0.03:
        return rng.choice(TOKENS)
    if chance < 0.1:
        return "null"
    day = f"{rng.randint(0, 9999):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    match logical.partition("(")[0].partition(" ")[0]:
        case "BOOLEAN":
            return rng.choice(("true", "false"))
        case "FLOAT" | "DOUBLE":
            numbers = (
                repr(rng.uniform(-1e3, 1e3)),
                f"{rng.randint(-(10**25), 10**25)}e{rng.randint(-60, 20)}",
                f"{rng.randint(0, 1 << 24)}.{rng.getrandbits(80)}",
                repr(struct.unpack("d", rng.randbytes(8))[0]),
            )
            return rng.choice(numbers)
        case "DATE":
            return f'"{day}"'
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            fraction = rng.choice(("", f".{rng.randint(0, 999):03}", f".{rng.getrandbits(29)}"))
            time = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
            return f'"{day}{rng.choice(" T")}{time}{fraction}{rng.choice(ENDINGS[:5])}"'
        case "STRING" | "CHAR" | "VARCHAR":
            text = "".join(rng.choice('a b"\\\n\té€😀\x00\x7f') for _ in range(rng.randint(0, 30)))
            return json.dumps(text, ensure_ascii=rng.random() < 0.5)
    return str(rng.randint(-(1 << (width := rng.choice((7, 15, 31, 63)))), (1 << width) - 1))


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
    ["DECIMAL(10, 2)", "BYTES", "TIME(0)", "ARRAY<INT>", "ROW<a INT>", "MAP<STRING, INT>"],
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
