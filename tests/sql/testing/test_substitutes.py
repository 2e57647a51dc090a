"""The tables of a case are doubles that touch nothing outside its folder; what the files define is what they are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table, View
from penstock.sql.check.script_check import check_scripts
from penstock.sql.dialect import to_text
from penstock.sql.dialect.flink.trees import parse_query
from penstock.sql.execution.context import SessionContext
from penstock.sql.script.files import ScriptFile
from penstock.sql.testing.loader import read_test_file
from penstock.sql.testing.sources import NamedTables, name_tables
from penstock.sql.testing.substitutes import TableSubstitutes, read_clock
from tests.sql.sql_objects import new_namespace

KAFKA = (
    "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', "
    "'scan.startup.mode' = 'earliest-offset', 'format' = 'json'"
)
FILES = f"""
CREATE TABLE orders (id BIGINT) WITH ({KAFKA}, 'bad-records' = 'dead-letter', 'dead-letter.topic' = 'x');
CREATE TABLE copied (id BIGINT) WITH ('connector' = 'delta', 'path' = '/far/away');
CREATE TABLE counted (n BIGINT) WITH ('connector' = 'delta', 'path' = '/far/away/too');
CREATE VIEW v AS SELECT id, NOW() AS t FROM orders;
INSERT INTO copied SELECT id FROM orders;
INSERT INTO counted SELECT id FROM copied
"""


def named(tmp_path: Path, sql: str, case: str, *, lenient: bool = False) -> NamedTables:
    """What a case names, over the files' definitions."""
    (tmp_path / "p.sql").write_text(sql)
    path = tmp_path / "a_test.yaml"
    path.write_text(f"files: p.sql\ncases:\n  - {{name: n, {case}}}\n")
    (read,) = read_test_file(path).cases
    return name_tables(read, checked(sql), new_namespace(), lenient=lenient)


def checked(sql: str) -> Any:
    """The checked statements of a file."""
    return check_scripts(
        (ScriptFile(name="p.sql", text=sql),),
        SessionContext(namespace=new_namespace(), project=Path()),
        variables={},
        env={},
    )


def doubles(folder: Path, **more: Any) -> TableSubstitutes:
    """The doubles of a case."""
    settings: dict[str, Any] = {
        "ends": False,
        "goes_idle": False,
        "changes": (),
        "shared": (),
        "keeps_letters": False,
        "clock": None,
    }
    return TableSubstitutes(folder=folder, run="1", **(settings | more))


def table(namespace: Namespace, name: str) -> Table:
    """A table of a namespace."""
    found = namespace.lookup(namespace.resolve([name]))
    assert isinstance(found, Table)
    return found


def identifier(name: str) -> Identifier:
    """The full name of a table."""
    return new_namespace().resolve([name])


def test_every_table_is_a_fixture_but_those_between_statements(tmp_path: Path) -> None:
    """Delta tables that others read are Delta, in the case's folder."""
    real = new_namespace(FILES)
    staged = doubles(tmp_path, shared={identifier("copied")}).stage(real)
    copied = table(staged, "copied")

    assert table(staged, "orders").connector == "fixture"
    assert table(staged, "counted").connector == "fixture"
    assert copied.connector == "delta"
    assert copied.option_map["path"].startswith(str(tmp_path))
    assert table(real, "orders").connector == "kafka"


def test_tables_whose_changes_are_looked_at_are_captured_and_written(tmp_path: Path) -> None:
    """Where somebody reads them."""
    shared = {identifier("copied")}
    double = doubles(tmp_path, shared=shared, changes=shared).of(
        table(new_namespace(FILES), "copied")
    )

    assert double.connector == "fixture"
    assert double.option_map["fixture.writes"] == "true"


def test_dead_letters_stay_beside_the_checkpoint(tmp_path: Path) -> None:
    """Or are only counted, where the case does not look at them: keeping them costs a table."""
    orders = table(new_namespace(FILES), "orders")
    kept = doubles(tmp_path, keeps_letters=True).of(orders).option_map
    counted = doubles(tmp_path).of(orders).option_map

    assert kept["bad-records"] == "dead-letter"
    assert "dead-letter.topic" not in kept
    assert counted["bad-records"] == "skip"


def test_what_is_given_and_expected_is_found_in_the_files(tmp_path: Path) -> None:
    """Tables between statements are shared, and what is written is known."""
    found = named(tmp_path, FILES, "given: {orders: []}, then: {counted: []}")

    assert sorted(found.tables) == ["counted", "orders"]
    assert found.written == ("copied", "counted")
    assert found.shared == {identifier("copied")}


def test_a_case_that_expects_nothing_is_asked_for_all_that_is_written(tmp_path: Path) -> None:
    """So that --update can write it."""
    assert sorted(named(tmp_path, FILES, "given: {}", lenient=True).tables) == ["copied", "counted"]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("given: {oders: []}", "no table.*oders"),
        ("then: {v: []}", "v is a view"),
    ],
)
def test_a_name_that_is_not_there_is_told_with_its_place(
    tmp_path: Path, case: str, words: str
) -> None:
    """In the test file."""
    with pytest.raises(ConfigError, match=words) as raised:
        named(tmp_path, FILES, case)

    assert raised.value.span is not None
    assert raised.value.span.line == 3


def test_a_topic_between_two_statements_needs_rows(tmp_path: Path) -> None:
    """A test has no broker that would hand them on."""
    sql = f"""
    CREATE TABLE a (id BIGINT) WITH ({KAFKA});
    CREATE TABLE b (id BIGINT) WITH ({KAFKA});
    CREATE TABLE c (id BIGINT) WITH ('connector' = 'print');
    INSERT INTO b SELECT id FROM a;
    INSERT INTO c SELECT id FROM b
    """
    with pytest.raises(ConfigError, match="b is written by one statement and read by another"):
        named(tmp_path, sql, "given: {a: []}")

    assert "b" in named(tmp_path, sql, "given: {a: [], b: []}").tables


def test_the_clock_stands_still_in_queries_and_views(tmp_path: Path) -> None:
    """Every function that asks for the time gives `now`."""
    clock = read_clock("2024-01-31 12:30:00")
    query = parse_query(
        "SELECT NOW(), CURRENT_DATE, LOCALTIMESTAMP, UNIX_TIMESTAMP(), UNIX_TIMESTAMP(s), CURRENT_TIMESTAMP FROM t"
    )
    text = to_text(clock.fixed(query))
    staged = doubles(tmp_path, clock=clock).stage(new_namespace(FILES))
    view = staged.lookup(staged.resolve(["v"]))

    assert text.count("CAST('2024-01-31 12:30:00' AS TIMESTAMP_LTZ(3))") == 2
    assert "CAST('2024-01-31' AS DATE)" in text
    assert "CAST('2024-01-31 12:30:00' AS TIMESTAMP(3))" in text
    assert "UNIX_TIMESTAMP('2024-01-31 12:30:00'), UNIX_TIMESTAMP(s)" in text
    assert isinstance(view, View)
    assert "2024-01-31" in view.query
    assert query.find(exp.CurrentTimestamp) is not None


def test_an_order_of_arrival_is_left_to_the_clock() -> None:
    """ROW_NUMBER by PROCTIME() means the order in which rows came."""
    query = parse_query("SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY PROCTIME()) FROM t")

    assert "PROCTIME()" in to_text(read_clock("2024-01-31 00:00:00").fixed(query))


def test_a_clock_that_is_none_is_a_mistake() -> None:
    """It is written as SQL does."""
    with pytest.raises(ConfigError, match="`now`"):
        read_clock("noon")
