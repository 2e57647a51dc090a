"""The single parse of a batch: what may be handed to the parser, and what its answer proves."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.connector.formats.json.lines import (
    UnreadableError,
    has_long_decimal,
    has_minus_zero,
    looks_like_object,
    read_lines,
    to_lines,
)

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])


def test_values_become_lines_of_one_buffer():
    """Each with a newline behind it; none stays none."""
    assert to_lines([b"x", None, b""]).to_pylist() == [b"x\n", None, b"\n"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"{}", True),
        (b" \t\r\n{} \t\r\n", True),
        (b'{"a":1}{"a":2}', True),
        (b"{", False),
        (b"}", False),
        (b"", False),
        (b" ", False),
        (None, False),
        (b"null", False),
        (b"[{}]", False),
        (b"{}x", False),
        (b"\xef\xbb\xbf{}", False),
        (b"\x0c{}", False),
        (b'{"\xff":1}', False),
        (b"{" + b" " * 1000 + b"}", True),
        (b" " * 1000 + b"{}", False),
    ],
)
@pytest.mark.parametrize("neighbours", [0, 3])
def test_only_what_begins_and_ends_as_an_object_is_parsed(value, expected, neighbours):
    """Whitespace around it aside; anything else may crash the parser, or hide in its neighbours."""
    values = [b"{}"] * neighbours + [value] + [b'{"s":"\xc3\xbc"}'] * neighbours

    assert looks_like_object(to_lines(values)).tolist() == [
        *([True] * neighbours),
        expected,
        *([True] * neighbours),
    ]


@pytest.mark.parametrize(
    "values",
    [
        [b'{"a":1}{"a":2}'],
        [b'{"a":1}', b'{"a":1}null{"a":2}', b"{}"],
        [b'{"s":"}', b'{"}'],
        [b'{"s":"}', b'{"}', b'{"a":1}{"a":2}'],
        [b'{"s":[}', b"{]}"],
        [b'{"s":{}', b"{}}"],
        [b'{"a":1},{"a":2}'],
        [b'{"a":"1"}'],
        [b'{"a":1,"a":2}'],
        [b'{"a":1.5}'],
        [b'{"a":9223372036854775808}'],
    ],
)
def test_a_parse_gives_one_row_for_each_line_or_nothing(values):
    """However the lines are cut, rows and records cannot shift against each other."""
    with pytest.raises(UnreadableError):
        read_lines(to_lines(values), SCHEMA)


def test_lines_keep_their_order():
    """Also of a slice, which shares the buffer."""
    lines = to_lines([f'{{"a":{i}}}'.encode() for i in range(10)])

    assert read_lines(lines, SCHEMA).column("a").to_pylist() == list(range(10))
    assert read_lines(lines.slice(3, 4), SCHEMA).column("a").to_pylist() == [3, 4, 5, 6]
    assert read_lines(lines.slice(3, 0), SCHEMA).num_rows == 0


def test_the_parser_says_which_line_it_refused():
    """The line, and whether it was JSON of another type: both only help to find it sooner."""
    with pytest.raises(UnreadableError) as mistyped:
        read_lines(to_lines([b'{"a":1}', b'{"a":"x"}']), SCHEMA)
    with pytest.raises(UnreadableError) as malformed:
        read_lines(to_lines([b'{"a":1}', b'{"a":1,}']), SCHEMA)

    assert (mistyped.value.line, mistyped.value.mistyped) == (1, True)
    assert mistyped.value.column == "/a"
    assert (malformed.value.line, malformed.value.mistyped) == (1, False)


@pytest.mark.parametrize(
    "number",
    [
        *(
            "1e-999999999",
            "1E-30",
            "1e19",
            "-5957315499073124336651274711575776990.9e2",
            "0.1e+077",
        ),
        *("1" * 39, "0." + "0" * 39, '"1e\\u002d999999999"', '"\\u0031"', '"+1e-30"'),
    ],
)
def test_decimals_that_crash_the_parser_are_kept_from_it(number):
    """Found with pyarrow 26: huge exponents crash it, others give another number."""
    lines = to_lines([b'{"d":1.5}', f'{{"d" : {number}}}'.encode()])

    assert has_long_decimal(lines).tolist() == [False, True]


def test_usual_numbers_are_not_kept_from_the_parser():
    """Nor texts that only resemble long numbers."""
    usual = [
        *("-12.50", "1e-7", "1.5E+18", '"3f2504e0-4f89-11d3-9a0c-030e-82c3301"', '"\\u003d"'),
        *("12345678901234567890123456789012345678.12345678901234567890123456789012345678",),
    ]
    lines = to_lines([f'{{"d":{number}}}'.encode() for number in usual])

    assert not has_long_decimal(lines).any()


def test_minus_zero_is_told_from_dates_and_fractions():
    """Only the whole number."""
    values = [b'{"x":-0}', b"[-0 ]", b'{"x":-0.0}', b'{"d":"2024-01-01"}', b'{"x":0}']

    assert has_minus_zero(to_lines(values)).tolist() == [True, True, False, False, False]
