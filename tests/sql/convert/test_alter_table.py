"""ALTER TABLE and ALTER VIEW: what comes of a table, and what may not be taken from under others."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, InputErrors
from penstock.catalog.model.table import MetadataColumn, Table
from penstock.sql.ddl.show_create import show_create
from penstock.sql.statements.definitions import AlterTable, AlterView
from tests.sql.sql_objects import new_namespace, run

TABLE = """
CREATE TABLE t (
  id BIGINT NOT NULL, name STRING COMMENT 'of a person', ts TIMESTAMP(3), topic STRING METADATA VIRTUAL,
  twice AS id * 2, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, CONSTRAINT k PRIMARY KEY (id) NOT ENFORCED)
DISTRIBUTED BY HASH(id) INTO 4 BUCKETS PARTITIONED BY (name) WITH ('connector' = 'kafka', 'x' = '1');
CREATE TABLE bare (a INT, b INT) WITH ('connector' = 'kafka');
CREATE VIEW v AS SELECT a FROM bare;
CREATE TEMPORARY VIEW w (x) AS SELECT * FROM v
"""


@pytest.fixture
def namespace() -> Namespace:
    return new_namespace(TABLE)


def altered(sql: str, namespace: Namespace) -> Table:
    """The table after an ALTER TABLE."""
    (statement,) = run(sql, namespace)
    assert isinstance(statement, AlterTable)
    assert statement.after is not None
    found = namespace.lookup(statement.after.identifier)
    assert found == statement.after
    return statement.after


def problems(sql: str, namespace: Namespace) -> list[tuple[str, str]]:
    """What is wrong with a statement: the text that each error points at, and its message."""
    with pytest.raises(InputError) as caught:
        run(sql, namespace)
    errors = caught.value.errors if isinstance(caught.value, InputErrors) else (caught.value,)
    told = []
    for error in errors:
        assert error.span is not None
        start = error.span.column - 1
        told.append((error.span.line_text[start : start + error.span.length], error.message))
    return told


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("ALTER TABLE bare ADD c INT", "a b c"),
        ("ALTER TABLE bare ADD (c INT FIRST, d INT AFTER a, e INT)", "c a d b e"),
        ("ALTER TABLE bare MODIFY a BIGINT AFTER b", "b a"),
        ("ALTER TABLE bare MODIFY (b BIGINT FIRST, a INT AFTER b)", "b a"),
        ("ALTER TABLE bare MODIFY a INT AFTER a", "a b"),
        ("ALTER TABLE bare DROP b", "a"),
        ("ALTER TABLE bare RENAME b TO c", "a c"),
        ("ALTER TABLE t DROP (twice, topic)", "id name ts"),
    ],
)
def test_columns_stand_where_the_statement_puts_them(
    sql: str, names: str, namespace: Namespace
) -> None:
    """FIRST, AFTER, or behind the last."""
    assert altered(sql, namespace).schema.names == tuple(names.split())


def test_what_a_modify_does_not_say_stays(namespace: Namespace) -> None:
    """The comment of a column, the rest of the table."""
    before = namespace.lookup(namespace.resolve(["t"]))
    after = altered("ALTER TABLE t MODIFY name VARCHAR(9)", namespace)

    assert str(after.schema.column("name").type) == "VARCHAR(9)"
    assert after.schema.column("name").comment == "of a person"
    assert isinstance(before, Table)
    assert after.schema.primary_key == before.schema.primary_key
    assert (after.options, after.distribution) == (before.options, before.distribution)


def test_a_renamed_column_is_renamed_in_the_key(namespace: Namespace) -> None:
    """And metadata stay the same metadata."""
    altered("ALTER TABLE t DROP twice", namespace)
    altered("ALTER TABLE t DROP DISTRIBUTION", namespace)
    keyed = altered("ALTER TABLE t RENAME id TO number", namespace)
    renamed = altered("ALTER TABLE t RENAME topic TO origin", namespace).schema.column("origin")

    assert keyed.schema.primary_key is not None
    assert keyed.schema.primary_key.columns == ("number",)
    assert isinstance(renamed, MetadataColumn)
    assert renamed.metadata_key == "topic"


def test_rules_of_a_table_come_and_go(namespace: Namespace) -> None:
    """Watermark, key, distribution."""
    for word in ("WATERMARK", "CONSTRAINT k", "DISTRIBUTION"):
        bare = altered(f"ALTER TABLE t DROP {word}", namespace)
    assert (bare.schema.watermark, bare.schema.primary_key, bare.distribution) == (None, None, None)
    full = altered(
        "ALTER TABLE t ADD (WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED)", namespace
    )
    full = altered("ALTER TABLE t ADD DISTRIBUTION INTO 2 BUCKETS", namespace)
    full = altered("ALTER TABLE t MODIFY (PRIMARY KEY (name) NOT ENFORCED)", namespace)

    assert full.schema.watermark is not None
    assert full.schema.watermark.expression == "ts"
    assert full.schema.primary_key is not None
    assert full.schema.primary_key.columns == ("name",)
    assert str(full.distribution) == "INTO 2 BUCKETS"


def test_options_are_set_and_reset_as_in_flink(namespace: Namespace) -> None:
    """The last of a key wins, unknown keys are passed over, SET () changes nothing."""
    assert altered("ALTER TABLE t SET ('x' = '2', 'x' = '3')", namespace).option_map["x"] == "3"
    assert altered("ALTER TABLE t SET ()", namespace).option_map["x"] == "3"
    assert altered("ALTER TABLE t RESET ('x', 'none')", namespace).option_map == {
        "connector": "kafka"
    }


def test_options_of_older_releases_are_set_and_reset_as_todays(namespace: Namespace) -> None:
    """What is set counts more than what the table has in today's words; SHOW CREATE TABLE has today's."""
    today = "lookup.partial-cache.max-rows"
    run(f"ALTER TABLE bare SET ('{today}' = '3')", namespace)

    changed = altered("ALTER TABLE bare SET ('lookup.cache.max-rows' = '5')", namespace)
    assert changed.option_map == {"connector": "kafka", today: "5", "lookup.cache": "PARTIAL"}

    left = altered("ALTER TABLE bare RESET ('lookup.cache.max-rows')", namespace)
    assert left.option_map == {"connector": "kafka", "lookup.cache": "PARTIAL"}


def test_a_table_is_renamed_where_it_is(namespace: Namespace) -> None:
    """What the new name leaves open is the table's own, not the current database."""
    run("DROP VIEW v; CREATE DATABASE other; USE other", namespace)
    moved = altered("ALTER TABLE default_database.bare RENAME TO plain", namespace)

    assert str(moved.identifier) == "default_catalog.default_database.plain"
    moved = altered("ALTER TABLE default_database.plain RENAME TO other.plain", namespace)
    assert str(moved.identifier) == "default_catalog.other.plain"


