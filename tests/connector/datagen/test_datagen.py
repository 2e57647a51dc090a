"""Made up rows: what the options ask for is what the columns hold, and any range can be made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.catalog.errors import DefinitionError, InputError, OptionError, UnsupportedError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import MetadataColumn, PhysicalColumn, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.contract import ReadRequest
from penstock.connector.datagen.connector import DatagenConnector, DatagenRows
from penstock.connector.datagen.generators import DatagenRowMaker
from penstock.connector.datagen.settings import read_settings
from penstock.connector.generated.reader import GeneratedMetadataClient, GeneratedReader
from penstock.connector.source.split import Split

NOW_NS = 1_700_000_000 * 10**9
NOW_ROW = 1_700_000_000 * 10


def table_of(columns: Mapping[str, str], options: Mapping[str, str] = {}) -> Table:
    """A datagen table of ten rows a second."""
    physical = tuple(PhysicalColumn(name=n, type=parse_type(text)) for n, text in columns.items())
    given = {"connector": "datagen", "rows-per-second": "10", **options}
    identifier = Identifier(catalog="c", database="d", name="t")
    return Table(
        identifier=identifier, schema=Schema(columns=physical), options=tuple(given.items())
    )


def made(kind: str, options: Mapping[str, str] = {}, rows: int = 1000) -> pa.Array:
    """The values of a column `f` of that type."""
    table = table_of({"f": kind}, {f"fields.f.{key}": value for key, value in options.items()})
    return DatagenRowMaker(["f"], read_settings(table)).make(NOW_ROW, NOW_ROW + rows).column(0)


def planner_of(
    table: Table, columns: Sequence[str] = (), clock: Callable[[], int] = lambda: NOW_NS
) -> GeneratedMetadataClient:
    """Its planner, at the instant NOW_NS."""
    rows = DatagenRows(settings=read_settings(table))
    return GeneratedMetadataClient(rows, rows.maker(columns), clock)


@pytest.mark.parametrize("kind", ["TINYINT", "SMALLINT", "INT", "BIGINT"])
def test_integers_lie_between_min_and_max(kind: str) -> None:
    """Both bounds are inclusive, and every value between them comes."""
    values = made(kind, {"min": "-2", "max": "2"})

    assert set(values.to_pylist()) == {-2, -1, 0, 1, 2}


def test_without_bounds_integers_are_of_their_whole_type() -> None:
    """Half of all BIGINTs are below zero, and they fill the 64 bits."""
    values = made("BIGINT")

    assert 400 < pc.sum(pc.less(values, 0)).as_py() < 600
    assert pc.max(values).as_py() > 2**62


def test_fractions_lie_between_min_and_max() -> None:
    """DOUBLE and DECIMAL alike; a DECIMAL has its scale."""
    doubles = made("DOUBLE", {"min": "1.5", "max": "2.5"})
    decimals = made("DECIMAL(10, 2)", {"min": "-0.05", "max": "0.05"})

    assert 1.5 <= pc.min(doubles).as_py() < 1.6
    assert 2.4 < pc.max(doubles).as_py() <= 2.5
    assert set(decimals.to_pylist()) == {Decimal(n).scaleb(-2) for n in range(-5, 6)}


def test_texts_are_hexadecimal_and_as_long_as_asked() -> None:
    """Flink's default is 100 characters; with var-len all lengths up to it come; CHAR has its own."""
    lengths = pc.utf8_length(made("STRING", {"length": "5", "var-len": "true"}))

    assert pc.all(pc.match_substring_regex(made("STRING"), "^[0-9a-f]{100}$")).as_py()
    assert set(lengths.to_pylist()) == {1, 2, 3, 4, 5}
    assert set(pc.utf8_length(made("CHAR(7)")).to_pylist()) == {7}
    assert set(pc.binary_length(made("BYTES", {"length": "3"})).to_pylist()) == {3}


def test_nulls_come_at_their_rate() -> None:
    """A fifth of a thousand is about two hundred."""
    assert 150 < made("STRING", {"null-rate": "0.2"}).null_count < 250


def test_times_are_those_of_the_rows() -> None:
    """Ten rows a second lie 100 ms apart; max-past moves times back."""
    times = made("TIMESTAMP(3)", rows=2).cast(pa.int64()).to_pylist()
    past = made("TIMESTAMP_LTZ(3)", {"max-past": "1 min"}).cast(pa.int64())

    assert times == [1_700_000_000_000_000, 1_700_000_000_100_000]
    assert pc.min(past).as_py() < 1_700_000_000_000_000 - 50_000_000
    assert made("DATE", rows=1).to_pylist()[0].isoformat() == "2023-11-14"
    assert made("TIME", rows=1).to_pylist()[0].isoformat() == "22:13:20"


