"""Golden files: each `cases/<topic>/*.sql` is a script and, below a line of dashes, what becomes of it.

    -- what the case is about
    SELECT ...;
    -- ----- expected
    -- SELECT ... (Spark SQL of queries, SHOW CREATE of definitions, or the errors as a person sees them)

`UPDATE_CASES=1 pytest tests/sql/test_cases.py` writes the expectations anew; review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.catalog.errors import InputError
from penstock.sql.ddl.show_create import show_create
from penstock.sql.dialect import to_spark_query, window_tables
from penstock.sql.errors.render import render
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import CreateTable, CreateView, Select
from tests.sql.sql_objects import TABLES, new_namespace, parse_script

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(
    path for path in FOLDER.rglob("*.sql") if path.relative_to(FOLDER).parts[0] != "plan"
)  # those of `plan` are test_plan_cases.py's
LINE = "-- ----- expected"


def outcome(sql: str) -> str:
    """What a person gets for a script."""
    namespace = new_namespace(TABLES)
    try:
        statements = parse_script(sql, "case.sql", namespace)
    except InputError as error:
        return render(error)
    texts = []
    for statement in statements:
        match statement:
            case CreateTable(table=table):
                texts.append(show_create(table))
            case CreateView(view=view):
                texts.append(show_create(view))
            case Select(query=query) | InsertInto(query=query):
                windows = window_tables(query)
                for number, window in enumerate(windows):
                    window.node.replace(type(window.node)(this=f"window_{number}"))
                texts.append(to_spark_query(query))
    return "\n".join(texts)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_script_comes_to_what_its_file_says(path: Path) -> None:
    """See the top of this file."""
    sql, _, expected = path.read_text(encoding="utf-8").partition(f"\n{LINE}\n")
    actual = "\n".join(f"-- {line}".rstrip() for line in outcome(sql).split("\n"))
    if os.environ.get("UPDATE_CASES"):
        path.write_text(f"{sql.rstrip()}\n{LINE}\n{actual}\n", encoding="utf-8")
        return

    assert sql.startswith("-- "), "a case says what it is about"
    assert actual == expected.rstrip("\n")
