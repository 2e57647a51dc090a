"""Nexmark's events: their proportions, ids, hot keys, times and sizes, and which of them there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.catalog.errors import DefinitionError, InputError, OptionError, UnsupportedError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import MetadataColumn, PhysicalColumn, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.generated.reader import GeneratedMetadataClient
from penstock.connector.nexmark.connector import NexmarkConnector, NexmarkRows
from penstock.connector.nexmark.events import HOT_CHANNELS, channel_id
from penstock.connector.nexmark.settings import EVENT_TYPE, ROWS, read_settings

EVENTS = 50_000
NOW_NS = 1_700_000_000 * 10**9
COLUMNS = {
    EVENT_TYPE: "INT",
    **{
        name: "ROW<" + ", ".join(f"`{field}` {kind}" for field, kind in fields.items()) + ">"
        for name, fields in ROWS.items()
    },
}


def table_of(options: Mapping[str, str] = {}, columns: Mapping[str, str] = COLUMNS) -> Table:
    """A nexmark table with these columns."""
    physical = tuple(PhysicalColumn(name=n, type=parse_type(text)) for n, text in columns.items())
    identifier = Identifier(catalog="c", database="d", name="t")
    given = {"connector": "nexmark", **options}
    return Table(
        identifier=identifier, schema=Schema(columns=physical), options=tuple(given.items())
    )


def rows_of(options: Mapping[str, str] = {}) -> NexmarkRows:
    """The rows of such a table."""
    return NexmarkRows(settings=read_settings(table_of(options)))


def made(
    column: str, options: Mapping[str, str] = {}, start: int = 0, stop: int = EVENTS
) -> pa.StructArray:
    """The events of one kind."""
    found = rows_of(options).maker([column]).make(start, stop).column(0)
    return found.filter(found.is_valid())


def numbers(events: pa.StructArray, field: str) -> Any:
    """A field as NumPy's, times as epoch microseconds."""
    values = events.field(field)
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return values.to_numpy(zero_copy_only=False)


def test_a_round_has_persons_then_auctions_then_bids() -> None:
    """One, three and 46; each row has the column of its kind alone."""
    batch = rows_of().maker(list(COLUMNS)).make(0, 100)
    kinds = batch.column(0).to_pylist()

    assert kinds == ([0] + [1] * 3 + [2] * 46) * 2
    for number, name in enumerate(ROWS):
        assert [row is not None for row in batch.column(name).to_pylist()] == [
            kind == number for kind in kinds
        ]


def test_proportions_are_those_that_were_asked_for() -> None:
    """A kind may be left out; what it would name is still named."""
    shares = {"person.proportion": "0", "auction.proportion": "0", "bid.proportion": "5"}
    bids = made("bid", shares)
    kinds = rows_of({"person.proportion": "2", "auction.proportion": "5", "bid.proportion": "3"})
    counted = Counter(kinds.maker([EVENT_TYPE]).make(0, 10_000).column(0).to_pylist())

    assert counted == {0: 2000, 1: 5000, 2: 3000}
    assert len(bids) == EVENTS
    assert set(numbers(bids, "auction").tolist()) <= set(range(1000, 1011))


def test_ids_count_up_without_gaps() -> None:
    """Each person and each auction has one of its own, from 1000 on."""
    for name in ("person", "auction"):
        ids = numbers(made(name), "id")

        assert ids.tolist() == list(range(1000, 1000 + len(ids)))


