"""CREATE TABLE ... AS, REPLACE TABLE ... AS and CREATE TABLE ... LIKE: the table, and what fills it."""

from __future__ import annotations

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.table import Table
from penstock.sql.statements.statement import CreateTable, CreateTableAs, ReplaceTableAs
from tests.sql.convert.test_alter_table import problems
from tests.sql.sql_objects import new_namespace, run

TABLES = """
CREATE TABLE s (
  id BIGINT NOT NULL, price DECIMAL(10, 2), name STRING, ts TIMESTAMP(3), twice AS id * 2, k BYTES METADATA,
  WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED)
COMMENT 'source' PARTITIONED BY (name) WITH ('connector' = 'kafka', 'topic' = 's');
CREATE TABLE there (id BIGINT, extra STRING);
CREATE TEMPORARY TABLE passing (id BIGINT);
CREATE VIEW v AS SELECT id FROM there
"""


@pytest.fixture
def namespace() -> Namespace:
    return new_namespace(TABLES)


def made(sql: str, namespace: Namespace) -> Table:
    """The table that one statement makes."""
    (statement,) = run(sql, namespace)
    match statement:
        case CreateTable(table=table):
            return table
        case CreateTableAs(create=create) | ReplaceTableAs(create=create):
            return create.table
    raise AssertionError(statement)


def columns(table: Table) -> list[tuple[str, str]]:
    """Names and types."""
    return [(column.name, str(column.type)) for column in table.schema.columns]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "CREATE TABLE t AS SELECT id, UPPER(name) AS n, COUNT(*) AS c FROM s GROUP BY id, name",
            [("id", "BIGINT NOT NULL"), ("n", "STRING"), ("c", "BIGINT")],
        ),
        ("CREATE TABLE t AS SELECT price FROM s", [("price", "DECIMAL(10, 2)")]),
        (
            "CREATE TABLE t AS SELECT CAST(price * 2 AS DECIMAL(12, 2)) AS p FROM s",
            [("p", "DECIMAL(12, 2)")],
        ),
        ("CREATE TABLE t (p DOUBLE) AS SELECT price * 2 AS p FROM s", [("p", "DOUBLE")]),
        (
            "CREATE TABLE t (note STRING, name VARCHAR(3)) AS SELECT id, name FROM s",
            [("note", "STRING"), ("id", "BIGINT NOT NULL"), ("name", "VARCHAR(3)")],
        ),
        (
            "CREATE TABLE t (name, id) AS SELECT id, name FROM s",
            [("name", "STRING"), ("id", "BIGINT NOT NULL")],
        ),
        ("CREATE TABLE t AS SELECT id FROM s UNION ALL SELECT id FROM there", [("id", "BIGINT")]),
    ],
)
def test_a_query_makes_the_columns(
    sql: str, expected: list[tuple[str, str]], namespace: Namespace
) -> None:
    """Declared ones first, then the query's; one that both have by the declared type, where the query has it."""
    assert [
        (name, kind.removesuffix(" NOT NULL")) for name, kind in columns(made(sql, namespace))
    ] == [(name, kind.removesuffix(" NOT NULL")) for name, kind in expected]


def test_the_insert_names_the_query_columns(namespace: Namespace) -> None:
    """In the query's order, whatever the order of the table's."""
    (statement,) = run("CREATE TABLE t (name, id) AS SELECT id, name FROM s", namespace)

    assert isinstance(statement, CreateTableAs)
    assert statement.insert.columns == ("id", "name")
    assert statement.insert.target == statement.create.table.identifier
    assert not statement.insert.overwrite


def test_a_table_that_is_there_is_filled_if_it_may_be(namespace: Namespace) -> None:
    """IF NOT EXISTS does not leave the rows out, as in Flink."""
    (statement,) = run("CREATE TABLE IF NOT EXISTS there AS SELECT 'x' AS extra", namespace)
    found = namespace.lookup(namespace.resolve(["there"]))

    assert isinstance(statement, CreateTableAs)
    assert statement.insert.columns == ("extra",)
    assert isinstance(found, Table)
    assert found.schema.names == ("id", "extra")


def test_a_replaced_table_has_the_new_columns(namespace: Namespace) -> None:
    """REPLACE needs one that is there, CREATE OR REPLACE does not."""
    table = made("REPLACE TABLE there AS SELECT id, name FROM s", namespace)
    (statement,) = run("CREATE OR REPLACE TABLE new AS SELECT 1 AS x", namespace)

    assert namespace.lookup(table.identifier) == table
    assert table.schema.names == ("id", "name")
    assert isinstance(statement, ReplaceTableAs)
    assert statement.before is None
    assert statement.insert.overwrite
    assert statement.insert.replaces


