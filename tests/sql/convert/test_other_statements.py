"""Functions, materialized tables, rows, SHOW and the session: what statements say, and what is wrong with others."""

from __future__ import annotations

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, InputErrors
from penstock.catalog.model.function import Function, Language
from penstock.catalog.model.table import RefreshMode, Table
from penstock.sql.ddl.show_create import show_create
from penstock.sql.dialect import to_text
from penstock.sql.statements.definitions import (
    ChangeMaterializedTable,
    CreateFunction,
    CreateMaterializedTable,
)
from penstock.sql.statements.dml import InsertInto, UpdateRows
from penstock.sql.statements.show import ShowList, Shown
from penstock.sql.statements.statement import Statement, ends_refresh_of, starts_refresh
from tests.sql.sql_objects import TABLES, new_namespace, run

PARTED = """;
CREATE TABLE parted (id BIGINT, v DOUBLE, region STRING) PARTITIONED BY (region) WITH ('connector' = 'delta');
CREATE MATERIALIZED TABLE daily PARTITIONED BY (name) WITH ('connector' = 'delta') REFRESH_MODE = FULL
AS SELECT id, name FROM sink;
CREATE MATERIALIZED TABLE live WITH ('connector' = 'delta') AS SELECT auction FROM bids;
CREATE FUNCTION own AS 'm.own' LANGUAGE PYTHON
"""


@pytest.fixture
def namespace() -> Namespace:
    """Tables, a view, materialized tables and a function."""
    return new_namespace(TABLES + PARTED)


def one(sql: str, namespace: Namespace) -> Statement:
    """What one statement says."""
    (statement,) = run(sql, namespace)
    return statement


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


# --- functions ---


def test_a_function_is_defined_by_its_code_in_lower_case(namespace: Namespace) -> None:
    """Flink does not tell cases of functions apart; it is there for the statements behind it."""
    statement = one("CREATE TEMPORARY FUNCTION Score AS 'a.Score' USING JAR 's.jar'", namespace)

    assert isinstance(statement, CreateFunction)
    function = statement.function
    assert (function.name, function.code, function.jars) == ("score", "a.Score", ("s.jar",))
    assert (function.language, function.temporary) == (Language.JAVA, True)
    assert sorted(visible(namespace)) == ["my_function", "own", "score"]


def test_alter_keeps_the_jars_and_drop_removes(namespace: Namespace) -> None:
    """Only the function of the same kind is meant: a temporary one hides the other."""
    run("CREATE FUNCTION j AS 'a.J' USING JAR 'j.jar'; ALTER FUNCTION j AS 'a.K'", namespace)
    changed = visible(namespace)["j"]
    run(
        "CREATE TEMPORARY FUNCTION j AS 'a.T'; DROP FUNCTION j; DROP FUNCTION IF EXISTS j",
        namespace,
    )

    assert (changed.code, changed.jars) == ("a.K", ("j.jar",))
    assert visible(namespace)["j"].code == "a.T"


def visible(namespace: Namespace) -> dict[str, Function]:
    """The functions that queries can call."""
    place = (namespace.current_catalog, namespace.current_database)
    return dict(namespace.functions.visible(*place))


@pytest.mark.parametrize(
    ("sql", "where", "message"),
    [
        ("CREATE FUNCTION f AS 'ma' LANGUAGE PYTHON", "'ma'", "is no path of a Python function"),
        ("CREATE TEMPORARY SYSTEM FUNCTION d.f AS 'm.a'", "d.f", "without catalog and database"),
        ("CREATE FUNCTION upper AS 'm.a'", "upper", "UPPER is a built-in function"),
        ("CREATE FUNCTION f AS 'm.a' LANGUAGE SCALA", "SCALA", "Scala"),
        ("CREATE FUNCTION own AS 'm.a'", "own", "already"),
        ("ALTER FUNCTION fn AS 'm.a'", "fn", "there is no function"),
        ("DROP TEMPORARY FUNCTION own", "own", "there is no temporary function"),
    ],
)
def test_a_function_that_cannot_be_is_refused_at_its_place(
    namespace: Namespace, sql: str, where: str, message: str
) -> None:
    """Before anything is imported."""
    ((place, told),) = problems(sql, namespace)

    assert place == where
    assert message in told


# --- rows ---


