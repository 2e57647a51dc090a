"""Texts are read as Flink reads them, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.errors import OptionError
from penstock.catalog.options.option import (
    BOOLEAN,
    DURATION,
    INT,
    LIST,
    LONG,
    MEMORY,
    STRING,
    Option,
    OptionType,
    PrefixOption,
    enum_type,
    resolve,
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DURATION, "5 min", 300_000),
        (DURATION, "1s", 1000),
        (DURATION, " 200 ms ", 200),
        (DURATION, "200", 200),
        (DURATION, "2 H", 7_200_000),
        (DURATION, "1day", 86_400_000),
        (DURATION, "1500 us", 1),
        (DURATION, "1009000 µs", 1009),
        (MEMORY, "8 mb", 8 << 20),
        (MEMORY, "1gb", 1 << 30),
        (MEMORY, "42", 42),
        (INT, " -7 ", -7),
        (LONG, "9223372036854775807", 2**63 - 1),
        (BOOLEAN, "TRUE", True),
        (LIST, "a; b ;c;", ("a", "b", "c")),
        (LIST, "", ()),
        (STRING, " as it is ", " as it is "),
    ],
)
def test_values_are_read_as_flink_reads_them(
    kind: OptionType[object], text: str, value: object
) -> None:
    """Durations become milliseconds, sizes bytes."""
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DURATION, ""),
        (DURATION, "5 weeks"),
        (DURATION, "-1 s"),
        (DURATION, "1.5 s"),
        (DURATION, "99999999999999999999 d"),
        (DURATION, "٣ s"),
        (MEMORY, "8 min"),
        (INT, "2147483648"),
        (INT, "1_000"),
        (INT, "1.0"),
        (INT, ""),
        (BOOLEAN, "yes"),
    ],
)
def test_other_values_are_refused(kind: OptionType[object], text: str) -> None:
    """Python would take some of them."""
    with pytest.raises(ValueError):
        kind.parse(text)


@given(st.text())
def test_a_value_is_parsed_or_refused(text: str) -> None:
    """Parsers raise ValueError and nothing else."""
    for kind in (DURATION, MEMORY, INT, LONG, BOOLEAN, LIST, STRING):
        try:
            kind.parse(text)
        except ValueError:
            continue


# --- options as data: parsing, checking in Flink's order, and what errors tell ---


TOPIC: Option[str | None] = Option(
    key="topic", type=STRING, default=None, doc="Topics.", required=True
)
MODE = Option(
    key="scan.startup.mode",
    type=enum_type("earliest-offset", "latest-offset"),
    default="latest-offset",
    doc="Where to begin.",
    aliases=("startup",),
)
INTERVAL = Option(key="interval", type=DURATION, default=300_000, doc="How often.")
PIN: Option[int | None] = Option(key="pin", type=INT, default=None, doc="A number.", secret=True)
CLIENT = PrefixOption(prefix="properties.", doc="For the client.")
KNOWN = (TOPIC, MODE, INTERVAL, PIN, CLIENT)


def test_options_are_given_typed() -> None:
    """As set, by an older name, by default, passed on."""
    options = {"topic": "t", "startup": "EARLIEST-OFFSET", "properties.a.b": "c"}
    resolved = resolve(options, KNOWN, owner="table t")

    assert resolved.get(TOPIC) == "t"
    assert resolved.get(MODE) == "earliest-offset"
    assert resolved.get(INTERVAL) == 300_000
    assert resolved.get(PIN) is None
    assert (resolved.is_set(MODE), resolved.is_set(INTERVAL)) == (True, False)
    assert resolved.prefixed("properties.") == {"a.b": "c"}


def test_missing_options_come_before_wrong_ones() -> None:
    """Flink's order: required, then values, then unknown keys; the missing sorted."""
    needs_two = (*KNOWN, Option(key="path", type=STRING, default="", doc="", required=True))
    with pytest.raises(OptionError) as caught:
        resolve({"interval": "x", "nope": "y"}, needs_two, owner="table t")

    assert caught.value.message == "table t: one or more required options are missing: path, topic"


def test_wrong_values_come_before_unknown_keys() -> None:
    """The message shows key, value and what is expected."""
    with pytest.raises(OptionError) as caught:
        resolve({"nope": "y", "topic": "t", "interval": "soon"}, KNOWN, owner="table t")

    assert caught.value.message.startswith("table t: option 'interval' = 'soon' is not a duration")


def test_a_misspelt_required_option_is_named_with_the_one_it_stands_for() -> None:
    """The missing one and the one that is none: they are one mistake; what else is missing is to be added."""
    needs_two = (*KNOWN, Option(key="path", type=STRING, default="", doc="", required=True))
    with pytest.raises(OptionError) as caught:
        resolve({"pathh": "x"}, needs_two, owner="table t")

    assert caught.value.message == (
        "table t: one or more required options are missing: path, topic; unsupported option 'pathh'"
    )
    assert caught.value.hint == "did you mean 'path'?; add 'topic' = '...'"


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    """A key that is near says enough; nobody reads all of them beside it."""
    with pytest.raises(OptionError) as caught:
        resolve({"topic": "t", "scan.statup.mode": "x"}, KNOWN, owner="table t")

    assert caught.value.message == "table t: unsupported option 'scan.statup.mode'"
    assert caught.value.hint == "did you mean 'scan.startup.mode'?"


def test_an_unknown_key_that_is_like_none_is_refused_with_all_families() -> None:
    """Options with one first word are named together, if there are more than two."""
    more = tuple(Option(key=f"json.{n}", type=STRING, default="", doc="") for n in "abc")
    with pytest.raises(OptionError) as caught:
        resolve({"topic": "t", "qqq": "x"}, (*KNOWN, *more), owner="table t")

    assert caught.value.hint == (
        "supported are: interval, json.*, pin, properties.*, scan.startup.mode, topic; "
        "docs/options.md describes those of built-in connectors"
    )


def test_a_secret_value_is_not_in_the_error_about_it() -> None:
    """Neither by its descriptor nor by its key."""
    with pytest.raises(OptionError) as caught:
        resolve({"topic": "t", "pin": "hunter2"}, KNOWN, owner="table t")

    assert "hunter2" not in caught.value.message
    assert "hunter2" not in repr(
        resolve({"topic": "t", "properties.password": "hunter2"}, KNOWN, owner="")
    )
