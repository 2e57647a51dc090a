"""Topic patterns: Java's regular expressions on whole names."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector.kafka.subscriber import TopicPattern, is_topic_name, java_pattern


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
    assert (java_pattern(pattern).fullmatch(name) is not None) is matches


@pytest.mark.parametrize(
    "pattern", ["a(", "[a", r"[a-z&&[^b]]", r"\p{Greek}", r"\R", "[[a]b]", "a{2,1}"]
)
def test_what_cannot_be_translated_is_refused(pattern: str) -> None:
    """With the pattern in the message."""
    with pytest.raises(OptionError) as caught:
        java_pattern(pattern)

    assert pattern in caught.value.message


def test_a_pattern_does_not_match_the_brokers_own_topics() -> None:
    """Nobody means them with .*"""
    selected = TopicPattern(pattern=".*").select(
        ["b", "__consumer_offsets", "a", "__transaction_state"]
    )

    assert selected == ("a", "b")


def test_names_of_topics_follow_kafkas_rule() -> None:
    """At most 249 of letters, digits, dot, underscore, dash."""
    assert all(map(is_topic_name, ["a", "A.b_c-9", "x" * 249]))
    assert not any(map(is_topic_name, ["", ".", "..", "a b", "ä", "x" * 250, "a/b"]))