def test_what_events_name_exists_or_comes_soon() -> None:
    """At most ten ids ahead of the newest one, and not older than what is active."""
    bids, auctions = made("bid"), made("auction")
    rounds = np.arange(EVENTS) // 50
    of_bids = rounds[np.arange(EVENTS) % 50 >= 4]
    of_auctions = np.repeat(np.arange(len(auctions) // 3), 3)
    newest_auction, newest_person = 1000 + 3 * of_bids + 2, 1000 + of_bids
    named = numbers(bids, "auction")

    assert ((named <= newest_auction + 10) & (named >= 1000)).all()
    assert (named >= newest_auction - 199).all()
    assert (numbers(bids, "bidder") - 1000 <= newest_person + 10).all()
    assert (numbers(bids, "bidder") >= 2000).all()
    assert (numbers(auctions, "seller") <= 1000 + of_auctions + 10).all()


@pytest.mark.parametrize(
    ("column", "field", "option", "ratio", "share"),
    [
        ("bid", "auction", "bid.hot-ratio.auctions", 2, 0.5),
        ("bid", "auction", "bid.hot-ratio.auctions", 10, 0.9),
        ("bid", "bidder", "bid.hot-ratio.bidders", 4, 0.75),
        ("bid", "bidder", "bid.hot-ratio.bidders", 1, 0.0),
        ("auction", "seller", "auction.hot-ratio.sellers", 4, 0.75),
    ],
)
def test_hot_keys_have_their_share(
    column: str, field: str, option: str, ratio: int, share: float
) -> None:
    """1 - 1 / ratio of the events name the hot key, which moves on every hundred ids."""
    events = made(column, {option: str(ratio)}, 1_000_000, 1_000_000 + EVENTS)
    named = numbers(events, field)
    hot = (named % 100 == (1 if field == "bidder" else 0)).mean()

    # of the others about one in a hundred has such an id by chance
    assert abs(hot - (share + (1 - share) / 100)) < 0.02


def test_times_follow_the_rate_and_never_go_back() -> None:
    """In milliseconds, from the base time on."""
    options = {"first-event.rate": "3000", "base-time": "2024-02-03T04:05:06+01:00"}
    times = numbers(made("bid", options), "dateTime")
    first = made("person", options).field("dateTime")[0].as_py()
    expected = np.arange(EVENTS) * 1000 // 3000 * 1000

    assert first == datetime(2024, 2, 3, 3, 5, 6)
    assert (np.diff(times) >= 0).all()
    assert (times - times[0] == (expected - expected[4])[np.arange(EVENTS) % 50 >= 4]).all()


def test_auctions_end_when_a_hundred_others_have_begun_on_average() -> None:
    """At 10,000 events a second that is a sixth of a second."""
    auctions = made("auction")
    length_ms = (numbers(auctions, "expires") - numbers(auctions, "dateTime")) / 1000

    assert length_ms.min() >= 1
    assert length_ms.max() <= 2 * 167
    assert 155 < length_ms.mean() < 178


def test_prices_are_even_over_their_magnitudes() -> None:
    """From 100 to 100,000,000; the reserve is above the first bid."""
    magnitudes = np.floor(np.log10(numbers(made("bid"), "price")))
    auctions = made("auction")
    counted = Counter(magnitudes.tolist())

    assert set(counted) <= {2, 3, 4, 5, 6, 7, 8}
    assert all(abs(counted[n] / len(magnitudes) - 1 / 6) < 0.01 for n in range(2, 8))
    assert (numbers(auctions, "reserve") > numbers(auctions, "initialBid")).all()


@pytest.mark.parametrize(
    ("column", "size", "fixed"), [("person", 200, 8), ("auction", 500, 48), ("bid", 100, 32)]
)
@pytest.mark.parametrize("factor", [1, 3])
def test_events_have_their_average_size(column: str, size: int, fixed: int, factor: int) -> None:
    """Of texts and numbers together, without a channel."""
    events = made(column, {f"{column}.avg-size": f"{size * factor} b"})
    texts = [
        field.name
        for field in events.type
        if pa.types.is_string(field.type) and field.name not in ("channel", "url")
    ]
    lengths = sum(numbers_of_bytes(events.field(name)) for name in texts) + fixed

    assert abs(lengths.mean() / (size * factor) - 1) < 0.02
    assert 0.75 < lengths.min() / (size * factor) < 0.9
    assert 1.1 < lengths.max() / (size * factor) < 1.25


def numbers_of_bytes(texts: pa.Array) -> Any:
    """The lengths of texts."""
    return pc.binary_length(texts).to_numpy(zero_copy_only=False)


def test_texts_look_as_queries_expect_them() -> None:
    """Channels with the id that their address has, states and cities, cards of sixteen digits."""
    bids, persons, auctions = made("bid"), made("person"), made("auction")
    pairs = set(zip(bids.field("channel").to_pylist(), bids.field("url").to_pylist(), strict=True))
    plain = {name: url for name, url in pairs if name not in HOT_CHANNELS}
    with_id = {name: url for name, url in plain.items() if "channel_id=" in url}
    hot = np.isin(bids.field("channel").to_numpy(zero_copy_only=False), HOT_CHANNELS).mean()

    assert len(pairs) == len({name for name, _ in pairs})
    assert abs(hot - 0.5) < 0.01
    assert 0.88 < len(with_id) / len(plain) < 0.92
    assert all(
        url.endswith(f"&channel_id={channel_id(int(name.removeprefix('channel-')))}")
        for name, url in with_id.items()
    )
    assert pc.all(
        pc.match_substring_regex(
            bids.field("url"),
            r"^https://www\.nexmark\.com/[a-z_]{3,4}/[a-z_]{3,4}/[a-z_]{3,4}/item\.htm\?query=1(&channel_id=\d+)?$",
        )
    ).as_py()
    assert set(persons.field("state").to_pylist()) == {"AZ", "CA", "ID", "OR", "WA", "WY"}
    assert len(set(persons.field("city").to_pylist())) == 10
    assert pc.all(
        pc.match_substring_regex(persons.field("creditCard"), r"^\d{4}( \d{4}){3}$")
    ).as_py()
    assert set(numbers(auctions, "category").tolist()) == {10, 11, 12, 13, 14}
    assert pc.all(
        pc.match_substring_regex(auctions.field("itemName"), "^([a-z]([a-z ]*[a-z])?)?$")
    ).as_py()


def test_the_numbers_of_channels_are_reversed() -> None:
    """As Java's Integer.reverse and abs have it."""
    assert [channel_id(n) for n in (0, 1, 2, 3, 10)] == [
        0,
        2147483648,
        1073741824,
        1073741824,
        1342177280,
    ]


def test_an_event_is_generated_alike_in_any_range() -> None:
    """What a task reads again is what was read before, and another seed is another table."""
    maker = rows_of().maker(["bid", "auction", EVENT_TYPE, "person"])
    whole = maker.make(10_000, 10_300)
    other = rows_of({"seed": "1"}).maker(["bid"]).make(10_000, 10_300)

    whole.validate(full=True)
    assert maker.make(10_137, 10_300).equals(whole.slice(137))
    assert not other.column(0).equals(whole.column(0))


def test_a_field_is_the_same_without_the_others() -> None:
    """The runtime asks for the fields that a query names, in its own order."""
    narrow = table_of(columns={"auction": "ROW<extra STRING, expires TIMESTAMP_LTZ(3), id BIGINT>"})
    found = NexmarkRows(settings=read_settings(narrow)).maker(["auction"]).make(0, 500).column(0)
    found = found.filter(found.is_valid())
    whole = made("auction", stop=500)

    assert [field.name for field in found.type] == ["extra", "expires", "id"]
    assert found.field("extra").equals(whole.field("extra"))
    assert found.field("id").equals(whole.field("id"))
    assert numbers(found, "expires").tolist() == numbers(whole, "expires").tolist()


def test_at_full_speed_all_events_are_there() -> None:
    """From event 0 on; `stop-at` and `events.num`: whichever comes first."""
    bounded = rows_of({"events.num": "100"})
    stopped = rows_of({"events.num": "100", "stop-at": "40"})
    kept = rows_of({"events.num": "100", "keep-alive": "true"})
    endless = rows_of({"first-event.rate": "1000000000"})

    assert (bounded.bounded, bounded.start(NOW_NS), bounded.stop(0, NOW_NS)) == (True, 0, 100)
    assert bounded.stop(None, NOW_NS) == 100
    assert stopped.stop(0, NOW_NS) == 40
    assert (kept.bounded, kept.due(NOW_NS)) == (False, 100)
    assert not endless.bounded
    last = endless.maker(["bid"]).make(endless.due(NOW_NS) - 50, endless.due(NOW_NS))
    assert last.column(0).drop_null()[-1].as_py()["dateTime"].year == 2161


def test_events_become_due_by_their_time() -> None:
    """From now on: ten events a second later, of a second."""
    rows = rows_of({"max-emit-speed": "false", "first-event.rate": "10"})
    ended = rows_of({"max-emit-speed": "false", "first-event.rate": "10", "events.num": "30"})
    clock = [NOW_NS]
    planner = GeneratedMetadataClient(rows, rows.maker([]), lambda: clock[0])
    start = planner.start_positions(["events"], first_listing=True)["events"]
    clock[0] += 10**9
    event = rows.maker(["bid"]).make(start, start + 50).column(0).drop_null()[0].as_py()

    assert planner.extents(["events"])["events"].end == start + 10
    assert planner.stop_positions(["events"]) == {}
    assert 0 <= event["dateTime"].timestamp() - datetime(2023, 11, 14, 22, 13, 20).timestamp() < 5
    assert ended.stop(ended.start(NOW_NS), NOW_NS) == ended.start(NOW_NS) + 30
    assert ended.stop(None, NOW_NS) == ended.due(NOW_NS)
    assert rows.due(0) == 0


def test_event_time_advances_by_a_factor_of_the_interval() -> None:
    """Sixty times as fast, half as fast, or by any three decimals: exact, and the rest of an event as without it."""
    plain = rows_of({"first-event.rate": "7"}).maker(["bid"]).make(0, 5_000).column(0).drop_null()

    for factor, exact in (("60", 60_000), ("0.5", 500), (" 1.001 ", 1_001), ("1", 1_000)):
        options = {"first-event.rate": "7", "base-time-factor": factor}
        found = rows_of(options).maker(["bid"]).make(0, 5_000).column(0).drop_null()
        bids = [number for number in range(5_000) if number % 50 >= 4]
        passed_ms = numbers(found, "dateTime") // 1000 - 1_436_918_400_000

        assert passed_ms.tolist() == [number * exact // 7 for number in bids], factor
        assert found.field("price").equals(plain.field("price"))


def test_times_are_exact_at_the_largest_rate_and_factor() -> None:
    """In 64 bits: 2,147,483,647 events a second, and a million seconds of event time in one."""
    rows = rows_of({"first-event.rate": str(2**31 - 1), "base-time-factor": "1000000"})
    first = 2**31 * 60_000 - 2
    found = rows.maker(["bid"]).make(first, first + 50).column(0)
    passed_ms = numbers(found.drop_null(), "dateTime") // 1000 - 1_436_918_400_000
    bids = [n for n in range(first, first + 50) if n % 50 >= 4]

    assert passed_ms.tolist() == [n * 10**9 // (2**31 - 1) for n in bids]


def test_events_become_due_at_the_rate_whatever_the_factor() -> None:
    """Ten events a second of the clock, each six seconds of event time behind the one before; none beyond year 9999."""
    options = {
        "max-emit-speed": "false",
        "first-event.rate": "10",
        "base-time": "2023-11-14 22:13:20",
        "base-time-factor": "60",
    }
    rows = rows_of(options)
    event = rows.maker(["bid"]).make(10, 11).column(0)[0].as_py()
    far = rows_of({**options, "base-time-factor": "1000000"})
    last = far.due(NOW_NS + 10**9 * 10**9)

    assert (rows.due(NOW_NS), rows.due(NOW_NS + 10**9), rows.start(NOW_NS)) == (0, 10, 0)
    assert event["dateTime"] == datetime(2023, 11, 14, 22, 14, 20)
    assert last == far.due(NOW_NS + 10**9 * 10**10)
    assert (
        far.maker(["bid"]).make(last - 50, last).column(0).drop_null()[-1].as_py()["dateTime"].year
        == 9999
    )


@pytest.mark.parametrize(
    "options",
    [
        {"first-event.rate": "20"},
        {"base-time-factor": "2"},
        {"seed": "1"},
        {"base-time": "2020-01-01"},
        {"bid.proportion": "45"},
        {"bid.hot-ratio.auctions": "3"},
        {"bid.hot-ratio.bidders": "3"},
        {"auction.hot-ratio.sellers": "3"},
        {"person.avg-size": "3kb"},
        {"auction.avg-size": "3kb"},
        {"bid.avg-size": "3kb"},
    ],
)
def test_other_events_are_another_table_to_a_checkpoint(options: Mapping[str, str]) -> None:
    """How many there are is not: a table may be made longer."""
    rows, other = rows_of(), rows_of(options)
    planner = GeneratedMetadataClient(other, other.maker([]))
    known = GeneratedMetadataClient(rows, rows.maker([])).list_splits().source_ids["nexmark"]
    found = planner.list_splits().source_ids["nexmark"]

    assert found != known
    assert "'seed'" in str(getattr(planner.changed("nexmark", known, found), "hint", ""))
    assert rows_of({"events.num": "7"}).meaning == rows.meaning
    assert rows_of({"base-time-factor": "1.000"}).meaning == rows.meaning


@pytest.mark.parametrize(
    ("options", "columns", "error", "words"),
    [
        ({"event.num": "1"}, COLUMNS, OptionError, "event.num"),
        ({"events.num": "-1"}, COLUMNS, OptionError, "no number of events"),
        ({"first-event.rate": "0"}, COLUMNS, OptionError, "at least 1"),
        ({"next-event.rate": "9"}, COLUMNS, OptionError, "another rate"),
        ({"bid.proportion": "-1"}, COLUMNS, OptionError, "no round"),
        ({"bid.hot-ratio.auctions": "0"}, COLUMNS, OptionError, "at least 1"),
        ({"bid.avg-size": "1 mb"}, COLUMNS, OptionError, "largest event"),
        ({"base-time": "yesterday"}, COLUMNS, OptionError, "a time from 1970 on"),
        ({"base-time": "1969-01-01"}, COLUMNS, OptionError, "a time from 1970 on"),
        ({"base-time-factor": "0"}, COLUMNS, OptionError, "a number above 0"),
        ({"base-time-factor": "-1"}, COLUMNS, OptionError, "a number above 0"),
        ({"base-time-factor": "1/3"}, COLUMNS, OptionError, "a number above 0"),
        ({"base-time-factor": "0.0001"}, COLUMNS, OptionError, "at most three decimals"),
        ({"base-time-factor": "1000001"}, COLUMNS, OptionError, "up to 1000000"),
        ({"rate.shape": "ROUND"}, COLUMNS, OptionError, "SQUARE"),
        (
            {"keep-alive": "true", "max-emit-speed": "false", "events.num": "3"},
            COLUMNS,
            OptionError,
            "takes no 'events.num'",
        ),
        ({}, {"bids": "INT"}, DefinitionError, "none that 'nexmark' generates"),
        ({}, {"event_type": "STRING"}, DefinitionError, "generates INT"),
        ({}, {"bid": "STRING"}, DefinitionError, "generates a ROW"),
        ({}, {"bid": "ROW<price BIGINT> NOT NULL"}, DefinitionError, "NOT NULL"),
        ({}, {"bid": "ROW<cost BIGINT>"}, DefinitionError, "'cost'"),
        ({}, {"bid": "ROW<price INT>"}, DefinitionError, "generates BIGINT"),
        ({}, {"bid": "ROW<`dateTime` TIMESTAMP(0)>"}, DefinitionError, "TIMESTAMP"),
    ],
)
def test_what_is_not_generated_is_refused(
    options: Mapping[str, str], columns: Mapping[str, str], error: type[InputError], words: str
) -> None:
    """At the definition, with the option or the column in the message."""
    with pytest.raises(error, match=words):
        NexmarkConnector(project=Path()).check(table_of(options, columns))


def test_the_table_of_the_published_suite_is_taken() -> None:
    """With VARCHAR where it has no length, and all options that its connector has."""
    columns = {name: kind.replace("STRING", "VARCHAR") for name, kind in COLUMNS.items()}
    options = {
        "first-event.rate": "10000000",
        "next-event.rate": "10000000",
        "events.num": "0",
        "rate.shape": "square",
        "rate.period": "600 s",
        "rate.limited": "false",
        "keep-alive": "false",
        "max-emit-speed": "true",
    }

    NexmarkConnector(project=Path()).check(table_of(options, columns))


def test_there_is_no_metadata_and_nothing_to_write() -> None:
    """Both are said by name."""
    table = table_of()
    column = MetadataColumn(name="offset", type=parse_type("BIGINT"))
    with_metadata = Table(
        identifier=table.identifier, schema=Schema(columns=(column,)), options=table.options
    )
    connector = NexmarkConnector(project=Path())

    with pytest.raises(DefinitionError, match="'offset'"):
        connector.check(with_metadata)
    with pytest.raises(UnsupportedError, match="takes none"):
        connector.sink(table)
