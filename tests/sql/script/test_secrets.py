"""CREATE, ALTER, DROP SECRET and SHOW SECRETS: what they do, and that their values are said nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog import masking as secret_mask
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    InputErrors,
    ObjectExistsError,
    OptionError,
    PenstockError,
    UnknownObjectError,
)
from penstock.catalog.secrets.crypto import KEY_VARIABLE, decrypt, new_key
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.convert.statement import parse_statement
from penstock.sql.ddl.apply_ddl import check_connector
from penstock.sql.dialect.flink.dialect import Flink
from penstock.sql.errors.render import ErrorFormat, render, show_error
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import define
from penstock.sql.execution.show import answer
from penstock.sql.formatter import format_sql
from penstock.sql.runner.summary import kind_of, subject_of
from penstock.sql.script.splitter import split, split_all, states_secret
from penstock.sql.syntax.positions import Source
from tests.sql.sql_objects import parse_script


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Namespace:
    """A session on a new catalog, in a process that has seen no secret."""
    monkeypatch.setattr(secret_mask, "_values", set())
    monkeypatch.setenv(KEY_VARIABLE, new_key())
    return Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))


def run(sql: str, namespace: Namespace) -> None:
    """Run definitions, one after the other."""
    for text in split(sql, "jobs.sql"):
        define(parse_statement(text, namespace), namespace)


def test_secrets_are_created_changed_and_dropped(namespace: Namespace) -> None:
    """A quote is written twice, as in every text."""
    run(
        "CREATE SECRET a AS 'hunter''2-sql'; create secret if not exists a as 'other-sql'; CREATE SECRET b AS 'b-sql';"
        "ALTER SECRET b AS 'c-sql'; CREATE SECRET c AS 'd-sql'; DROP SECRET c; DROP SECRET IF EXISTS c",
        namespace,
    )

    assert [info.name for info in namespace.secrets.listed()] == ["a", "b"]
    assert decrypt(namespace.secrets.sealed("a")) == "hunter'2-sql"
    assert decrypt(namespace.secrets.sealed("b")) == "c-sql"


def test_a_file_is_checked_against_the_secrets_that_it_makes(namespace: Namespace) -> None:
    """On an overlay: the catalog stays as it is."""
    parse_script(
        "CREATE SECRET a AS 'hunter2-sql'; ALTER SECRET a AS 'hunter3-sql'; DROP SECRET a;",
        "jobs.sql",
        namespace,
    )

    with pytest.raises(InputErrors) as caught:
        parse_script("CREATE SECRET a AS 'hunter2-sql'; DROP SECRET b;", "jobs.sql", namespace)
    assert isinstance(caught.value.errors[0], UnknownObjectError)
    assert namespace.secrets.listed() == []


def test_show_secrets_tells_names_and_times(namespace: Namespace, tmp_path: Path) -> None:
    """And nothing else; with a pattern, as SHOW TABLES."""
    run("CREATE SECRET kafka_a AS 'hunter2-sql'; CREATE SECRET db AS 'hunter2-sql'", namespace)
    context = SessionContext(namespace=namespace, settings={}, project=tmp_path, spark=lambda: None)  # type: ignore[arg-type,return-value]
    (text,) = split("SHOW SECRETS LIKE 'kafka%'", "jobs.sql")
    listing = answer(parse_statement(text, namespace), context)

    assert listing.columns == ("secret name", "created", "changed")
    (row,) = listing.rows
    assert row[0] == "kafka_a"
    assert all(str(time).endswith("+00:00") for time in row[1:])


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE SECRET taken AS 'hunter2-sql'",
        "CREATE SECRET s AS 'hunter2-sql' WITH",
        "CREATE SECRET s = 'hunter2-sql'",
        "CREATE SECRET AS 'hunter2-sql'",
        "CREATE SECRT s AS 'hunter2-sql'",
        "CREAT SECRET s AS 'hunter2-sql'",
        "ALTER SECRETS s AS 'hunter2-sql'",
        "ALTER SECRET takn AS 'hunter2-sql'",
        "SELECT 1 -- don't\n;\nCREATE  SECRET\n s AS 'hunter2-sql\nsecond-line' x",
        "CREATE SECRET s AS 'hunter2-sql",
        "CREATE SECRET s AS 'hunter2-sql\nsecond-line;",
    ],
)
def test_no_error_shows_the_value(namespace: Namespace, sql: str) -> None:
    """Not even that of a statement that could not be read: its line stands below the message."""
    run("CREATE SECRET taken AS 'other-sql'", namespace)

    with pytest.raises(PenstockError) as caught:
        parse_script(sql, "jobs.sql", namespace)
    shown = render(caught.value) + "".join(show_error(caught.value, shape) for shape in ErrorFormat)
    assert "hunter2" not in f"{shown} {caught.value!r} {caught.value.__dict__}"
    assert "second-line" not in shown


def test_a_value_in_another_statement_is_not_masked(namespace: Namespace) -> None:
    """A column may be called secret, and a table too."""
    for sql in ("SELECT secret FROM t WHERE a = 'plain-sql'", "DROP TABLE secret", "ALTER TABLE secret SET ('a' = 'plain-sql')"):  # fmt: skip
        split_all(Source(file="jobs.sql", text=sql))

        assert not states_secret(sql)
    assert secret_mask.without_secrets("plain-sql") == "plain-sql"


def test_statements_tell_their_kind_and_the_name(namespace: Namespace) -> None:
    """In summaries; their representation has no value either."""
    (text,) = split("CREATE SECRET s AS 'hunter2-sql'", "jobs.sql")
    statement = parse_statement(text, namespace)

    assert (kind_of(statement), subject_of(statement)) == ("CREATE SECRET", "s")
    assert "hunter2" not in repr(statement)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE SECRET IF NOT EXISTS `s-1` AS 'it''s sql'",
        "ALTER SECRET s AS 'x-sql'",
        "DROP SECRET IF EXISTS s",
        "DROP SECRET s",
        "SHOW SECRETS NOT LIKE 'a%'",
    ],
)
def test_statements_are_written_as_they_were_read(sql: str) -> None:
    """The dialect keeps the text: masking is for what is said."""
    assert Flink().parse(sql)[0].sql("flink") == sql  # type: ignore[union-attr]


def test_a_file_is_formatted_with_its_values(namespace: Namespace) -> None:
    """It is the user's own; a name that is a keyword elsewhere stays a name."""
    text = "create secret secret as 'hunter2-sql';\nselect secret from t;\n"

    assert format_sql(text) == "CREATE SECRET secret AS 'hunter2-sql';\nSELECT secret FROM t;\n"


