"""A file is run again against a catalog that remembers: the same definitions are the same tables, others are told."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputErrors
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.check.script_check import CheckedScript, check_scripts
from penstock.sql.ddl.apply_ddl import is_definition
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import define
from penstock.sql.script.files import ScriptFile

README = Path(__file__).parents[3] / "README.md"
DELTA = "WITH ('connector' = 'delta', 'path' = 't')"
KAFKA = (
    "WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1', "
    "'format' = 'json', 'scan.startup.mode' = 'earliest-offset'{more})"
)
ORDERS = f"CREATE TABLE orders (id BIGINT, amount DOUBLE) {KAFKA}"


def readme_file() -> str:
    """The ten lines of README that a person puts into `clicks.sql`."""
    text = README.read_text(encoding="utf-8").partition("## A table of your own\n")[2]
    return text.partition("\nPut it into")[0]


class Folder:
    """A project's catalog, which stays while sessions come and go."""

    def __init__(self) -> None:
        self.catalog = SqlCatalog("sqlite://")

    def check(self, sql: str, **settings: str) -> CheckedScript:
        """Check a file in a new session."""
        (checked,) = check_scripts(
            (ScriptFile(name="f.sql", text=sql),),
            SessionContext(
                namespace=Namespace(self.catalog), project=Path("/nowhere"), settings=settings
            ),
            variables={},
            env={},
        )
        return checked

    def run(self, sql: str, *, statements: int | None = None) -> CheckedScript:
        """Check a file, then run its definitions, as many as there are or the first ones."""
        namespace = Namespace(self.catalog)
        checked = self.check(sql)
        for one in checked.statements[:statements]:
            if is_definition(one.statement):
                define(one.statement, namespace)
        return checked

    def errors(self, sql: str) -> list[tuple[str, str | None]]:
        """Messages and hints of what is wrong with a file."""
        with pytest.raises(InputErrors) as caught:
            self.check(sql)
        return [(error.message, error.hint) for error in caught.value.errors]


@pytest.fixture
def folder() -> Folder:
    return Folder()


@pytest.mark.parametrize("statements", [1, 2, 3])
def test_the_readme_file_starts_again_after_any_statement(folder: Folder, statements: int) -> None:
    """A first run may have ended, or failed behind any of its statements."""
    folder.run(readme_file(), statements=statements)
    again = folder.run(readme_file())

    assert [len(again.statements), again.warnings] == [3, ()]
    assert [str(t.name) for t in folder.catalog.tables()] == ["clicks", "per_minute"]
    assert [c.version for c in folder.catalog.history()] == [1, 1]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (id INT) " + DELTA,
        "CREATE TABLE s (id INT) " + DELTA + "; CREATE VIEW v AS SELECT id FROM s",
        "CREATE FUNCTION f AS 'json.loads' LANGUAGE PYTHON",
        "CREATE DATABASE d COMMENT 'x' WITH ('a' = 'b')",
        "CREATE CATALOG c WITH ('type' = 'penstock')",
        f"CREATE TABLE s (id INT) {KAFKA.format(more='')}; CREATE TABLE t {DELTA} AS SELECT id FROM s",
    ],
)
def test_a_definition_that_is_there_is_that_definition(folder: Folder, sql: str) -> None:
    """Of tables, views, functions, databases, catalogs, and of tables that a query without an end fills."""
    first = folder.run(sql)
    again = folder.run(sql)

    assert [one.statement for one in again.statements] == [
        one.statement for one in first.statements
    ]
    assert again.warnings == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(id INT, name STRING)", "( id INTEGER , name VARCHAR(2147483647) )"),
        ("(id INT, twice AS id*2)", "(id INT, twice AS id * 2)"),
        ("(id INT NOT NULL, PRIMARY KEY (id) NOT ENFORCED)", "(id INT PRIMARY KEY NOT ENFORCED)"),
    ],
)
def test_the_text_of_a_definition_is_not_its_meaning(
    folder: Folder, before: str, after: str
) -> None:
    """Spellings of types, layout, and names of constraints."""
    folder.run(f"CREATE TABLE t {before} {DELTA}")

    assert folder.run(f"CREATE TABLE t {after} {DELTA}").warnings == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (", 'bad-records' = 'fail'", ""),
        (", 'scan.watermark.idle-timeout' = '60 s'", ", 'scan.watermark.idle-timeout' = '1 min'"),
    ],
)
def test_options_are_compared_by_their_values(folder: Folder, before: str, after: str) -> None:
    """Units of a duration, and a default that is written out."""
    folder.run(f"CREATE TABLE t (id INT) {KAFKA.format(more=before)}")

    assert folder.run(f"CREATE TABLE t (id INT) {KAFKA.format(more=after)}").warnings == ()


