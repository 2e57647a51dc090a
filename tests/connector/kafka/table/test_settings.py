"""Subscriptions: which topics a pattern or a list names."""

from __future__ import annotations

from penstock.connector.kafka.table.settings import TopicPattern, is_topic_name


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