def test_a_row_is_made_alike_in_any_range() -> None:
    """What a task reads again after a failure is what was read before."""
    settings = read_settings(
        table_of({"a": "BIGINT", "b": "STRING", "c": "BOOLEAN"}, {"fields.b.null-rate": "0.5"})
    )
    maker = DatagenRowMaker(["c", "b", "a"], settings)

    whole = pa.Table.from_batches([maker.make(100, 200)])
    parts = pa.Table.from_batches([maker.make(100, 137), maker.make(137, 200)])

    assert whole.equals(parts.combine_chunks())
    assert whole.column_names == ["c", "b", "a"]


def test_a_sequence_counts_from_start_to_end_and_ends_the_table() -> None:
    """The shorter of two ends counts; texts count too."""
    table = table_of(
        {"id": "INT", "name": "STRING"},
        {
            "number-of-rows": "50",
            "fields.id.kind": "sequence",
            "fields.id.start": "7",
            "fields.id.end": "11",
            "fields.name.kind": "sequence",
            "fields.name.start": "1",
            "fields.name.end": "9",
        },
    )
    planner = planner_of(table)
    start = planner.start_positions(["rows"], first_listing=True)["rows"]
    stop = planner.stop_positions(["rows"])["rows"]
    rows = DatagenRowMaker(["id", "name"], read_settings(table)).make(start, stop).to_pydict()

    assert rows == {"id": [7, 8, 9, 10, 11], "name": ["1", "2", "3", "4", "5"]}
    assert stop <= planner.extents(["rows"])["rows"].end


def test_a_table_without_end_begins_now_and_goes_at_its_rate() -> None:
    """A second later ten rows are due."""
    clock = [NOW_NS]
    planner = planner_of(table_of({"f": "INT"}), clock=lambda: clock[0])
    start = planner.start_positions(["rows"], first_listing=True)["rows"]
    clock[0] += 10**9

    assert start == NOW_ROW
    assert planner.extents(["rows"])["rows"].end == start + 10
    assert planner.stop_positions(["rows"]) == {}


def test_a_peek_gives_the_last_row_that_is_accepted() -> None:
    """At most a few rows are tried."""
    settings = read_settings(table_of({"f": "INT"}))
    planner = planner_of(table_of({"f": "INT"}), ["f"])
    last = DatagenRowMaker(["f"], settings).make(19, 20)

    assert planner.peek({"rows": (10, 20)})["rows"].equals(last)
    assert planner.peek({"rows": (10, 20)}, lambda _: ()) == {}
    assert planner.peek({"rows": (10, 10)}) == {}


def test_a_reader_reads_its_range_and_finishes_it() -> None:
    """One without an end gives what is due."""
    rows = DatagenRows(settings=read_settings(table_of({"f": "INT"})))
    reader = GeneratedReader(rows, rows.maker(["f"]), origins=True, now_ns=lambda: NOW_NS)
    reader.add_splits([Split(split_id="rows", start=NOW_ROW - 30, stop=NOW_ROW - 10)])
    fetched = reader.fetch()
    reader.add_splits([Split(split_id="rows", start=NOW_ROW - 5)])
    live = reader.fetch()

    assert (fetched.batches[0][1].num_rows, fetched.finished) == (20, {"rows"})
    assert fetched.origins["rows"].of([1])[0].position == NOW_ROW - 29
    assert (live.positions, live.finished) == ({"rows": NOW_ROW}, frozenset())


@pytest.mark.parametrize(
    ("columns", "options", "error", "words"),
    [
        ({"f": "INT"}, {"fields.g.min": "1"}, OptionError, "names no physical column"),
        ({"f": "INT"}, {"fields.f.length": "1"}, OptionError, "fields.f.length"),
        ({"f": "INT"}, {"fields.f.min": "3", "fields.f.max": "2"}, OptionError, "no range"),
        ({"f": "TINYINT"}, {"fields.f.max": "128"}, OptionError, "no range"),
        ({"f": "INT NOT NULL"}, {"fields.f.null-rate": "0.1"}, OptionError, "NOT NULL"),
        ({"f": "VARCHAR(3)"}, {"fields.f.length": "4"}, OptionError, "declared length"),
        ({"f": "INT"}, {"fields.f.kind": "sequence"}, OptionError, "fields.f.end"),
        ({"f": "INT"}, {"rows-per-second": "0"}, OptionError, "at least 1"),
        ({"f": "ARRAY<INTERVAL DAY TO SECOND>"}, {}, UnsupportedError, "INTERVAL DAY"),
    ],
)
def test_what_cannot_be_made_is_refused(
    columns: dict[str, str], options: dict[str, str], error: type[InputError], words: str
) -> None:
    """At the definition, with the option or the column in the message."""
    with pytest.raises(error, match=words):
        DatagenConnector(project=Path()).check(table_of(columns, options))


