"""Rows of a test become records in the table's own format, and the table's own decoder makes rows of them again."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.catalog.errors import BadRecordError, InputError, Span, UnsupportedError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import MetadataColumn, PhysicalColumn, PrimaryKey, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.contract import ReadRequest
from penstock.connector.testing.captured import Captured
from penstock.connector.testing.connector import (
    FixtureConnector,
    FixtureSettings,
    FixtureSource,
    as_fixture,
    read_fixture,
)
from penstock.connector.testing.decode import publish, write_records
from penstock.connector.testing.encode import encoder_of, make_records
from penstock.connector.testing.values import InputRow

COLUMNS = {"id": "INT", "name": "STRING", "at": "TIMESTAMP(3)"}
KAFKA = {
    "connector": "kafka",
    "topic": "a-topic",
    "properties.bootstrap.servers": "nowhere:1",
    "scan.startup.mode": "earliest-offset",
}
SPAN = Span(file="x_test.yaml", line=3, column=5, length=1, line_text="x")


def table_of(
    options: Mapping[str, str],
    columns: Mapping[str, str] = COLUMNS,
    key: Sequence[str] = (),
    metadata: Sequence[MetadataColumn] = (),
) -> Table:
    """A table with physical columns, and a key."""
    physical = [PhysicalColumn(name=n, type=parse_type(kind)) for n, kind in columns.items()]
    return Table(
        identifier=Identifier(catalog="c", database="d", name="t"),
        schema=Schema(
            columns=(*physical, *metadata),
            primary_key=PrimaryKey(columns=tuple(key)) if key else None,
        ),
        options=tuple(options.items()),
    )


def fixture_of(
    table: Table, folder: Path, rows: Sequence[InputRow], **settings: Any
) -> FixtureSource:
    """The source of a table's double, its rows written and published."""
    double = as_fixture(table, FixtureSettings(folder=str(folder), location="p", **settings))
    source = cast("FixtureSource", FixtureConnector(project=folder).source(double))
    records = make_records(encoder_of(table, source.own), [(row, SPAN) for row in rows], {})
    write_records(folder, records)
    publish(folder, {record.split: record.offset + 1 for record in records})
    return cast("FixtureSource", pickle.loads(pickle.dumps(source)))


