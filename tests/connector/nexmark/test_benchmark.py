"""The benchmark's queries are valid, its topic has every event once, and its answers tell other results apart."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks.nexmark.__main__ import Measured, Turn, as_json, earlier, of_queries
from benchmarks.nexmark.answers import Answer, Record, answer_of
from benchmarks.nexmark.orders import Order, insert, result_table
from benchmarks.nexmark.queries import Query, query_names, read_query, read_tables
from benchmarks.nexmark.topic import PARTITIONS, lines, nexmark_rows
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.check.script_check import check_scripts
from penstock.sql.execution.context import SessionContext
from penstock.sql.script.files import ScriptFile

OPTIONS = (
    "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1', 'format' = 'json', "
    "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"
)
ROOT = Path(__file__).resolve().parents[3]


def check(text: str) -> None:
    """Check a file without a JVM."""
    check_scripts(
        (ScriptFile(name="f.sql", text=text),),
        SessionContext(namespace=Namespace(SqlCatalog("sqlite://")), project=Path("/nowhere")),
        variables={},
        env={},
    )


def statements(name: str, topic: str) -> str:
    """A file that runs a query into a topic, or nowhere."""
    query, order = read_query(name), Order(query=name, name="result", topic=topic)
    events, views = read_tables()
    table = result_table(order, query, "localhost:1")
    return ";\n".join([events.replace("{options}", OPTIONS), *views, table, insert(order, query)])


def test_the_queries_are_the_twenty_with_one_answer() -> None:
    """Not among them: q6, which Flink does not run, q10, which writes files, q12 and q13, which go by the clock."""
    numbers = {0, 1, 2, 3, 4, 5, 7, 8, 9, 11, *range(14, 24)}

    assert query_names() == [f"q{number}" for number in sorted(numbers)]


@pytest.mark.parametrize("name", query_names())
@pytest.mark.parametrize("topic", ["", "answer"], ids=["nowhere", "topic"])
def test_a_query_is_valid_as_its_file_has_it(name: str, topic: str) -> None:
    """Its result has the columns and the key of its header, into a topic and nowhere."""
    check(statements(name, topic))


def test_the_example_is_valid() -> None:
    """A file over generated events, as `penstock run` takes it."""
    check((ROOT / "examples" / "nexmark.sql").read_text(encoding="utf-8"))


def test_the_topic_has_every_event_once() -> None:
    """Partition by partition in their order, of both kinds of the columns that they are not NULL."""
    rows = nexmark_rows(1_000, 0)
    found = [json.loads(line) for part in range(PARTITIONS) for line in lines(rows, 1_000, part)]
    kinds = ["person", "auction", "bid"]
    times = [event[kinds[event["event_type"]]]["dateTime"] for event in found]

    assert len(found) == 1_000
    assert len({json.dumps(event) for event in found}) == 1_000
    assert all(
        [event[kind] is not None for kind in kinds] == [n == event["event_type"] for n in range(3)]
        for event in found
    )
    assert times[:250] == sorted(times[:250])
    assert times[-1].startswith("2015-07-15 00:01:39")


def appended() -> Query:
    """A query whose rows are only appended."""
    return read_query("q14")


def test_an_appended_result_is_a_bag() -> None:
    """In any order; digits and the way of writing times do not count, a row that is there twice does."""
    one = b'{"auction":1,"price":908.000,"dateTime":"2015-07-15 00:00:00","c_counts":2}'
    same = b'{"c_counts":2,"auction":1,"price":908,"dateTime":"2015-07-15T00:00:00.000Z"}'
    other = b'{"auction":1,"price":908.001,"dateTime":"2015-07-15 00:00:00","c_counts":2}'

    def answer(*values: bytes) -> tuple[int, int]:
        found = answer_of(iter([(None, value) for value in values]), appended())
        return found.rows, found.digest

    assert answer(one, other) == answer(other, same)
    assert answer(one) != answer(other)
    assert answer(one, one) != answer(one)
    assert answer(one, one) != answer(other, other)


def test_a_result_with_a_key_is_its_last_rows() -> None:
    """However many changes there were; a deleted key is none, and ties may be broken in any way."""
    query = read_query("q18")

    def row(bidder: int, time: str, price: int = 1) -> Record:
        key = json.dumps({"auction": 1, "bidder": bidder}).encode()
        value = {"auction": 1, "bidder": bidder, "dateTime": f"2015-07-15 00:00:{time}"}
        return key, json.dumps({**value, "price": price}).encode()

    def deleted(bidder: int) -> Record:
        return json.dumps({"bidder": bidder, "auction": 1}).encode(), None

    first = answer_of(iter([row(1, "01"), row(1, "02"), row(2, "03")]), query)
    second = answer_of(iter([row(3, "09"), row(2, "03", 7), deleted(3), row(1, "02")]), query)

    assert first.same(second)
    assert (first.records, second.records) == (3, 4)
    assert not first.same(answer_of(iter([row(1, "01"), row(2, "03")]), query))
    assert not first.same(answer_of(iter([row(1, "02")]), query))


def chosen(results: Path, events: int) -> argparse.Namespace:
    """Arguments of a run."""
    return argparse.Namespace(events=events, seed=0, results=results, queries="q4,q0", resume=True)


def test_a_run_goes_on_with_the_results_of_the_same_arguments(tmp_path: Path) -> None:
    """A run that was ended early; a lost engine stays lost, and queries come in their order."""
    turn = Turn(seconds=1.5, cpu_s=2.0, peak_bytes=3, state_bytes=4, rows_in=5, batches=6, late=7)
    measured = {
        ("q4", "penstock"): Measured(
            answer=Answer(rows=1, digest=1 << 100, records=2), turns=[turn]
        ),
        ("q4", "flink"): Measured(lost="no memory"),
        ("q0", "flink"): Measured(),
    }
    (tmp_path / "nexmark.json").write_text(as_json(measured, chosen(tmp_path, 9)))

    assert earlier(chosen(tmp_path, 9)) == measured
    assert [query.name for query in of_queries(measured)] == ["q0", "q4"]
    with pytest.raises(SystemExit, match="other arguments"):
        earlier(chosen(tmp_path, 10))