def test_there_is_no_metadata_and_nothing_to_write() -> None:
    """Both are said by name."""
    table = table_of({"f": "INT"})
    column = MetadataColumn(name="offset", type=parse_type("BIGINT"))
    with_metadata = Table(
        identifier=table.identifier, schema=Schema(columns=(column,)), options=table.options
    )
    connector = DatagenConnector(project=Path())

    with pytest.raises(DefinitionError, match="'offset'"):
        connector.check(with_metadata)
    with pytest.raises(UnsupportedError, match="takes none"):
        connector.sink(table)


def test_another_rate_is_another_table_to_a_checkpoint() -> None:
    """Rows have other numbers then, so going on would skip or repeat hours."""
    slow = planner_of(table_of({"f": "INT"}))
    known = slow.list_splits().source_ids["datagen"]
    faster = planner_of(table_of({"f": "INT"}, {"rows-per-second": "20"}))
    found = faster.list_splits().source_ids["datagen"]
    error = faster.changed("datagen", known, found)

    assert found != known
    assert "rows-per-second" in str(getattr(error, "hint", ""))


def test_the_source_opens_both_sides() -> None:
    """What Spark's processes do with the picklable value."""
    source = DatagenConnector(project=Path()).source(
        table_of({"f": "INT", "g": "STRING"}, {"number-of-rows": "3"})
    )
    reader = source.open_reader(ReadRequest(columns=("g", "f")))
    reader.add_splits([source.open_planner(ReadRequest(columns=())).split("rows", 4, 7)])

    assert source.bounded
    assert reader.fetch().batches[0][1].schema.names == ["g", "f"]


def test_rows_have_fields_with_options_of_their_own() -> None:
    """Of any depth; NULLs are those of the whole row where its fields have none."""
    options = {
        "name.length": "4",
        "at.x.min": "1",
        "at.x.max": "2",
        "null-rate": "0.5",
    }
    values = made("ROW<name STRING NOT NULL, at ROW<x INT, y INT>>", options).to_pylist()
    rows = [value for value in values if value is not None]

    assert 300 < len(rows) < 700
    assert {len(row["name"]) for row in rows} == {4}
    assert {row["at"]["x"] for row in rows} == {1, 2}
    assert len({row["at"]["y"] for row in rows}) == len(rows)


@pytest.mark.parametrize(("given", "length"), [({}, 3), ({"length": "5"}, 5), ({"length": "0"}, 0)])
def test_arrays_hold_elements_that_differ(given: Mapping[str, str], length: int) -> None:
    """Three where nothing else is said, as Flink's."""
    values = made("ARRAY<BIGINT>", given, rows=50).to_pylist()

    assert {len(value) for value in values} == {length}
    assert len({element for value in values for element in value}) == 50 * length


def test_maps_and_multisets_have_each_key_once() -> None:
    """Also where there are fewer possible keys than entries are asked for."""
    maps = made("MAP<BOOLEAN NOT NULL, ARRAY<INT>>", {"length": "6"}, rows=50).to_pylist()
    sets = made("MULTISET<TINYINT>", {"element.min": "1", "element.max": "2"}, rows=50).to_pylist()

    assert {len(dict(value)) == len(value) <= 2 for value in maps} == {True}
    assert any(len(value) == 2 for value in maps)
    assert {len(elements) for value in maps for _, elements in value} == {3}
    assert {len(dict(value)) == len(value) for value in sets} == {True}
    assert {count for value in sets for _, count in value} <= set(range(1, 11))


@pytest.mark.parametrize(
    "kind", ["ROW<a INT, b ARRAY<STRING>>", "MAP<INT, ROW<c DATE>>", "ARRAY<INT>"]
)
def test_composed_values_are_made_again_from_any_row_on(kind: str) -> None:
    """As a batch that is run again asks for them."""
    table = table_of({"f": kind}, {"fields.f.null-rate": "0.2"})
    maker = DatagenRowMaker(["f"], read_settings(table))
    whole = maker.make(NOW_ROW, NOW_ROW + 40)

    whole.validate(full=True)
    assert maker.make(NOW_ROW + 13, NOW_ROW + 40).equals(whole.slice(13))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("ROW<a INT>", {"b.min": "1"}, "b.min"),
        ("ROW<a INT>", {"a.kind": "sequence", "a.start": "1", "a.end": "2"}, "counts nothing up"),
        ("ARRAY<INT>", {"element.length": "1"}, "fields.f.element.length"),
        ("ARRAY<INT>", {"length": "-1"}, "no number of elements"),
        ("ROW<a INT NOT NULL>", {"a.null-rate": "0.1"}, "contradicts NOT NULL"),
    ],
)
def test_options_of_parts_are_checked(kind: str, options: Mapping[str, str], message: str) -> None:
    """By the type of the part."""
    with pytest.raises(OptionError, match=message):
        made(kind, options)
