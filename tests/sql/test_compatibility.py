"""Every row of the compatibility tables does what it says, and docs/flink-compatibility.md is made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, InputErrors, UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.compatibility import Kind, Row, Status
from penstock.sql.compatibility.page import PAGE, ROWS, write_page
from penstock.sql.compatibility.queries import BOUNDED
from penstock.sql.compatibility.tables import TABLES
from penstock.sql.ddl.apply_ddl import check_connector
from penstock.sql.dialect import Flink
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.analyzer import Analyzer
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, parse_script

ROOT = Path(__file__).resolve().parents[2]
ANYWHERE = SinkTable(name="anywhere", accepts=ChangelogMode.ALL, columns=())
each_kind = pytest.mark.parametrize("kind", sorted({row.kind for row in ROWS}))


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
    script = f"{row.setup}\n{statement(row)}"
    for one in parse_script(script, "row.sql", namespace()):
        if row.kind == Kind.FORMAT:
            check_connector(one, ROOT)
        if isinstance(one, InsertInto) and one.conflict is not None:
            Analyzer(namespace=namespace(), project=ROOT).analyse_insert(one)
        if isinstance(one, Select):
            bounded = row.note.startswith(BOUNDED)
            analyse(one.query, namespace(), ROOT, appends=not bounded, sink=ANYWHERE)


def rewritten(row: Row) -> str:
    """What is wrong with an example that is parsed, written and parsed again; nothing where it is the same."""
    tree = sqlglot.parse_one(statement(row), read=Flink)
    if isinstance(tree, exp.Command):
        return "not parsed"
    again = tree.sql(Flink)
    return "" if sqlglot.parse_one(again, read=Flink) == tree else f"written as {again}"


def judged(row: Row) -> str:
    """What is wrong with the answer to an example; nothing where it is what its row says."""
    try:
        check(row)
    except InputError as caught:
        error = caught.errors[0] if isinstance(caught, InputErrors) else caught
        said = f"{error.message}; {error.hint}"
        refused = row.status == Status.REFUSE and isinstance(error, UnsupportedError)
        return "" if refused and error.span is not None and row.note in said else f"{error!r}"
    return "accepted" if row.status == Status.REFUSE else ""


def wrong(kind: Kind, look: Callable[[Row], str]) -> dict[str, str]:
    """What a look at the rows of a kind finds, by their names."""
    found: dict[str, str] = {}
    for row in ROWS:
        if row.kind != kind:
            continue
        try:
            said = look(row)
        except Exception as error:  # noqa: BLE001  the other rows are looked at all the same
            said = repr(error)
        if said:
            found[row.name] = said
    return found


@each_kind
def test_examples_are_read_and_written_again_as_the_same(kind: Kind) -> None:
    """Parse, write, parse: the same tree, for what is refused too, as it is Flink's."""
    assert wrong(kind, rewritten) == {}


@each_kind
def test_examples_are_accepted_or_refused_as_their_rows_say(kind: Kind) -> None:
    """What is refused is so before anything starts, at its place, in the words of the note."""
    assert wrong(kind, judged) == {}


def test_no_form_has_two_rows() -> None:
    """A name stands once in its section of the page."""
    names = [(row.kind, row.name) for row in ROWS]

    assert len(set(names)) == len(names)


def test_the_page_is_made_of_the_rows() -> None:
    """`python -m penstock.sql.compatibility` was run after the last change."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == write_page(ROWS)