@pytest.mark.parametrize(
    ("sql", "place", "message"),
    [
        ("CREATE TABLE t AS SELECT nix FROM s", "nix", "there is no column 'nix'"),
        ("CREATE TABLE t AS SELECT price * 2 AS p FROM s", "price * 2 AS p", "the type of the column 'p' cannot be determined"),
        ("CREATE TABLE t AS SELECT id, id FROM s", "id", "the query has two columns named 'id'"),
        ("CREATE TABLE t (id, nix) AS SELECT id, name FROM s", "nix", "the query has no column 'nix'"),
        ("CREATE TABLE t (id) AS SELECT id, name FROM s", "id", "the list leaves out the query's column 'name'"),
        ("CREATE TABLE t (a INT NOT NULL) AS SELECT id FROM s", "a", "the query does not fill 'a', which is NOT NULL"),
        ("CREATE TABLE t (id AS 1) AS SELECT id FROM s", "id", "the query has a column 'id' too"),
        ("CREATE TABLE t (PRIMARY KEY (nix) NOT ENFORCED) AS SELECT id FROM s", "nix", "PRIMARY KEY: there is no column 'nix'"),
        ("CREATE TABLE there AS SELECT id FROM s", "there", "there is a table default_catalog.default_database.there already, with another definition; here it has: columns -extra, id BIGINT NOT NULL (not BIGINT)"),
        ("CREATE TABLE IF NOT EXISTS there AS SELECT name FROM s", "there", "there is a table default_catalog.default_database.there already, which has no column 'name' to fill"),
        ("REPLACE TABLE nix AS SELECT id FROM s", "nix", "there is no table default_catalog.default_database.nix to replace"),
        ("REPLACE TABLE v AS SELECT id FROM s", "v", "default_catalog.default_database.v is a view"),
        ("REPLACE TABLE there AS SELECT id FROM v", "id FROM v", "the query reads default_catalog.default_database.there, which is replaced before it runs"),
        ("CREATE OR REPLACE TABLE passing AS SELECT id FROM s", "passing", "there is a temporary table default_catalog.default_database.passing, which would hide this one"),
        ("CREATE TABLE t LIKE nix", "nix", "there is no table or view default_catalog.default_database.nix"),
        ("CREATE TABLE t LIKE v", "v", "default_catalog.default_database.v is a view; LIKE takes over from tables only"),
        ("CREATE TABLE t (id INT) LIKE s", "id", "there is a column 'id' in the other table already"),
        ("CREATE TABLE t (twice AS id) LIKE s", "twice", "the other table has a computed column 'twice' already"),
        ("CREATE TABLE t (k STRING METADATA) LIKE s", "k", "the other table has a metadata column 'k' already"),
        ("CREATE TABLE t (PRIMARY KEY (name) NOT ENFORCED) LIKE s", "PRIMARY KEY (name) NOT ENFORCED", "the other table has a primary key already"),
        ("CREATE TABLE t WITH ('topic' = 'x') LIKE s (INCLUDING ALL)", "'topic'", "the other table has an option 'topic' already"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_its_place(
    sql: str, place: str, message: str, namespace: Namespace
) -> None:
    """Before anything is made."""
    ((at, told), *_) = problems(sql, namespace)

    assert told == message
    assert at.endswith(place)


def test_like_takes_over_all_but_the_comment(namespace: Namespace) -> None:
    """Own columns stand behind, own options win."""
    table = made("CREATE TABLE t (x INT) COMMENT 'mine' WITH ('topic' = 't') LIKE s", namespace)
    source = namespace.lookup(namespace.resolve(["s"]))

    assert isinstance(source, Table)
    assert table.schema.names == (*source.schema.names, "x")
    assert table.schema.watermark == source.schema.watermark
    assert table.schema.primary_key == source.schema.primary_key
    assert table.partition_keys == ("name",)
    assert (table.comment, table.option_map) == ("mine", {"connector": "kafka", "topic": "t"})


def test_like_overwrites_in_place(namespace: Namespace) -> None:
    """A computed column stays where the other table has it; the own watermark may use it."""
    table = made(
        "CREATE TABLE t (twice AS id * 3, k STRING METADATA FROM 'key', WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) "
        "LIKE s (OVERWRITING GENERATED OVERWRITING METADATA OVERWRITING WATERMARKS EXCLUDING CONSTRAINTS)",
        namespace,
    )

    assert columns(table)[4:] == [("twice", "BIGINT"), ("k", "STRING")]
    assert table.schema.watermark is not None
    assert "SECOND" in table.schema.watermark.expression
    assert table.schema.primary_key is None


def test_what_like_leaves_out_cannot_be_used(namespace: Namespace) -> None:
    """A watermark over a computed column goes with it, or is refused."""
    run("CREATE TABLE c (t STRING, ts AS TO_TIMESTAMP(t), WATERMARK FOR ts AS ts)", namespace)
    ((_, message),) = problems("CREATE TABLE d LIKE c (EXCLUDING GENERATED)", namespace)

    assert message == "WATERMARK: there is no column 'ts'"
    assert made(
        "CREATE TABLE d LIKE c (EXCLUDING GENERATED EXCLUDING WATERMARKS)", namespace
    ).schema.names == ("t",)
