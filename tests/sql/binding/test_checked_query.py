"""What is kept of a view's check: as long as what the view reads is as it was."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnknownObjectError
from penstock.sql.convert.statement import parse_statement
from penstock.sql.dialect import to_text
from penstock.sql.plan.rules.inline import find_relations
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, run

TABLES = """
CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'print');
CREATE VIEW v AS SELECT a, b FROM t;
CREATE VIEW w AS SELECT * FROM v WHERE a > 1;
"""


def output_of(query: str, namespace: object) -> tuple[str, ...] | None:
    """The columns of a query, checked now."""
    (text,) = split(query, "f.sql")
    found = parse_statement(text, namespace)  # type: ignore[arg-type]
    assert isinstance(found, Select)
    return found.output


def test_a_view_is_checked_again_when_a_view_below_it_has_changed() -> None:
    """Another definition two levels down: its columns are those of now, and an old one is there no more."""
    namespace = new_namespace(TABLES)
    before = output_of("SELECT * FROM w", namespace)
    run("ALTER VIEW v AS SELECT a, UPPER(b) AS c FROM t", namespace)

    assert before == ("a", "b")
    assert output_of("SELECT * FROM w", namespace) == ("a", "c")
    with pytest.raises(UnknownObjectError, match="has no column 'b'"):
        output_of("SELECT w.b FROM w", namespace)


def test_what_is_made_of_a_view_does_not_change_what_is_kept() -> None:
    """Each use gets a copy of its own; the second is as the first."""
    namespace = new_namespace(TABLES)
    (text,) = split("SELECT a FROM v", "f.sql")
    statement = parse_statement(text, namespace)
    assert isinstance(statement, Select)
    first = find_relations(statement.query, namespace).query
    written = to_text(first)
    for node in list(first.walk()):
        node.args.clear()

    assert to_text(find_relations(statement.query, namespace).query) == written
