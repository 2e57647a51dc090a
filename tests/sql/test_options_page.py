"""docs/options.md has every option that is read, as its descriptor says it."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import cast

import pytest

from penstock.catalog.model.namespaces import catalog_options, catalog_types
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import (
    DURATION,
    MEMORY,
    Option,
    OptionScope,
    PrefixOption,
    optional,
)
from penstock.connector.contract import SplitSource
from penstock.connector.formats import find_format, format_names
from penstock.connector.options.legacy import older_keys, translate_legacy_options
from penstock.connector.registry import built_in_names, find_connector, options_of
from penstock.sql.compatibility.options_page import (
    PAGE,
    Described,
    default_text,
    key_of,
    scope_of,
    sections,
    write_page,
)
from penstock.sql.settings import _KNOWN
from tests.sql.sql_objects import new_namespace

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = {section.title: section for _, part in sections() for section in part}
DESCRIBED: list[Described] = [
    option
    for section in SECTIONS.values()
    for one in section.options
    for option in (one, *(one.members if isinstance(one, PrefixOption) else ()))
]
LEAST_WORDS = 4


def test_the_page_is_made_of_the_descriptors() -> None:
    """`make docs` was run after the last change."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == write_page()


@pytest.mark.parametrize("name", built_in_names())
def test_each_option_of_a_connector_is_on_the_page_once(name: str) -> None:
    """In the connector's own section, or in one that this names."""
    section = SECTIONS[f"'connector' = '{name}'"]
    named = [
        other
        for title, other in SECTIONS.items()
        if f"[{title.lower()}](#{title.lower().replace(' ', '-')})" in section.text
    ]
    listed = chain(section.options, *(other.options for other in named))

    assert sorted(map(key_of, listed)) == sorted(map(key_of, options_of(name)))


@pytest.mark.parametrize("name", format_names())
def test_each_option_of_a_format_is_on_the_page(name: str) -> None:
    """In the section of the format."""
    listed = SECTIONS[f"'format' = '{name}'"].options

    assert list(map(key_of, listed)) == list(map(key_of, find_format(name).options()))


def test_formats_that_are_written_only_are_on_the_page() -> None:
    """`format_names` does not have them."""
    assert {f"'format' = '{name}'" for name in ("csv", "orc", "parquet")} <= SECTIONS.keys()


@pytest.mark.parametrize("kind", catalog_types())
def test_each_option_of_a_catalog_is_on_the_page(kind: str) -> None:
    """In the section of its type."""
    assert SECTIONS[f"'type' = '{kind}'"].options == catalog_options(kind)


def test_each_key_of_set_is_on_the_page() -> None:
    """An older key beside today's."""
    listed = [option for option in SECTIONS["Keys of a job"].options if isinstance(option, Option)]

    assert {key for one in listed for key in (one.key, *one.aliases)} == set(_KNOWN)


def metadata_rows(title: str) -> list[list[str]]:
    """The cells of a table of metadata columns."""
    table = write_page().partition(f"\n### Metadata of {title}\n")[2].partition("\n### ")[0]
    return [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize(
    ("connector", "options", "readable"),
    [
        (
            "kafka",
            "'topic' = 't', 'properties.bootstrap.servers' = 'b:1', 'scan.startup.mode' = 'earliest-offset', 'format' = 'raw'",
            8,
        ),
        ("filesystem", "'path' = 'in', 'format' = 'json'", 4),
    ],
)
def test_each_metadata_column_of_a_source_is_on_the_page(
    connector: str, options: str, readable: int
) -> None:
    """With its type, of which a table that asks for it is made."""
    namespace = new_namespace(
        f"CREATE TABLE t (a STRING) WITH ('connector' = '{connector}', {options})"
    )
    table = namespace.lookup(namespace.resolve(("t",)))
    assert isinstance(table, Table)
    source = cast("SplitSource", find_connector(connector, project=Path()).source(table))
    rows = metadata_rows(f"'connector' = '{connector}'")

    assert len(rows) == readable
    assert [(key.strip("| `"), kind.strip("` ")) for key, kind, *_ in rows] == [
        (key, str(kind)) for key, kind in source.metadata_types.items()
    ]


def test_metadata_that_a_sink_takes_is_marked() -> None:
    """Kafka's: KafkaDynamicSink.WritableMetadata."""
    written = [
        row[0].strip("| `") for row in metadata_rows("'connector' = 'kafka'") if row[2] != "read"
    ]

    assert written == ["topic", "headers", "header-list", "timestamp"]


@pytest.mark.parametrize("name", format_names())
def test_each_metadata_column_of_a_format_is_on_the_page(name: str) -> None:
    """Behind the prefix by which a table of Kafka asks for it."""
    known = find_format(name).metadata

    assert [row[0].strip("| `") for row in metadata_rows(f"'format' = '{name}'")] == [
        f"value.{key}" for key in known
    ]


def test_each_option_has_a_description() -> None:
    """Of a few words beside what it quotes, which stands as a sentence on the page."""
    short = [
        key_of(option)
        for option in DESCRIBED
        if len(re.sub(r"(?<!\w)'[^']*'", "", option.doc).split()) < LEAST_WORDS
    ]

    assert short == []


def test_what_flink_has_is_a_field_of_its_own() -> None:
    """Descriptions are hints of errors, too, where it says nothing of use."""
    assert [key_of(option) for option in DESCRIBED if "Flink:" in option.doc] == []


def test_a_default_is_written_as_it_would_be_set() -> None:
    """It is read back as the default."""
    options = [option for option in DESCRIBED if isinstance(option, Option)]
    written = {option.key: default_text(option) for option in options}
    read = {
        option.key: option.type.parse(written[option.key])
        for option in options
        if written[option.key]
    }

    assert written["execution.checkpointing.interval"] == "1 s"
    assert read == {option.key: option.default for option in options if written[option.key]}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (DURATION, 0, "0"),
        (DURATION, 90_000, "90 s"),
        (DURATION, 86_400_000, "1 d"),
        (DURATION, 1_001, "1001 ms"),
        (MEMORY, 3 << 20, "3 mb"),
        (MEMORY, 1_025, "1025 b"),
    ],
)
def test_a_default_has_the_largest_unit_that_is_exact(kind: object, value: int, text: str) -> None:
    """Durations are kept in ms, sizes in bytes."""
    assert default_text(Option(key="k", type=kind, default=value, doc="")) == text  # type: ignore[arg-type]


def test_scope_is_known_by_the_key_unless_the_descriptor_says_it() -> None:
    """`scan.*` is of sources; a key that says nothing is of both."""
    assert scope_of(optional(DURATION, "scan.watermark.idle-timeout", "")) is OptionScope.SOURCE
    assert scope_of(optional(DURATION, "path", "")) is OptionScope.TABLE
    assert scope_of(optional(DURATION, "path", "", scope=OptionScope.SINK)) is OptionScope.SINK


def test_older_keys_are_those_that_are_read() -> None:
    """Each is translated to the option that lists it."""
    key = "scan.topic-partition-discovery.interval"

    assert older_keys(key)
    for old in older_keys(key):
        assert set(translate_legacy_options({old: "5000"}).options) == {key}
