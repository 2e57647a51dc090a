"""The paced benchmark: when events are due and out, what its producer writes, and what its page says."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from benchmarks.nexmark.answers import Answer
from benchmarks.nexmark.flink import newest_checkpoint_bytes
from benchmarks.nexmark.latency import MEASURES, Schedule, load_events, measure_latency
from benchmarks.nexmark.paced import Paced, as_json, earlier, figures, report
from benchmarks.nexmark.queries import read_paced, read_query
from benchmarks.nexmark.steady_events import Lane, closing_line, lanes
from benchmarks.nexmark.topic import PARTITIONS, lines, nexmark_rows, write_file
from tests.connector.nexmark.test_benchmark import check, statements

START_MS = 1_700_000_000_000
BASE_MS = 1_436_918_400_000
"""2015-07-15."""
SCHEDULE = Schedule(base_ms=BASE_MS, start_ms=START_MS, begin_ms=1_000, end_ms=100_000)


@pytest.fixture
def database() -> duckdb.DuckDBPyConnection:
    """The tables of recorded events, without any."""
    return load_events(nexmark_rows(1, 0, 1), 0)


def add_bids(database: duckdb.DuckDBPyConnection, *bids: tuple[int, int, int, int]) -> None:
    """Record bids: auction, bidder, price, and time after the base."""
    for number, (auction, bidder, price, after_ms) in enumerate(bids):
        database.execute(
            "INSERT INTO bids VALUES (?, ?, ?, ?, 'Apple', ?)",
            [number, auction, bidder, price, BASE_MS + after_ms],
        )


def latencies(
    database: duckdb.DuckDBPyConnection, query: str, *records: tuple[Mapping[str, object], int]
) -> tuple[list[float], int]:
    """The latencies by rows that came so many ms after the start, and the events that are missing."""
    given = [(None, json.dumps(row).encode(), START_MS + at_ms) for row, at_ms in records]
    found = measure_latency(database, MEASURES[query], [*given, (b"{}", None, START_MS)], SCHEDULE)
    return sorted(found.of.tolist()), found.missing


@pytest.mark.parametrize("name", MEASURES)
def test_a_measured_query_is_valid(name: str) -> None:
    """As it is, or with one more column."""
    paced, plain = read_paced(name), read_query(name)
    check(statements(paced.name, "answer"))

    assert paced.columns[: len(plain.columns)] == plain.columns
    assert len(paced.columns) == len(plain.columns) + (paced.name != name)
    assert (paced.key, paced.title) == (plain.key, plain.title)


def test_a_row_is_as_late_as_its_event_is_due(database: duckdb.DuckDBPyConnection) -> None:
    """However its time is written; rows of the warm-up and those behind the end do not count."""
    found = latencies(
        database,
        "q0",
        ({"dateTime": "2015-07-15 00:00:05.120"}, 5_420),
        ({"dateTime": "2015-07-15T00:00:06Z"}, 7_000),
        ({"dateTime": "2015-07-15 00:00:00.999"}, 90_000),
        ({"dateTime": "2015-07-15 00:01:40"}, 190_000),
    )

    assert found == ([300, 1_000], 0)


def test_a_join_is_of_its_later_event(database: duckdb.DuckDBPyConnection) -> None:
    """A bid may come before its auction."""
    early, late = "2015-07-15 00:00:02", "2015-07-15 00:00:03"
    found = latencies(
        database,
        "q20",
        ({"bid_dateTime": early, "auction_dateTime": late}, 3_010),
        ({"bid_dateTime": late, "auction_dateTime": early}, 3_020),
    )

    assert found == ([10, 20], 0)


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("q5", {"auction": 1, "num": 2, "endtime": "2015-07-15 00:00:20"}),
        ("q7", {"auction": 1, "dateTime": "2015-07-15 00:00:12.345"}),
        ("q8", {"id": 1, "starttime": "2015-07-15 00:00:10"}),
        ("q11", {"bidder": 1, "endtime": "2015-07-15 00:00:20"}),
    ],
)
def test_a_window_is_due_when_the_watermark_is_at_its_end(
    database: duckdb.DuckDBPyConnection, query: str, row: Mapping[str, object]
) -> None:
    """Four seconds after its end, which is at second 20."""
    assert latencies(database, query, (row, 24_700)) == ([700], 0)


def test_a_bid_is_out_with_a_later_one_of_its_key(database: duckdb.DuckDBPyConnection) -> None:
    """Also where an older row is written behind it; one of another key is not, and is missing."""
    add_bids(database, (7, 9, 1, 1_000), (7, 9, 1, 2_000), (7, 9, 1, 3_000), (8, 9, 1, 2_000))

    def row(second: int) -> Mapping[str, object]:
        return {"auction": 7, "bidder": 9, "dateTime": f"2015-07-15 00:00:0{second}"}

    found = latencies(database, "q18", (row(2), 2_500), (row(1), 2_600), (row(3), 9_000))

    assert found == ([500, 1_500, 6_000], 1)


def test_a_highest_bid_is_out_with_its_price_or_a_higher_one(
    database: duckdb.DuckDBPyConnection,
) -> None:
    """A bid below, one before the auction and one behind its end are in no row."""
    database.execute(f"INSERT INTO auctions VALUES (7, 10, {BASE_MS + 1_000}, {BASE_MS + 10_000})")
    add_bids(
        database,
        (7, 1, 99, 900),
        (7, 1, 5, 1_000),
        (7, 1, 3, 2_000),
        (7, 1, 8, 3_000),
        (7, 1, 9, 20_000),
    )

    assert latencies(database, "q9", ({"id": 7, "price": 8}, 3_700)) == ([700, 2_700], 0)


def test_first_bids_are_out_with_so_many_auctions(database: duckdb.DuckDBPyConnection) -> None:
    """Of each category; the second bid of an auction is not measured."""
    for auction, category in ((7, 10), (8, 10), (9, 11)):
        database.execute(
            f"INSERT INTO auctions VALUES ({auction}, {category}, {BASE_MS}, {BASE_MS + 50_000})"
        )
    add_bids(database, (7, 1, 5, 1_000), (7, 1, 6, 1_500), (8, 1, 5, 2_000), (9, 1, 5, 3_000))
    found = latencies(
        database,
        "q4",
        ({"category": 10, "final": 5, "auctions": 1}, 1_100),
        ({"category": 11, "final": 5, "auctions": 1}, 3_300),
        ({"category": 10, "final": 5, "auctions": 2}, 2_200),
    )

    assert found == ([100, 200, 300], 0)


def test_bids_are_out_with_so_many_of_their_channel(database: duckdb.DuckDBPyConnection) -> None:
    """A row that counts two more is that of both."""
    add_bids(database, (7, 1, 5, 1_000), (7, 1, 6, 1_500), (8, 1, 5, 2_000))

    def row(bids: int) -> Mapping[str, object]:
        return {"channel": "Apple", "day": "2015-07-15", "total_bids": bids}

    assert latencies(database, "q16", (row(1), 1_100), (row(3), 2_200)) == ([100, 200, 700], 0)


def test_the_recorded_events_are_measured() -> None:
    """The tables have what the topic has: each bid of the counted seconds is missing where nothing is out."""
    database = load_events(nexmark_rows(1_000, 0, 100), 1_000)
    found = measure_latency(database, MEASURES["q18"], [], SCHEDULE)

    assert found.missing == 920 - 92
    assert database.execute("SELECT count(*) FROM auctions").fetchall() == [(60,)]


def test_the_file_has_the_records_of_the_topic_in_order(tmp_path: Path) -> None:
    """Event by event: what is written into a partition is what a backlog has there."""
    rows = nexmark_rows(1_000, 0, 100)
    write_file(tmp_path / "events", rows, 1_000)
    found = (tmp_path / "events").read_bytes().splitlines()

    assert len(found) == 1_000
    for partition in range(PARTITIONS):
        assert found[partition::PARTITIONS] == list(lines(rows, 1_000, partition))


def test_all_but_the_first_partition_are_late_with_a_skew() -> None:
    """Each event is written once."""
    assert lanes(6, 3, 0) == [Lane(numbers=range(6), delay_s=0)]
    assert [(list(one.numbers), one.delay_s) for one in lanes(7, 3, 10)] == [
        ([0, 3, 6], 0),
        ([1, 2, 4, 5], 10),
    ]


def test_windows_are_closed_by_a_person_of_an_hour_later() -> None:
    """Of whatever kind the last event is; each time a second later."""
    rows = nexmark_rows(150, 0, 10)
    records = [line for partition in range(PARTITIONS) for line in lines(rows, 150, partition)]
    by_kind = {json.loads(line)["event_type"]: line for line in records}
    found = [json.loads(closing_line(line, 2)) for line in by_kind.values()]

    assert sorted(by_kind) == [0, 1, 2]
    assert {(one["event_type"], one["auction"], one["bid"]) for one in found} == {(0, None, None)}
    assert all(one["person"].keys() == json.loads(by_kind[0])["person"].keys() for one in found)
    assert closing_line(b'{"bid": {"dateTime": "2015-07-15 00:00:01.5"}, "person": null}', 2) == (
        closing_line(b'{"auction": {"dateTime": "2015-07-15 00:00:02.5"}}', 1).replace(
            b"1000000000000001", b"1000000000000002"
        )
    )
    bid = json.loads(closing_line(by_kind[0], 2, by_bids=True))
    other = json.loads(closing_line(by_kind[0], 3, by_bids=True))

    assert (bid["event_type"], bid["person"], bid["auction"]) == (2, None, None)
    assert bid["bid"].keys() == json.loads(by_kind[2])["bid"].keys()
    assert bid["bid"]["bidder"] == other["bid"]["bidder"]
    assert bid["bid"] != other["bid"]
    assert b"2015-07-15 01:00:03.500" in closing_line(
        b'{"bid": {"dateTime": "2015-07-15 00:00:01.5"}}', 2
    )


def test_the_state_is_the_newest_complete_checkpoint(tmp_path: Path) -> None:
    """One without metadata is being written, or deleted."""
    for number, names in ((9, ["_metadata", "a"]), (10, ["_metadata"]), (11, ["a"])):
        folder = tmp_path / "job" / f"chk-{number}"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes(b"x" * number)

    assert newest_checkpoint_bytes(tmp_path) == 10
    assert newest_checkpoint_bytes(tmp_path / "none") == 0


def chosen(results: Path, rate: int, skew: int = 0) -> argparse.Namespace:
    """Arguments of a run."""
    return argparse.Namespace(
        paced=rate,
        seconds=60,
        warm_up=20,
        skew=skew,
        seed=0,
        batch_rows=0,
        checkpoint_ms=0,
        flink_heap_mb=4096,
        results=results,
    )


EQUAL = Paced(
    answer=Answer(rows=5, digest=1 << 100, records=9),
    same=True,
    latency_ms=(500.0, 900.0, 1000.0, 1234.0),
    measured=4321,
    cpu_s=12.5,
    peak_bytes=3 << 20,
    state_bytes=1 << 19,
    batches=60,
    late=0,
)


def test_a_paced_run_goes_on_with_the_results_of_the_same_arguments(tmp_path: Path) -> None:
    """As a backlog does."""
    found = {("q4", "penstock"): EQUAL, ("q4", "flink"): Paced(lost="no memory")}
    (tmp_path / "nexmark_paced.json").write_text(as_json(found, chosen(tmp_path, 9)))

    assert earlier(chosen(tmp_path, 9)) == found
    with pytest.raises(SystemExit, match="other arguments"):
        earlier(chosen(tmp_path, 10))


def test_only_an_equal_answer_has_figures() -> None:
    """An engine that says nothing of late rows has lost none where its answer is complete."""
    other = Paced(answer=Answer(rows=7, digest=1, records=9), latency_ms=(), cpu_s=12.5, late=3)
    silent = Paced(answer=EQUAL.answer, same=True, cpu_s=1.0)

    assert figures(EQUAL) == [
        "equal",
        *("500", "900", "1,000", "1,234", "4,321"),
        *("12.50", "3", "0.5", "0"),
    ]
    assert figures(other) == ["7 other rows", *[""] * 8, "3"]
    assert figures(silent)[-1] == "0"
    assert figures(Paced(lost="gone")) == ["failed", *[""] * 9]


def test_the_page_has_each_engine_and_what_was_measured(tmp_path: Path) -> None:
    """And what failed, or was late."""
    found = {
        ("q4", "flink"): Paced(lost="no memory\nat all", answer=None),
        ("q4", "penstock"): EQUAL,
        ("q0", "penstock"): Paced(answer=EQUAL.answer, same=True, missing=2, behind_ms=700),
    }
    text = report(found, ["flink", "penstock"], chosen(tmp_path, 9_000, skew=10))

    assert "9,000 events a second" in text
    assert "One partition is 10 s ahead" in text
    assert text.index("| q0: pass bids on | Penstock | equal") < text.index("| q4: ")
    assert "| q4: average highest bid of each category | Flink SQL | failed |" in text
    assert "|  | Penstock | equal | 500 | 900 | 1,000 | 1,234 | 4,321 |" in text
    assert f"- q4: {MEASURES['q4'].what}" in text
    assert "- q4, Flink SQL: no memory\n" in text
    assert "- q0, Penstock: 2 events were never seen in the result" in text
    assert "- q0, Penstock: the producer was 700 ms late" in text