def test_a_table_that_is_not_there_may_be_passed_over(namespace: Namespace) -> None:
    """IF EXISTS."""
    (statement,) = run("ALTER TABLE IF EXISTS nothing DROP a", namespace)

    assert isinstance(statement, AlterTable)
    assert statement.after is None
    assert problems("ALTER TABLE nothing DROP a", namespace)[0][0] == "nothing"


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("ALTER TABLE t DROP ts", [("ts", "the column 'ts' is used by the watermark")]),
        ("ALTER TABLE t RENAME ts TO x", [("ts", "the column 'ts' is used by the watermark")]),
        ("ALTER TABLE t DROP name", [("name", "the column 'name' is used by PARTITIONED BY")]),
        (
            "ALTER TABLE t DROP (twice, id)",
            [
                ("id", "the column 'id' is used by the distribution"),
                ("id", "the column 'id' is used by the primary key"),
            ],
        ),
        (
            "ALTER TABLE t RENAME id TO ts",
            [
                ("id", "the column 'id' is used by the computed column 'twice'"),
                ("id", "the column 'id' is used by the distribution"),
                ("ts", "there is a column 'ts' already"),
            ],
        ),
        ("ALTER TABLE bare DROP (b, c, b)", [("c", "there is no column 'c'"), ("b", "the column 'b' is named twice")]),
        ("ALTER TABLE bare ADD (a INT, c INT AFTER x)", [("a", "there is a column 'a' already"), ("x", "AFTER: there is no column 'x'")]),
        ("ALTER TABLE bare ADD c AS d + 1", [("d", "computed column 'c': there is no column 'd'")]),
        ("ALTER TABLE bare MODIFY c INT", [("c", "MODIFY: there is no column 'c'")]),
        ("ALTER TABLE t MODIFY id AS 1", [("MODIFY id AS 1", "computed column 'twice' uses 'id', which is computed itself")]),
        ("ALTER TABLE t ADD WATERMARK FOR ts AS ts", [("WATERMARK FOR ts AS ts", "the table has a watermark already")]),
        ("ALTER TABLE bare MODIFY WATERMARK FOR a AS a", [("WATERMARK FOR a AS a", "the table has no watermark")]),
        ("ALTER TABLE bare MODIFY PRIMARY KEY (a) NOT ENFORCED", [("PRIMARY KEY (a) NOT ENFORCED", "the table has no primary key")]),
        ("ALTER TABLE bare DROP PRIMARY KEY", [("DROP PRIMARY KEY", "default_catalog.default_database.bare has no primary key")]),
        ("ALTER TABLE t DROP CONSTRAINT j", [("DROP CONSTRAINT j", "default_catalog.default_database.t has no constraint 'j'")]),
        ("ALTER TABLE t RESET ('connector')", [("'connector'", "RESET cannot take away 'connector'")]),
        ("ALTER TABLE t RENAME TO bare", [("RENAME TO bare", "there is a table default_catalog.default_database.bare already")]),
        ("ALTER TABLE t RENAME TO c.d.e", [("RENAME TO c.d.e", "RENAME TO another catalog is not supported")]),
        ("ALTER TABLE v SET ('a' = 'b')", [("v", "default_catalog.default_database.v is a view, not a table")]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_its_place(
    sql: str, told: list[tuple[str, str]], namespace: Namespace
) -> None:
    """All of it at once, and the table stays as it was."""
    before = [namespace.lookup(identifier) for identifier in namespace.tables()]

    assert problems(sql, namespace) == told
    assert [namespace.lookup(identifier) for identifier in namespace.tables()] == before


@pytest.mark.parametrize(
    ("sql", "view"),
    [
        ("ALTER TABLE bare DROP a", "v"),
        ("ALTER TABLE bare RENAME a TO c", "v"),
        ("ALTER TABLE bare RENAME TO other", "v"),
        ("ALTER VIEW v RENAME TO other", "w"),
        ("ALTER VIEW v AS SELECT a, b FROM bare", "w"),
    ],
)
def test_a_view_is_not_broken(sql: str, view: str, namespace: Namespace) -> None:
    """Neither by its table, nor by a view that it stands on."""
    ((_, message),) = problems(sql, namespace)

    assert message.startswith(f"the view default_catalog.default_database.{view} would no longer")


def test_a_view_that_is_not_touched_is_no_obstacle(namespace: Namespace) -> None:
    """A column more, another option, a column that no view reads."""
    altered("ALTER TABLE bare ADD c INT", namespace)
    altered("ALTER TABLE bare DROP b", namespace)
    altered("ALTER TABLE bare SET ('x' = 'y')", namespace)
    run("DROP TEMPORARY VIEW w; ALTER VIEW v AS SELECT c AS a FROM bare", namespace)

    assert altered("ALTER TABLE bare DROP a", namespace).schema.names == ("c",)


def test_a_view_keeps_its_comment_and_loses_its_names(namespace: Namespace) -> None:
    """As in Flink: the columns are the new query's."""
    run("CREATE VIEW named (p) COMMENT 'kept' AS SELECT id FROM t", namespace)
    (statement,) = run("ALTER VIEW named AS SELECT name, id FROM t", namespace)

    assert isinstance(statement, AlterView)
    assert (statement.after.columns, statement.after.comment) == ((), "kept")
    assert "`default_catalog`.`default_database`.`t`" in statement.after.query


def test_a_view_is_not_defined_by_itself(namespace: Namespace) -> None:
    """Nor by way of another."""
    for query in ("SELECT a FROM v", "SELECT x AS a FROM w"):
        ((_, message),) = problems(f"ALTER VIEW v AS {query}", namespace)
        assert "defined by itself" in message


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8),
    place=st.sampled_from(("", "FIRST", "AFTER `b`", "AFTER `a`")),
    kind=st.sampled_from(("INT", "STRING METADATA FROM 'k'", "AS `a` + 1")),
)
def test_what_is_added_can_be_dropped_again(name: str, place: str, kind: str) -> None:
    """And the table is what it was."""
    if name.lower() in ("a", "b"):
        return
    namespace = new_namespace("CREATE TABLE t (a INT, b INT COMMENT 'x') WITH ('k' = 'v')")
    before = show_create(namespace.lookup(namespace.resolve(["t"])))
    quoted = "`" + name.replace("`", "``") + "`"
    run(f"ALTER TABLE t ADD ({quoted} {kind} COMMENT 'it''s' {place})", namespace)
    added = namespace.lookup(namespace.resolve(["t"]))
    run(f"ALTER TABLE t DROP {quoted}", namespace)

    assert isinstance(added, Table)
    assert name in added.schema.names
    assert show_create(namespace.lookup(namespace.resolve(["t"]))) == before
