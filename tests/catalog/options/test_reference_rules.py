"""Java's properties files, by the rules of java.util.Properties.load."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.options.reference_rules import properties_text, read_properties

PLAIN = st.text(string.ascii_letters + string.punctuation + " \t\n\r\fäß中", max_size=12)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb = 2\n", {"a": "1", "b": "2"}),
        ("a:1\nb 2\nc\n", {"a": "1", "b": "2", "c": ""}),
        ("# a=1\n! b=2\n\n  c=3", {"c": "3"}),
        ("a=x=y:z  \r\nb=1", {"a": "x=y:z  ", "b": "1"}),
        ("a=one,\\\n   two\nb=1", {"a": "one,two", "b": "1"}),
        ("a=c:\\\\dir\\\\\nb=1", {"a": "c:\\dir\\", "b": "1"}),
        ("a\\ b\\=c=\\u00e4\\t\\q", {"a b=c": "ä\tq"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_lines_are_read_as_java_does(text: str, pairs: dict[str, str]) -> None:
    """Separators, comments, continued lines, escapes; the last line of a key counts."""
    assert read_properties(text) == pairs


@given(st.dictionaries(PLAIN.filter(bool), PLAIN))
def test_what_is_written_is_read_back(values: dict[str, str]) -> None:
    """Blanks, separators, comments, backslashes and ends of lines in keys and values."""
    assert read_properties(properties_text(values)) == values