def test_an_update_has_typed_values_and_a_condition(namespace: Namespace) -> None:
    """Over the columns of the table."""
    statement = one("UPDATE parted SET v = v / 2, id = 1 WHERE parted.region = 'eu'", namespace)

    assert isinstance(statement, UpdateRows)
    assert [(name, to_text(value)) for name, value in statement.assignments] == [
        ("v", "v / 2"),
        ("id", "1"),
    ]
    assert statement.condition is not None
    assert to_text(statement.condition) == "parted.region = 'eu'"
    assert statement.assignments[0][1].type is not None


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("UPDATE parted SET w = 1, id = 1, id = 2", [("w", "there is no column 'w'"), ("id", "the column 'id' is set twice")]),
        ("UPDATE sink SET c = 1", [("c", "'c' is not stored in the table: it cannot be set")]),
        ("UPDATE parted SET v = x WHERE y = 1", [("x", "there is no column 'x'"), ("y", "there is no column 'y'")]),
        ("DELETE FROM halves", [("halves", "default_catalog.default_database.halves is a view; rows are changed in tables only")]),
        ("DELETE FROM parted WHERE EXISTS (SELECT 1)", [("1", "only values of the row itself can be used here")]),
        ("TRUNCATE TABLE live", [("live", "default_catalog.default_database.live is a materialized table; rows are changed in tables only")]),
        ("INSERT INTO live SELECT 1", [("live", "default_catalog.default_database.live is a materialized table; its rows are its query's")]),
        ("INSERT INTO sink SELECT 1, h, '' FROM halves /*+ OPTIONS('a'='b') */", [("/*+ OPTIONS('a'='b') */", "default_catalog.default_database.halves is a view, which has no options")]),
        ("INSERT INTO sink SELECT auction, '', '' FROM bids /*+ OPTION('a'='b') */", [("/*+ OPTION('a'='b') */", "a table takes no hint OPTION")]),
        ("INSERT INTO parted /*+ OPTION('a'='b') */ SELECT 1, 2, ''", [("/*+ OPTION('a'='b') */", "a table takes no hint OPTION")]),
        ("TRUNCATE TABLE part", [("part", "there is no table or view default_catalog.default_database.part")]),
        ("ANALYZE TABLE parted COMPUTE STATISTICS FOR COLUMNS w", [("w", "there is no column 'w'")]),
        ("CALL p(1)", [("p", "'p' is no name of a procedure")]),
        ("INSERT INTO parted PARTITION (regio = 'x') SELECT 1, 2", [("regio = 'x'", "'regio' is no partition column of default_catalog.default_database.parted")]),
        ("INSERT INTO parted PARTITION (region) SELECT 1, 2", [("region", "'region' has no value")]),
        ("INSERT INTO parted PARTITION (region = 'x') VALUES (1, 2), (3)", [("(3)", "this row has 1 column, default_catalog.default_database.parted takes 2 (id, v)")]),
        ("INSERT INTO parted SELECT 1, 2, '' ON CONFLICT DO ERROR", [("ON CONFLICT DO ERROR", "ON CONFLICT DO ERROR: default_catalog.default_database.parted has no PRIMARY KEY, by which rows could be in conflict")]),
        ("INSERT OVERWRITE parted SELECT 1, 2, '' ON CONFLICT DO NOTHING", [("ON CONFLICT DO NOTHING", "ON CONFLICT DO NOTHING is not supported with INSERT OVERWRITE, which replaces all rows")]),
    ],
)  # fmt: skip
def test_what_cannot_be_done_to_rows_is_refused_at_its_place(
    namespace: Namespace, sql: str, expected: list[tuple[str, str]]
) -> None:
    """All that is wrong, in one go."""
    assert problems(sql, namespace) == expected


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("SELECT id, 1 FROM sink", "SELECT id, 1, 'eu' AS _partition_0 FROM sink AS `sink`"),
        ("VALUES (1, 2.5), (3, 4)", "VALUES (1, 2.5, 'eu'), (3, 4, 'eu')"),
        ("SELECT 1, 2 UNION SELECT 3, 4", "SELECT 1, 2, 'eu' AS _partition_0 UNION SELECT 3, 4, 'eu' AS _partition_0"),
    ],
)  # fmt: skip
def test_values_of_a_partition_become_columns_of_the_query(
    namespace: Namespace, query: str, written: str
) -> None:
    """In each branch; they are the last of the columns that the INSERT fills."""
    sql = f"INSERT OVERWRITE parted PARTITION (region = 'eu') {query}"
    statement = one(sql, namespace)

    assert isinstance(statement, InsertInto)
    assert statement.columns == ("id", "v", "region")
    assert (statement.overwrite, statement.partition) == (True, (("region", "eu"),))
    assert to_text(statement.query) == written


# --- materialized tables ---