def read_all(source: FixtureSource, columns: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Plan and read everything: (split, row)."""
    planner = source.open_planner(ReadRequest(columns=()))
    reader = source.open_reader(ReadRequest(columns=tuple(columns)))
    splits = list(planner.list_splits().owners)
    starts = planner.start_positions(splits, first_listing=True)
    ends = planner.extents(splits)
    reader.add_splits([planner.split(s, starts[s], ends[s].end) for s in splits])
    found = []
    for _ in splits:
        fetched = reader.fetch()
        found += [(split, row) for split, batch in fetched.batches for row in batch.to_pylist()]
    return found


def test_a_double_leads_back_to_its_table(tmp_path: Path) -> None:
    """Options, connector and schema are as they were."""
    table = table_of({**KAFKA, "format": "json"})
    settings = FixtureSettings(folder="f", location="p", ends=True, goes_idle=True, writes=True)

    own, read = read_fixture(as_fixture(table, settings))

    assert own.option_map == table.option_map
    assert read == settings


@pytest.mark.parametrize(
    "options",
    [
        {**KAFKA, "format": "json"},
        {**KAFKA, "format": "json", "json.timestamp-format.standard": "ISO-8601"},
        {**KAFKA, "value.format": "json", "key.format": "json", "key.fields": "id"},
        {"connector": "filesystem", "path": "p", "format": "json"},
        {"connector": "datagen"},
    ],
)
def test_rows_come_back_as_they_were_given(options: dict[str, str], tmp_path: Path) -> None:
    """Whatever the connector and the format."""
    rows = [
        InputRow(cells={"id": 1, "name": "ä", "at": "2024-01-01 00:00:00.25"}),
        InputRow(cells={"id": 2}),
    ]
    found = read_all(fixture_of(table_of(options), tmp_path, rows), ("id", "name", "at"))

    assert [(row["id"], row["name"], str(row["at"])) for _, row in found] == [
        (1, "ä", "2024-01-01 00:00:00.250000"),
        (2, None, "None"),
    ]


def test_a_row_has_its_partition_offset_timestamp_and_headers(tmp_path: Path) -> None:
    """They are the metadata of a Kafka record."""
    metadata = [
        MetadataColumn(name="partition", type=parse_type("INT NOT NULL"), virtual=True),
        MetadataColumn(name="offset", type=parse_type("BIGINT NOT NULL"), virtual=True),
        MetadataColumn(name="ts", type=parse_type("TIMESTAMP_LTZ(3) NOT NULL"), key="timestamp"),
        MetadataColumn(name="headers", type=parse_type("MAP<STRING, BYTES> NOT NULL")),
    ]
    table = table_of({**KAFKA, "format": "json"}, metadata=metadata)
    row = InputRow(
        cells={"id": 1},
        split="3",
        offset=70,
        timestamp="2024-01-01 00:00:00",
        headers=(("h", b"v"),),
    )
    found = read_all(
        fixture_of(table, tmp_path, [row]), ("id", "partition", "offset", "ts", "headers")
    )

    ((split, cells),) = found
    assert split == "a-topic-3"
    assert str(cells.pop("ts")) == "2024-01-01 00:00:00+00:00"
    assert cells == {"id": 1, "partition": 3, "offset": 70, "headers": [("h", b"v")]}


@pytest.mark.parametrize("name", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_kinds_of_rows_become_envelopes(name: str, tmp_path: Path) -> None:
    """An update is given as the row before and the row after it."""
    rows = [
        InputRow(cells={"id": 1, "name": "a"}),
        InputRow(cells={"id": 1, "name": "a"}, kind=RowKind.UPDATE_BEFORE),
        InputRow(cells={"id": 1, "name": "b"}, kind=RowKind.UPDATE_AFTER),
        InputRow(cells={"id": 1, "name": "b"}, kind=RowKind.DELETE),
    ]
    source = fixture_of(table_of({**KAFKA, "format": name}), tmp_path, rows)
    found = read_all(source, ("id", "name", ROW_KIND))

    assert source.changes is ChangelogMode.ALL
    assert [(RowKind(r[ROW_KIND]).short, r["name"]) for _, r in found] == [
        ("+I", "a"),
        ("-U", "a"),
        ("+U", "b"),
        ("-D", "b"),
    ]


def test_a_deletion_of_upsert_kafka_is_a_tombstone(tmp_path: Path) -> None:
    """Its record has a key and no value."""
    options = {**KAFKA, "connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
    del options["scan.startup.mode"]
    table = table_of(options, {"id": "INT NOT NULL", "name": "STRING"}, key=["id"])
    rows = [
        InputRow(cells={"id": 1, "name": "a"}),
        InputRow(cells={"id": 1}, kind=RowKind.DELETE),
    ]
    found = read_all(fixture_of(table, tmp_path, rows), ("id", "name", ROW_KIND))

    assert [(r["id"], r["name"], RowKind(r[ROW_KIND]).short) for _, r in found][-1] == (
        1,
        None,
        "-D",
    )


@pytest.mark.parametrize(
    "options", [{**KAFKA, "format": "json"}, {"connector": "datagen"}], ids=["kafka", "datagen"]
)
def test_broken_bytes_are_a_bad_record(options: dict[str, str], tmp_path: Path) -> None:
    """The table's own decoder finds them, at their place."""
    source = fixture_of(table_of(options), tmp_path, [InputRow(raw=b"{broken")])

    with pytest.raises(BadRecordError, match=r"position 0|offset 0"):
        read_all(source, ("id",))


def test_what_is_not_published_is_not_there(tmp_path: Path) -> None:
    """A step later it is; a source that ends stops behind the last record of all."""
    rows = [InputRow(cells={"id": n}) for n in range(3)]
    source = fixture_of(table_of({**KAFKA, "format": "json"}), tmp_path, rows, ends=True)
    planner = source.open_planner(ReadRequest(columns=("id",)))
    publish(tmp_path, {"a-topic-0": 1})
    early = planner.extents(["a-topic-0"])["a-topic-0"].end
    publish(tmp_path, {"a-topic-0": 3})

    assert early == 1
    assert planner.extents(["a-topic-0"])["a-topic-0"].end == 3
    assert planner.stop_positions(["a-topic-0"]) == {"a-topic-0": 3}
    assert source.bounded


def test_a_peek_passes_over_bad_records_and_what_is_not_accepted(tmp_path: Path) -> None:
    """It gives the last good one of the range."""
    rows = [InputRow(cells={"id": 1}), InputRow(cells={"id": 2}), InputRow(raw=b"x")]
    source = fixture_of(table_of({**KAFKA, "format": "json"}), tmp_path, rows)
    planner = source.open_planner(ReadRequest(columns=("id",)))
    whole = planner.peek({"a-topic-0": (0, 3)})
    first = planner.peek(
        {"a-topic-0": (0, 3)},
        lambda rows: [s for s, batch in rows.items() if batch.to_pylist()[0]["id"] < 2],
    )

    assert whole["a-topic-0"].to_pylist() == [{"id": 2}]
    assert first["a-topic-0"].to_pylist() == [{"id": 1}]


def test_idle_timeouts_pass_when_the_case_says_so(tmp_path: Path) -> None:
    """And never by the clock of the machine."""
    table = table_of(
        {**KAFKA, "format": "json", "scan.watermark.idle-timeout": "30 s"},
    )

    assert fixture_of(table, tmp_path, []).watermark.idle_timeout_ms is None
    assert fixture_of(table, tmp_path, [], goes_idle=True).watermark.idle_timeout_ms == 1


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (InputRow(cells={"idd": 1}), "no column 'idd'"),
        (InputRow(cells={"id": "x"}), "column 'id': 'x' is no value"),
        (InputRow(cells={"id": 1}, kind=RowKind.DELETE), "cannot be -D"),
        (InputRow(cells={"id": 1}, split="x"), "is no partition"),
        (InputRow(cells={"id": 1}, timestamp="noon"), "noon"),
    ],
)
def test_a_row_that_cannot_be_given_is_refused_at_its_place(row: InputRow, words: str) -> None:
    """The error points into the test file."""
    table = table_of({**KAFKA, "format": "json"})
    own = cast("Any", FixtureConnector(project=Path())).source(
        as_fixture(table, FixtureSettings(folder="f", location="p"))
    )
    with pytest.raises(InputError, match=words) as raised:
        make_records(encoder_of(table, own.own), [(row, SPAN)], {})

    assert raised.value.span == SPAN


