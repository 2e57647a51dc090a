"""Java's regular expressions as Python's."""

from __future__ import annotations

import re

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector.jvm.java_pattern import java_pattern


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("orders-.*", "orders-eu", True),
        ("orders", "orders-eu", False),
        ("eu", "orders-eu", False),
        ("orders-(?!test).*", "orders-test", False),
        (r"\Qa.b\E\d+", "a.b7", True),
        (r"\Qa.b\E\d+", "axb7", False),
        (r"\p{Lower}+", "orders", True),
        (r"[\p{Upper}_]+", "ORD_ERS", True),
        (r"(?<part>\w+)-\k<part>", "x-x", True),
        (r"(?i)ORDERS", "orders", True),
        (r"a++b", "aaab", True),
        (r"a\[b", "a[b", True),
        (r"a.b\z", "a.b", True),
    ],
)
def test_java_patterns_match_as_in_java(pattern: str, name: str, matches: bool) -> None:
    """Where the spelling differs it is translated."""
    assert (_compiled(pattern).fullmatch(name) is not None) is matches


@pytest.mark.parametrize(
    "pattern", ["a(", "[a", r"[a-z&&[^b]]", r"\p{Greek}", r"\R", "[[a]b]", "a{2,1}"]
)
def test_what_cannot_be_translated_is_refused(pattern: str) -> None:
    """With the option, the pattern and the hint in the message."""
    with pytest.raises(OptionError) as caught:
        _compiled(pattern)

    assert caught.value.message.startswith(f"'topic-pattern' = '{pattern}' is not a usable")
    assert caught.value.hint == "a hint"


def _compiled(pattern: str) -> re.Pattern[str]:
    return java_pattern(pattern, what="'topic-pattern'", hint="a hint")