def test_a_name_is_taken_once(namespace: Namespace) -> None:
    """The error stands at the name."""
    run("CREATE SECRET s AS 'hunter2-sql'", namespace)
    (text,) = split("CREATE SECRET s AS 'hunter3-sql'", "jobs.sql")

    with pytest.raises(ObjectExistsError) as caught:
        parse_statement(text, namespace)
    assert caught.value.span is not None
    assert caught.value.span.column == len("CREATE SECRET ") + 1


def test_a_reference_is_checked_where_the_table_is_defined(
    namespace: Namespace, tmp_path: Path
) -> None:
    """Its form; whether the secret is there is asked when the table is used."""
    table = (
        "CREATE TABLE t (a STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
        "'properties.bootstrap.servers' = 'localhost:9', 'properties.sasl.password' = '{}')"
    )
    for value, fault in (("${{secret:s}}", None), ("${{secrt:s}}", "secrt"), ("${{sealed:s:1::x}}", "encrypted value")):  # fmt: skip
        (text,) = split(table.format(value.replace("{{", "{").replace("}}", "}")), "jobs.sql")
        statement = parse_statement(text, namespace)
        if fault is None:
            check_connector(statement, tmp_path)
            continue
        with pytest.raises(OptionError, match=fault) as caught:
            check_connector(statement, tmp_path)
        assert caught.value.span is not None