def test_a_materialized_table_has_its_querys_columns(namespace: Namespace) -> None:
    """And keeps the query with full names; SHOW CREATE gives a statement that says the same."""
    sql = (
        "CREATE MATERIALIZED TABLE m (PRIMARY KEY (id) NOT ENFORCED) COMMENT 'c' WITH ('connector' = 'delta') "
        "FRESHNESS = INTERVAL '90' SECOND AS SELECT id, name AS n FROM sink"
    )
    statement = one(sql, namespace)
    assert isinstance(statement, CreateMaterializedTable)
    table = statement.table
    written = show_create(table).replace("`m`", "`again`")
    again = one(written, namespace)

    assert [(c.name, str(c.type)) for c in table.schema.columns] == [
        ("id", "BIGINT"),
        ("n", "STRING"),
    ]
    assert table.materialization is not None
    assert table.materialization.interval_ms == 90_000
    assert "`default_catalog`.`default_database`.`sink`" in table.materialization.query
    assert not statement.insert.overwrite
    assert isinstance(again, CreateMaterializedTable)
    assert again.table.schema == table.schema
    assert again.table.materialization == table.materialization


@pytest.mark.parametrize(
    ("declared", "mode", "interval_ms"),
    [
        ("", RefreshMode.CONTINUOUS, 180_000),
        ("FRESHNESS = INTERVAL '29' MINUTE", RefreshMode.CONTINUOUS, 1_740_000),
        ("FRESHNESS = INTERVAL '30' MINUTE", RefreshMode.FULL, 1_800_000),
        ("REFRESH_MODE = FULL", RefreshMode.FULL, 3_600_000),
        ("FRESHNESS = INTERVAL '2' HOUR REFRESH_MODE = CONTINUOUS", RefreshMode.CONTINUOUS, 7_200_000),
    ],
)  # fmt: skip
def test_freshness_and_mode_imply_each_other(
    namespace: Namespace, declared: str, mode: RefreshMode, interval_ms: int
) -> None:
    """Flink's defaults: three minutes, an hour, and the threshold between the modes."""
    sql = f"CREATE MATERIALIZED TABLE m WITH ('connector' = 'delta') {declared} AS SELECT id FROM sink"
    statement = one(sql, namespace)

    assert isinstance(statement, CreateMaterializedTable)
    kept = statement.table.materialization
    assert kept is not None
    assert (kept.refresh_mode, kept.interval_ms) == (mode, interval_ms)
    assert statement.insert.overwrite == (mode is RefreshMode.FULL)


def test_a_materialized_table_may_be_distributed(namespace: Namespace) -> None:
    """It is kept and shown, as of other tables; a column that the query has not is an error."""
    sql = "CREATE MATERIALIZED TABLE m DISTRIBUTED BY ({}) INTO 4 BUCKETS WITH ('connector' = 'delta') AS SELECT id FROM sink"
    statement = one(sql.format("id"), namespace)
    ((place, told),) = problems(sql.format("idd"), namespace)

    assert isinstance(statement, CreateMaterializedTable)
    assert "DISTRIBUTED BY (`id`) INTO 4 BUCKETS" in show_create(statement.table)
    assert (place, told) == ("idd", "DISTRIBUTED BY: there is no column 'idd'")


def test_suspend_resume_and_refresh(namespace: Namespace) -> None:
    """SUSPEND has nothing to run; a refreshed partition is the part of the query that belongs into it."""
    suspended = one("ALTER MATERIALIZED TABLE live SUSPEND", namespace)
    kept = namespace.lookup(suspended.table.identifier)  # type: ignore[union-attr]
    resumed = one("ALTER MATERIALIZED TABLE live RESUME", namespace)
    part = one("ALTER MATERIALIZED TABLE daily REFRESH PARTITION (name = 'x')", namespace)

    assert isinstance(suspended, ChangeMaterializedTable)
    assert suspended.insert is None
    assert isinstance(kept, Table)
    assert kept.materialization is not None
    assert kept.materialization.suspended
    assert isinstance(resumed, ChangeMaterializedTable)
    assert resumed.insert is not None
    assert isinstance(part, ChangeMaterializedTable)
    assert part.insert is not None
    assert part.insert.partition == (("name", "x"),)
    assert to_text(part.insert.query).endswith("AS q WHERE `name` = CAST('x' AS STRING)")


def test_a_full_table_is_suspended_until_it_is_resumed(namespace: Namespace) -> None:
    """A REFRESH in between, or another query, writes it once and leaves it so."""
    found = []
    for action in ("SUSPEND", "REFRESH", "AS SELECT id, name FROM sink WHERE id > 1", "RESUME"):
        changed = one(f"ALTER MATERIALIZED TABLE daily {action}", namespace)
        assert isinstance(changed, ChangeMaterializedTable)
        assert changed.table.materialization is not None
        overwrites = changed.insert is not None and changed.insert.overwrite
        found.append((changed.table.materialization.suspended, overwrites, starts_refresh(changed)))

    assert found == [
        (True, False, False),
        (True, True, False),
        (True, True, False),
        (False, True, True),
    ]


