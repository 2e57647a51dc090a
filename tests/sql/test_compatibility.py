"""Every row of the compatibility tables does what it says, and docs/flink-compatibility.md is made of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from penstock.catalog.errors import InputError, InputErrors, UnsupportedError
from penstock.catalog.names import Namespace
from penstock.connector.changelog import ChangelogMode
from penstock.sql.compatibility import Kind, Row, Status
from penstock.sql.compatibility.page import PAGE, write_page
from penstock.sql.compatibility.queries import BOUNDED
from penstock.sql.compatibility.rows import ROWS
from penstock.sql.compatibility.tables import TABLES
from penstock.sql.dialect import Flink
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.analyzer import Analyzer
from penstock.sql.plan.sink_changes import SinkTable
from penstock.sql.run.connector_check import check_connector
from penstock.sql.statements import InsertInto, Select
from tests.sql.sql_objects import new_namespace, parse_script

ROOT = Path(__file__).resolve().parents[2]
ANYWHERE = SinkTable(name="anywhere", accepts=ChangelogMode.ALL, columns=())
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}-{row.name}")


@cache
def namespace() -> Namespace:
    """The tables that examples are over; whoever defines more takes an overlay."""
    return new_namespace(TABLES)


def statement(row: Row) -> str:
    """The example as a statement that says something by itself."""
    match row.kind:
        case Kind.STATEMENT | Kind.QUERY | Kind.HINT | Kind.FORMAT:
            return row.example
        case Kind.EXPRESSION | Kind.FUNCTION:
            return f"SELECT {row.example} AS v"
        case Kind.TYPE:
            return f"CREATE TABLE declared (c {row.example}) WITH ('connector' = 'blackhole')"


def check(row: Row) -> None:
    """Take an example through all that is checked before anything runs. Raises InputError."""
    script = f"{row.given}\n{statement(row)}"
    for one in parse_script(script, "row.sql", namespace()):
        if row.kind == Kind.FORMAT:
            check_connector(one, ROOT)
        if isinstance(one, InsertInto) and one.conflict is not None:
            Analyzer(namespace=namespace(), project=ROOT).analyse_insert(one)
        if isinstance(one, Select):
            bounded = row.note.startswith(BOUNDED)
            analyse(one.query, namespace(), ROOT, appends=not bounded, sink=ANYWHERE)


@each_row
def test_an_example_is_read_and_written_again_as_the_same(row: Row) -> None:
    """Parse, write, parse: the same tree, for what is refused too, as it is Flink's."""
    sql = statement(row)
    tree = sqlglot.parse_one(sql, read=Flink)

    assert not isinstance(tree, exp.Command)
    assert sqlglot.parse_one(tree.sql(Flink), read=Flink) == tree


@each_row
def test_an_example_is_accepted_or_refused_as_its_row_says(row: Row) -> None:
    """What is refused is so before anything starts, at its place, in the words of the note."""
    if row.status != Status.REFUSE:
        check(row)
        return
    with pytest.raises(InputError) as caught:
        check(row)
    error = caught.value.errors[0] if isinstance(caught.value, InputErrors) else caught.value

    assert isinstance(error, UnsupportedError)
    assert error.span is not None
    assert row.note in f"{error.message}; {error.hint}"


def test_no_form_has_two_rows() -> None:
    """A name stands once in its section of the page."""
    names = [(row.kind, row.name) for row in ROWS]

    assert len(set(names)) == len(names)


def test_the_page_is_made_of_the_rows() -> None:
    """`python -m penstock.sql.compatibility` was run after the last change."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == write_page(ROWS)
