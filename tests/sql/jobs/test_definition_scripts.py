"""Definitions in whole files, checked without a JVM: what a file makes is there for what follows, and only on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputErrors
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.check.checkpoint_assignment import name_scripts_here
from penstock.sql.check.script_check import CheckedScript, check_scripts
from penstock.sql.execution.context import SessionContext
from penstock.sql.runner.summary import kind_of, subject_of
from penstock.sql.script.files import ScriptFile

KAFKA = (
    "WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1', "
    "'format' = 'json', 'scan.startup.mode' = 'earliest-offset')"
)
DELTA = "WITH ('connector' = 'delta', 'path' = '/tmp/t')"


def check(sql: str, namespace: Namespace, *, follows: bool = True) -> CheckedScript:
    """Check one file."""
    (checked,) = check_scripts(
        (ScriptFile(name="f.sql", text=sql),),
        SessionContext(namespace=namespace, project=Path("/nowhere")),
        variables={},
        env={},
        follows=follows,
    )
    return checked


def told(sql: str) -> list[tuple[str, str]]:
    """What is wrong with a file: the texts that errors point at, and their messages."""
    with pytest.raises(InputErrors) as caught:
        check(sql, Namespace(SqlCatalog("sqlite://")))
    places = []
    for error in caught.value.errors:
        assert error.span is not None
        start = error.span.column - 1
        places.append((error.span.line_text[start : start + error.span.length], error.message))
    return places


def test_all_errors_of_a_file_are_told_once() -> None:
    """A table that could not be defined is not reported again where it is used."""
    sql = (
        f"CREATE TABLE new (a BIGNIT) {DELTA};\nINSERT INTO new SELECT 1;\n"
        "SELECT x FROM nowhere;\nFOO;\nSELECT 'x"
    )

    assert [place for place, _ in told(sql)] == ["BIGNIT", "nowhere", "FOO", "'"]


def test_a_file_defines_on_paper_first() -> None:
    """Databases, tables made of queries, changes; the INSERTs inside are analysed, and have pipelines."""
    namespace = Namespace(SqlCatalog("sqlite://"))
    checked = check(
        f"CREATE DATABASE d; USE d; CREATE TABLE s (id INT) {KAFKA}; ALTER TABLE s ADD name STRING;"
        f"CREATE TABLE t {DELTA} AS SELECT id, name FROM s; ALTER TABLE t RENAME TO u;"
        f"CREATE OR REPLACE TABLE r {DELTA} AS SELECT 1 AS x; DROP DATABASE IF EXISTS e",
        namespace,
    )
    statements = [one.statement for one in checked.statements]

    assert [(kind_of(one), subject_of(one)) for one in statements] == [
        ("CREATE DATABASE", "d"),
        ("USE", "d"),
        ("CREATE TABLE", "default_catalog.d.s"),
        ("ALTER TABLE", "default_catalog.d.s"),
        ("CREATE TABLE AS", "default_catalog.d.t"),
        ("ALTER TABLE", "default_catalog.d.t"),
        ("REPLACE TABLE AS", "default_catalog.d.r"),
        ("DROP DATABASE", "e"),
    ]
    (named,) = name_scripts_here((checked,), Path("/nowhere"))
    assert [one.pipelines for one in named.statements if one.pipelines] == [("f/t",)]
    assert namespace.databases() == ["default_database"]


def test_the_connector_judges_what_is_altered() -> None:
    """At the option that it does not know."""
    made = f"CREATE TABLE t (id INT) {DELTA};"

    assert told(f"{made} ALTER TABLE t SET ('paht' = 'x')") == [
        ("'paht'", "table default_catalog.default_database.t: unsupported option 'paht'")
    ]
    assert told("CREATE TABLE t WITH ('connector' = 'dleta') AS SELECT 1 AS x")[0][0] == "'dleta'"


def test_a_replaced_table_takes_a_query_that_ends() -> None:
    """And a connector whose tables can be replaced."""
    stream = f"CREATE TABLE s (id INT) {KAFKA};"
    ((_, endless),) = told(f"{stream} CREATE OR REPLACE TABLE t {DELTA} AS SELECT id FROM s")
    ((_, fixed),) = told(f"CREATE OR REPLACE TABLE t {KAFKA} AS SELECT 1 AS id")

    assert endless.startswith("REPLACE TABLE ... AS needs a query that ends")
    assert "cannot be" in fixed


def test_what_a_broken_create_would_have_made_is_not_missed() -> None:
    """One mistake is one error."""
    places = told(f"CREATE OR REPLACE TABLE t {DELTA} AS SELECT nix FROM u; SELECT * FROM t")

    assert [message for _, message in places] == [
        "there is no table or view default_catalog.default_database.u"
    ]


def test_a_table_without_a_connector_may_have_misspelt_it() -> None:
    """The caret stands under the key that is near to it."""
    ((place, message),) = told("CREATE TABLE t (a INT) WITH ('conector' = 'blackhole')")

    assert place == "'conector'"
    assert "no 'connector'" in message


def test_a_table_that_cannot_be_read_so_is_named_where_it_is_read() -> None:
    """Its options are right for writing: nothing in its definition is wrong."""
    kafka = KAFKA.replace("earliest-offset", "group-offsets")
    found = told(
        f"CREATE TABLE t (a INT) {kafka};\nINSERT INTO t SELECT 1;\nINSERT INTO t SELECT a FROM t AS u"
    )

    assert [place for place, _ in found] == ["t AS u"]


def test_a_select_that_never_ends_is_right_in_a_file() -> None:
    """Where its caller shows rows as they come; others are told who does."""
    sql = "CREATE TABLE g (a INT) WITH ('connector' = 'datagen'); SELECT a, COUNT(*) FROM g GROUP BY a;"

    assert len(check(sql, Namespace(SqlCatalog("sqlite://"))).statements) == 2
    with pytest.raises(InputErrors, match="this query never ends"):
        check(sql, Namespace(SqlCatalog("sqlite://")), follows=False)