@pytest.mark.parametrize(
    ("sql", "refreshed", "kept_no_longer"),
    [
        ("CREATE MATERIALIZED TABLE m WITH ('connector' = 'delta') REFRESH_MODE = FULL AS SELECT id FROM sink", True, None),
        ("CREATE MATERIALIZED TABLE m WITH ('connector' = 'delta') AS SELECT id FROM sink", False, None),
        ("ALTER MATERIALIZED TABLE live RESUME", False, None),
        ("ALTER MATERIALIZED TABLE live SUSPEND", False, "live"),
        ("ALTER MATERIALIZED TABLE daily SUSPEND", False, "daily"),
        ("DROP MATERIALIZED TABLE daily", False, "daily"),
        ("SELECT id FROM sink", False, None),
    ],
)  # fmt: skip
def test_statements_that_begin_or_end_the_keeping_of_a_table_are_known(
    sql: str, refreshed: bool, kept_no_longer: str | None, namespace: Namespace
) -> None:
    """CREATE and RESUME of a FULL table have it refreshed, SUSPEND and DROP end what keeps one."""
    statement = one(sql, namespace)
    table = ends_refresh_of(statement)

    assert starts_refresh(statement) is refreshed
    assert (None if table is None else table.name) == kept_no_longer


@pytest.mark.parametrize(
    ("sql", "where", "message"),
    [
        ("CREATE MATERIALIZED TABLE sink AS SELECT id FROM sink", "sink", "already"),
        ("CREATE OR ALTER MATERIALIZED TABLE sink AS SELECT id FROM sink", "sink", "not a materialized table"),
        ("CREATE MATERIALIZED TABLE m (x INT) AS SELECT id FROM sink", "x INT", "columns of a materialized table"),
        ("CREATE MATERIALIZED TABLE m (PRIMARY KEY (x) NOT ENFORCED) AS SELECT id FROM sink", "x", "has no column 'x'"),
        ("CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '1' YEAR AS SELECT 1", "INTERVAL '1' YEAR", "FRESHNESS"),
        ("CREATE MATERIALIZED TABLE m AS SELECT own(id) AS x FROM sink", "own(id) AS x", "'x' could not be determined"),
        ("ALTER MATERIALIZED TABLE live REFRESH", "ALTER MATERIALIZED TABLE live REFRESH", "streaming query"),
        ("ALTER MATERIALIZED TABLE daily AS SELECT id FROM sink", "id FROM sink", "other columns"),
        ("DROP MATERIALIZED TABLE sink", "sink", "not a materialized table"),
        ("DROP TABLE live", "live", "is a materialized table"),
        ("SHOW CREATE TABLE daily", "daily", "is a materialized table"),
    ],
)  # fmt: skip
def test_a_materialized_table_that_cannot_be_is_refused_at_its_place(
    namespace: Namespace, sql: str, where: str, message: str
) -> None:
    """With what to write instead in the hint."""
    ((place, told),) = problems(sql, namespace)

    assert place == where
    assert message in told


# --- SHOW, modules ---


def test_a_list_is_of_the_current_place_unless_from_says_another(namespace: Namespace) -> None:
    """A database may stand with its catalog or without."""
    here = one("SHOW USER FUNCTIONS", namespace)
    there = one("SHOW FUNCTIONS FROM c.d NOT ILIKE 'To_%'", namespace)

    assert isinstance(here, ShowList)
    assert (here.catalog, here.database) == ("default_catalog", "default_database")
    assert isinstance(there, ShowList)
    assert (there.what, there.catalog, there.database) == (Shown.FUNCTIONS, "c", "d")
    assert there.like is not None
    assert [there.like.keeps(name) for name in ("to_date", "tolower", "upper")] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("sql", "where", "message"),
    [
        ("SHOW DATABASES FROM a.b", "a.b", "takes a catalog"),
        ("SHOW PARTITIONS bids", "bids", "is not partitioned"),
        ("SHOW PARTITIONS parted PARTITION (region)", "region", "named by values"),
        ("DESCRIBE CATALOG a.b", "a.b", "not the name of a catalog"),
        ("LOAD MODULE hive", "hive", "'hive' is not supported"),
        ("LOAD MODULE core", "core", "loaded already"),
        ("USE MODULES core, hiv", "hiv", "there is no module"),
        ("ADD JAR 'x.zip'", "'x.zip'", "is no jar"),
    ],
)
def test_what_cannot_be_shown_or_loaded_is_refused_at_its_place(
    namespace: Namespace, sql: str, where: str, message: str
) -> None:
    """Names with too many parts, other modules, other files."""
    ((place, told),) = problems(sql, namespace)

    assert place == where
    assert message in told
