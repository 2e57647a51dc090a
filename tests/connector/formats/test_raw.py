"""The format raw: the whole value as one column."""

from __future__ import annotations

import struct

import pytest

from penstock.catalog.errors import BadRecordError, DefinitionError, OptionError
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import resolve
from penstock.connector.formats.raw import RawFormat
from tests.connector.formats.decoding import decode

LITTLE = {"raw.endianness": "little-endian"}
NUMBERS = [
    ("TINYINT", "b", -5),
    ("SMALLINT", "h", -500),
    ("INT", "i", 70_000),
    ("BIGINT", "q", -(1 << 40)),
    ("FLOAT", "f", 1.5),
    ("DOUBLE", "d", -1e300),
]


def check(columns, options=None):
    """Check a table."""
    fields = [(name, parse_type(text)) for name, text in columns.items()]
    RawFormat().check(fields, resolve(options or {}, RawFormat().options(), owner="table t"))


@pytest.mark.parametrize(("logical", "code", "number"), NUMBERS)
@pytest.mark.parametrize(("order", "options"), [(">", {}), ("<", LITTLE)])
def test_numbers_have_the_byte_order_that_is_set(logical, code, number, order, options):
    """Big-endian by default; a record without a value is NULL, and gives a row."""
    values = [struct.pack(order + code, number), None, struct.pack(order + code, 0)]
    result = decode({"v": logical}, values, options, "raw")

    assert [row["v"] for row in result.rows] == [number, None, 0]
    assert (result.kept, result.skipped) == ([0, 1, 2], 0)


def test_booleans_are_a_byte():
    """Anything but 0 is true."""
    rows = decode({"v": "BOOLEAN"}, [b"\0", b"\1", b"\x80", None], name="raw").rows

    assert [row["v"] for row in rows] == [False, True, True, None]


@pytest.mark.parametrize("values", [[b"abc"], [b"\0\0\0\0", b""], [None, b"\0\0\0\0\0"]])
def test_a_number_of_the_wrong_size_is_a_bad_record(values):
    """The error names the first such record, and its bytes."""
    with pytest.raises(BadRecordError, match=f"offset {99 + len(values)}: . bytes, but INT is 4"):
        decode({"v": "INT"}, values, name="raw")


def test_bytes_and_texts_are_the_value_itself():
    """Empty ones too."""
    values = ["ü".encode(), b"", None]

    assert [row["v"] for row in decode({"v": "BYTES"}, values, name="raw").rows] == values
    texts = decode({"v": "STRING"}, values, name="raw").rows
    assert [row["v"] for row in texts] == ["ü", "", None]


@pytest.mark.parametrize(
    ("charset", "value", "expected"),
    [
        ("UTF-8", b"a\xffb", "a\ufffdb"),
        ("US-ASCII", b"a\xffb", "a\ufffdb"),
        ("ISO-8859-1", b"\xfc", "ü"),
        ("windows-1252", b"\x80", "€"),
        ("UTF-16LE", "ü".encode("utf-16-le"), "ü"),
        ("UTF-16", "ü".encode("utf-16-be"), "ü"),
        ("UTF-16", "ü".encode("utf-16"), "ü"),
        ("Shift_JIS", "日".encode("shift_jis"), "日"),
    ],
)
def test_texts_are_read_by_their_charset(charset, value, expected):
    """Java's rules: what is no character becomes U+FFFD, UTF-16 without a mark is big-endian."""
    rows = decode({"v": "STRING"}, [value, None], {"raw.charset": charset}, "raw").rows

    assert [row["v"] for row in rows] == [expected, None]


def test_null_where_the_column_is_not_null_is_a_bad_record():
    """A tombstone, named."""
    with pytest.raises(BadRecordError, match="offset 101: no value"):
        decode({"v": "STRING NOT NULL"}, [b"x", None], name="raw")


def test_without_columns_every_record_counts():
    """COUNT(*): a record without a value is a row of NULL."""
    assert decode({}, [b"x", None, b""], name="raw").kept == [0, 1, 2]


def test_a_table_has_one_column_of_a_plain_type():
    """Refused when the table is checked."""
    with pytest.raises(DefinitionError, match="only supports single physical column"):
        check({"a": "INT", "b": "INT"})
    for logical in ("DECIMAL(3, 1)", "TIMESTAMP(3)", "ROW<a INT>", "ARRAY<INT>"):
        with pytest.raises(DefinitionError, match="doesn't support"):
            check({"a": logical})


@pytest.mark.parametrize("charset", ["UTF-7b", "base64", ""])
def test_an_unknown_charset_is_refused(charset):
    """When the table is checked; Python's codecs that are no charsets too."""
    with pytest.raises(OptionError, match=r"unsupported 'raw\.charset' name"):
        check({"a": "STRING"}, {"raw.charset": charset})


def test_it_never_skips():
    """The format has no such option."""
    assert not RawFormat().skips_bad_records(resolve({}, RawFormat().options(), owner="t"))
