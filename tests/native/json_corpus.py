"""Values and records of JSON, right ones and wrong ones, that the native package and Penstock's decoder are to read alike."""

from __future__ import annotations

import json
import random
import struct

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