def test_another_definition_is_refused_with_what_differs_and_what_to_type(folder: Folder) -> None:
    """A plain CREATE TABLE."""
    folder.run(ORDERS.format(more=""))
    changed = ORDERS.format(more=", 'bad-records' = 'skip'").replace("DOUBLE", "INT, coupon STRING")
    ((message, hint),) = folder.errors(changed)

    assert message == (
        "there is a table default_catalog.default_database.orders already, with another definition; here it has: "
        "columns +coupon, amount INT (not DOUBLE), option +'bad-records' = 'skip'"
    )
    assert hint is not None
    assert "penstock catalog apply FILE" in hint
    assert "ALTER TABLE orders" in hint
    assert "DROP TABLE orders" in hint


def test_a_definition_that_is_not_used_is_warned_of(folder: Folder) -> None:
    """CREATE TABLE IF NOT EXISTS takes the catalog's; so does CREATE VIEW IF NOT EXISTS."""
    folder.run(ORDERS.format(more=""))
    sql = ORDERS.replace("TABLE", "TABLE IF NOT EXISTS").replace("DOUBLE", "DOUBLE, coupon STRING")
    (warning,) = folder.check(sql.format(more="")).warnings

    assert warning.message.startswith("orders is in the catalog with another definition since 20")
    assert warning.message.endswith("UTC, which is used; here it has: column +coupon")
    assert warning.span is not None


def test_an_error_that_comes_of_another_definition_says_so(folder: Folder) -> None:
    """A column that only the file's definition has."""
    folder.run(ORDERS.format(more="") + f"; CREATE TABLE sink (c STRING) {DELTA}")
    sql = ORDERS.replace("TABLE", "TABLE IF NOT EXISTS").replace("DOUBLE", "DOUBLE, coupon STRING")
    ((message, hint),) = folder.errors(
        sql.format(more="") + "; INSERT INTO sink SELECT coupon FROM orders"
    )

    assert message == "there is no column 'coupon'"
    assert hint is not None
    assert hint.startswith("the catalog has another definition of orders than this file")


def test_comments_alone_stop_nothing(folder: Folder) -> None:
    """They are told, as the catalog's stay."""
    folder.run(f"CREATE TABLE t (id INT COMMENT 'a') COMMENT 'b' {DELTA}")
    (warning,) = folder.run(f"CREATE TABLE t (id INT COMMENT 'c') COMMENT 'd' {DELTA}").warnings

    assert warning.message.endswith("here it has: the table's comment, the comment of id")


def test_a_table_that_an_ending_query_fills_is_not_filled_again(folder: Folder) -> None:
    """Its rows would be there twice."""
    sql = f"CREATE TABLE t {DELTA} AS SELECT 1 AS x"
    folder.run(sql)
    ((message, hint),) = folder.errors(sql)

    assert message.endswith("already, and its query ends: it would write its rows again")
    assert hint is not None
    assert hint.startswith("CREATE OR REPLACE TABLE t AS")


def test_secret_values_do_not_show_in_what_differs(folder: Folder) -> None:
    """An option of a password is named without its value."""
    sql = "CREATE TABLE t (id INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:x.db', 'table-name' = 't', 'username' = 'u', 'password' = '{0}')"
    folder.run(sql.format("kept-one"))
    ((message, _),) = folder.errors(sql.format("other-one"))

    assert message.endswith("here it has: option 'password'")


def test_what_is_no_table_keeps_the_name(folder: Folder) -> None:
    """A view is no table, whatever it selects."""
    folder.run(f"CREATE TABLE s (id INT) {DELTA}; CREATE VIEW v AS SELECT id FROM s")
    ((message, _),) = folder.errors(f"CREATE TABLE v (id INT) {DELTA}")

    assert message == "there is a view default_catalog.default_database.v already"


def test_a_function_of_other_code_is_refused(folder: Folder) -> None:
    """The code that is there is told."""
    folder.run("CREATE FUNCTION f AS 'json.loads' LANGUAGE PYTHON")
    ((message, _),) = folder.errors("CREATE FUNCTION f AS 'json.dumps' LANGUAGE PYTHON")

    assert message.endswith("already, with other code: json.loads")


def test_a_statement_of_a_session_tells_what_is_there(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """The same definition typed twice is the table once more."""
    from penstock.sql.ddl.redefinition import existing_note

    statement = folder.run(ORDERS.format(more="")).statements[0].statement
    with caplog.at_level(logging.INFO):
        note = existing_note(statement, Namespace(folder.catalog))

    assert note == "orders is there already, with this definition"