def test_offsets_only_grow() -> None:
    """Gaps are fine, as compaction leaves them."""
    table = table_of({**KAFKA, "format": "json"})
    own = cast("Any", FixtureConnector(project=Path())).source(
        as_fixture(table, FixtureSettings(folder="f", location="p"))
    )
    encoder = encoder_of(table, own.own)
    gap = [(InputRow(cells={}, offset=n), SPAN) for n in (0, 7)]

    assert [record.offset for record in make_records(encoder, gap, {})] == [0, 7]
    with pytest.raises(InputError, match=r"only grow|comes after"):
        make_records(encoder, [(InputRow(cells={}, offset=3), SPAN)], {"a-topic-0": 8})


def test_an_update_without_the_row_before_is_refused() -> None:
    """An envelope has both."""
    table = table_of({**KAFKA, "format": "debezium-json"})
    own = cast("Any", FixtureConnector(project=Path())).source(
        as_fixture(table, FixtureSettings(folder="f", location="p"))
    )
    rows = [(InputRow(cells={"id": 1}, kind=RowKind.UPDATE_AFTER), SPAN)]

    with pytest.raises(InputError, match=r"one record with the row before and after"):
        make_records(encoder_of(table, own.own), rows, {})


def test_a_table_without_changes_takes_inserts_alone() -> None:
    """Files and made up rows have no kinds."""
    table = table_of({"connector": "datagen"})
    own = cast("Any", FixtureConnector(project=Path())).source(
        as_fixture(table, FixtureSettings(folder="f", location="p"))
    )

    with pytest.raises(UnsupportedError, match="has no changes"):
        make_records(encoder_of(table, own.own), [(InputRow(kind=RowKind.DELETE), SPAN)], {})


def test_captured_rows_are_the_last_of_each_key() -> None:
    """A delete takes the row away; rows without kinds replace each other."""
    kept = Captured()
    kept.rows += [
        (None, {"k": 1, "v": "a"}),
        (None, {"k": 1, "v": "b"}),
        (RowKind.INSERT, {"k": 2, "v": "c"}),
        (RowKind.DELETE, {"k": 2, "v": None}),
    ]

    assert kept.final(["k"]) == [{"k": 1, "v": "b"}]
    assert [kind.short for kind, _ in kept.changes(["k"])] == ["+I", "+U", "+I", "-D"]


def test_captured_changes_without_a_key_take_away_equal_rows() -> None:
    """As many as were deleted."""
    kept = Captured()
    row = {"v": "a"}
    kept.rows += [(RowKind.INSERT, row), (RowKind.INSERT, row), (RowKind.UPDATE_BEFORE, row)]

    assert kept.final([]) == [row]
