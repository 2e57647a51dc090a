"""Statements as values: what each says, checked against what is there."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    InputErrors,
    ObjectExistsError,
    OptionError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    Table,
    View,
)
from penstock.catalog.model.types import TimestampType
from penstock.sql.convert.statement import parse_statement, parse_tree
from penstock.sql.dialect import table_options, to_text
from penstock.sql.plan.rules.inline import find_relations
from penstock.sql.script.splitter import split
from penstock.sql.statements.definitions import AlterTable
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    UNSUPPORTED,
    CreateTable,
    CreateView,
    Describe,
    DropTable,
    DropView,
    ResetOption,
    Select,
    SetOption,
    ShowCreate,
    ShowOptions,
    ShowTables,
    Statement,
    Use,
)
from penstock.sql.syntax.positions import LineOrigin, span_of
from tests.sql.sql_objects import TABLES, define, new_namespace, parse_script

if TYPE_CHECKING:
    from penstock.catalog.definitions.resolver import Namespace


@pytest.fixture(scope="module")
def namespace() -> Namespace:
    """A few tables and a view."""
    return new_namespace(TABLES)


def parse(sql: str, namespace: Namespace) -> Statement:
    """One statement."""
    (text,) = split(sql, "a.sql")
    return parse_statement(text, namespace)


def named(name: str) -> Identifier:
    """A name in the default database."""
    return Identifier(catalog="default_catalog", database="default_database", name=name)


def test_a_table_is_read_as_a_value() -> None:
    """Columns of every kind, key, watermark, partitions, options."""
    table = define(
        "CREATE TEMPORARY TABLE t (id BIGINT NOT NULL, raw STRING COMMENT 'c', k BYTES METADATA FROM 'key' VIRTUAL, "
        "topic STRING METADATA, rt AS TO_TIMESTAMP(raw), WATERMARK FOR rt AS rt - INTERVAL '5' SECOND, "
        "PRIMARY KEY (id) NOT ENFORCED) COMMENT 'x' PARTITIONED BY (raw) WITH ('connector' = 'kafka', 'a' = '')"
    )

    assert isinstance(table, Table)
    physical, raw, key, topic, rowtime = table.schema.columns
    assert isinstance(physical, PhysicalColumn)
    assert str(physical.type) == "BIGINT NOT NULL"
    assert raw.comment == "c"
    assert isinstance(key, MetadataColumn)
    assert (key.metadata_key, key.virtual) == ("key", True)
    assert isinstance(topic, MetadataColumn)
    assert (topic.metadata_key, topic.virtual) == ("topic", False)
    assert isinstance(rowtime, ComputedColumn)
    assert rowtime.type == TimestampType(precision=3)
    assert table.schema.watermark is not None
    assert table.schema.watermark.expression == "rt - INTERVAL '5' SECOND"
    assert table.schema.primary_key == PrimaryKey(columns=("id",))
    assert (table.partition_keys, table.comment, table.temporary) == (("raw",), "x", True)
    assert table.options == (("connector", "kafka"), ("a", ""))


def test_an_error_about_an_option_gets_the_options_place(namespace: Namespace) -> None:
    """Connectors know options, not files."""
    statement = parse(
        "CREATE TABLE t (a INT) WITH ('connector' = 'kafka',\n  'scan.mod' = 'x')", namespace
    )
    assert isinstance(statement, CreateTable)

    unknown = statement.locate(OptionError("table t: unsupported option 'scan.mod'"))
    missing = statement.locate(OptionError("table t: option 'topic' is missing"))

    assert unknown.span is not None
    assert (unknown.span.line, unknown.span.column, unknown.span.length) == (2, 3, 10)
    assert missing.span == statement.span


def test_an_error_about_a_column_gets_the_columns_place(namespace: Namespace) -> None:
    """Also where an option has the column's name, and a field of a row."""
    statement = parse(
        "CREATE TABLE t (a ROW<topic INT>,\n topic INT METADATA) WITH ('connector' = 'kafka', 'topic' = 'x')",
        namespace,
    )
    assert isinstance(statement, CreateTable)
    error = statement.locate(DefinitionError("table t: column 'topic' is wrong").about("topic"))

    assert error.span is not None
    assert (error.span.line, error.span.column, error.span.length) == (2, 2, 5)


def test_an_error_about_an_added_column_gets_its_place(namespace: Namespace) -> None:
    """ALTER TABLE as well."""
    statement = parse("ALTER TABLE bids ADD o TIME METADATA FROM 'timestamp'", namespace)
    assert isinstance(statement, AlterTable)
    error = statement.locate(DefinitionError("table t: column 'o' is wrong").about("o"))

    assert error.span is not None
    assert (error.span.column, error.span.length) == (22, 1)


def test_layout_and_comments_do_not_change_a_definition() -> None:
    """Equal definitions are equal values, so a file that was only tidied up is the same pipeline."""
    one = define("CREATE TABLE t (a INT, b AS a+1) WITH ('k'='v')")
    two = define("create table `t` ( -- x\n a int, b as a /* y */ + 1 )\nwith ( 'k' = 'v' )")

    assert one == two


def test_a_view_keeps_its_query_with_full_names(namespace: Namespace) -> None:
    """A later USE does not change what it reads; names of WITH stay as they are."""
    statement = parse(
        "CREATE VIEW w (x) AS WITH q AS (SELECT price FROM bids) SELECT price FROM q", namespace
    )

    assert isinstance(statement, CreateView)
    assert statement.view == View(
        identifier=named("w"),
        columns=("x",),
        query="WITH q AS (SELECT price FROM `default_catalog`.`default_database`.`bids` AS `bids`) "
        "SELECT price FROM q AS `q`".replace(" AS `q`", ""),
    )


def test_an_insert_knows_its_target_columns_and_options(namespace: Namespace) -> None:
    """The query is a tree; the hint is the target's."""
    statement = parse(
        "INSERT INTO sink /*+ OPTIONS('a' = 'b') */ (name, id) SELECT extra, auction AS x FROM bids",
        namespace,
    )

    assert isinstance(statement, InsertInto)
    assert statement.target == named("sink")
    assert statement.columns == ("name", "id")
    assert statement.options == (("a", "b"),)
    assert statement.output == ("extra", "x")
    assert to_text(statement.query) == "SELECT extra, auction AS x FROM bids AS `bids`"


def test_hints_of_a_source_are_read_from_its_node(namespace: Namespace) -> None:
    """The last value of a key counts."""
    statement = parse(
        "SELECT price FROM bids /*+ OPTIONS('a' = '1', 'b' = 'x', 'a' = '2') */ AS b", namespace
    )

    assert isinstance(statement, Select)
    (table,) = [node for node in statement.query.walk() if table_options_or_none(node)]
    assert table_options_or_none(table) == {"a": "2", "b": "x"}


def test_hints_with_options_of_older_releases_are_read_as_todays(
    namespace: Namespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a table that is read and of one that is written; a note says as what."""
    hint = "/*+ OPTIONS('lookup.cache.max-rows' = '5', 'lookup.cache' = 'NONE') */"
    statement = parse(
        f"INSERT INTO sink {hint} (name, id) SELECT extra, auction FROM bids {hint}", namespace
    )

    assert isinstance(statement, InsertInto)
    today = {"lookup.partial-cache.max-rows": "5", "lookup.cache": "NONE"}
    assert dict(statement.options) == today
    (leaf,) = find_relations(statement.query, namespace).leaves
    assert today.items() <= leaf.table.option_map.items()
    assert "lookup.cache.max-rows" not in leaf.table.option_map
    assert sum("lookup.partial-cache.max-rows" in line for line in caplog.messages) == 2


def table_options_or_none(node: object) -> dict[str, str]:
    """The options of a table node; nothing for others."""
    from sqlglot import exp

    return table_options(node) if isinstance(node, exp.Table) else {}


def test_nodes_of_a_query_can_be_placed_later(namespace: Namespace) -> None:
    """A planner that refuses a node points at it; copies know their place, too."""
    statement = parse("SELECT price,\n  bidder FROM bids", namespace)
    assert isinstance(statement, Select)
    copied = statement.query.copy()

    span = span_of(copied.expressions[1])

    assert span is not None
    assert (span.file, span.line, span.column, span.length) == ("a.sql", 2, 3, 6)


@pytest.mark.parametrize(
    ("sql", "kind", "values"),
    [
        (
            "DROP TABLE bids",
            DropTable,
            {"identifier": named("bids"), "if_exists": False, "temporary": False},
        ),
        (
            "DROP VIEW IF EXISTS nothing",
            DropView,
            {"identifier": named("nothing"), "if_exists": True},
        ),
        ("SET 'k' = 'v'", SetOption, {"key": "k", "value": "v"}),
        ("SET", ShowOptions, {}),
        ("RESET 'k'", ResetOption, {"key": "k"}),
        ("RESET", ResetOption, {"key": None}),
        (
            "SHOW TABLES",
            ShowTables,
            {
                "views_only": False,
                "database": "default_database",
                "pattern": None,
                "negated": False,
            },
        ),
        (
            "SHOW TABLES FROM a.b NOT LIKE 'x%'",
            ShowTables,
            {"catalog": "a", "database": "b", "negated": True},
        ),
        (
            "SHOW VIEWS ILIKE 'x'",
            ShowTables,
            {"views_only": True, "pattern": "x", "ignore_case": True},
        ),
        ("SHOW CREATE TABLE bids", ShowCreate, {"identifier": named("bids")}),
        ("SHOW CREATE VIEW halves", ShowCreate, {"identifier": named("halves")}),
        ("DESC EXTENDED halves", Describe, {"identifier": named("halves"), "extended": True}),
        (
            "DESCRIBE default_database.bids",
            Describe,
            {"identifier": named("bids"), "extended": False},
        ),
        ("USE default_database", Use, {"parts": ("default_database",)}),
        ("USE CATALOG default_catalog", Use, {"parts": ("default_catalog", "default_database")}),
    ],
)
def test_the_other_statements_say_what_they_say(
    sql: str, kind: type, values: dict[str, object], namespace: Namespace
) -> None:
    """Names are resolved and looked up."""
    statement = parse(sql, namespace)

    assert isinstance(statement, kind)
    assert {name: getattr(statement, name) for name in values} == values


@pytest.mark.parametrize("refused", UNSUPPORTED)
def test_a_refused_statement_is_named_at_its_first_word(refused: str, namespace: Namespace) -> None:
    """Whatever follows; TEMPORARY in between does not hide it."""
    words = refused.replace("CREATE ", "CREATE TEMPORARY ")

    with pytest.raises(UnsupportedError) as caught:
        parse(f"{words} x (y) AS 'z'", namespace)

    assert caught.value.message == f"{refused} is not supported"
    assert caught.value.span is not None
    assert (caught.value.span.column, caught.value.span.length) == (1, len(words.split()[0]))


def test_a_name_that_is_taken_is_an_error_unless_it_may_be(namespace: Namespace) -> None:
    """IF NOT EXISTS keeps what is there; a temporary table may hide one."""
    with pytest.raises(ObjectExistsError) as caught:
        parse("CREATE TABLE bids (a INT)", namespace)

    assert caught.value.span is not None
    assert caught.value.span.column == 14
    assert isinstance(parse("CREATE TABLE IF NOT EXISTS bids (a INT)", namespace), CreateTable)
    assert isinstance(parse("CREATE TEMPORARY TABLE bids (a INT)", namespace), CreateTable)


def test_a_file_is_checked_as_a_whole_and_nothing_is_taken_over(namespace: Namespace) -> None:
    """Later statements see what earlier ones define; the namespace stays as it was."""
    sql = "CREATE TABLE new (a INT); CREATE VIEW v AS SELECT a FROM new; DROP TABLE auctions; SELECT * FROM v"

    statements = parse_script(sql, "a.sql", namespace)

    assert [type(s) for s in statements] == [CreateTable, CreateView, DropTable, Select]
    assert named("new") not in namespace.tables()
    assert named("auctions") in namespace.tables()


def test_one_error_of_a_statement_comes_alone(namespace: Namespace) -> None:
    """InputErrors is for several."""
    with pytest.raises(UnknownObjectError):
        parse("SELECT prise FROM bids", namespace)
    with pytest.raises(InputErrors):
        parse("SELECT prise, biddr FROM bids", namespace)


def test_a_line_map_places_errors_in_the_template(namespace: Namespace) -> None:
    """The file and line that a person edits."""
    origins = [LineOrigin(file="a.sql", line=1), LineOrigin(file="inc.sql", line=7)]
    with pytest.raises(InputErrors) as caught:
        parse_script("SELECT 1;\nSELECT x FROM bids", "a.sql", namespace, origins)

    (error,) = caught.value.errors
    assert error.span is not None
    assert (error.span.file, error.span.line) == ("inc.sql", 7)


CORPUS = [
    "CREATE TABLE t (a INT, b ROW<c ARRAY<INT>, d STRING 'x'>, e AS a + 1, f BIGINT METADATA FROM 'offset' VIRTUAL, "
    "ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (a) NOT ENFORCED) WITH ('k' = 'v')",
    "SELECT b.price, COUNT(*) FILTER (WHERE ok) AS n FROM bids AS b JOIN auctions a ON b.auction = a.id "
    "WHERE b.price > 1 AND extra LIKE 'x%' GROUP BY b.price HAVING COUNT(*) > 1 ORDER BY n LIMIT 3",
    "INSERT INTO sink (id, name) SELECT window_start, CAST(m[1] AS STRING) FROM TABLE(TUMBLE(TABLE bids, "
    "DESCRIPTOR(ts), INTERVAL '10' MINUTE)) UNION ALL SELECT 1, CASE WHEN TRUE THEN 'a' ELSE 'b' END",
    "CREATE VIEW v (x) AS WITH q AS (SELECT arr[1].x, r.b.c FROM bids /*+ OPTIONS('a' = 'b') */) SELECT * FROM q",
    "SELECT ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts DESC), JSON_VALUE(extra, '$.a' RETURNING INT), "
    "EXTRACT(HOUR FROM ts), price / 2, TIMESTAMPDIFF(DAY, ts, ts) FROM bids WHERE price IN (SELECT id FROM auctions)",
    "SHOW TABLES FROM a NOT LIKE 'x'; SET 'a' = 'b'; DROP TABLE IF EXISTS x; USE CATALOG default_catalog",
]


@pytest.mark.parametrize("seed", range(150))
def test_a_damaged_text_is_an_error_with_a_place_and_never_a_crash(
    seed: int, namespace: Namespace
) -> None:
    """Tokens dropped, doubled, swapped, cut or replaced: a person always gets an answer."""
    dice = random.Random(seed)
    for _ in range(4):
        sql = damaged(dice.choice(CORPUS), dice)
        try:
            parse_script(sql, "a.sql", namespace)
        except InputErrors as errors:
            lines = sql.split("\n")
            for error in errors.errors:
                assert error.span is not None, (sql, error.message)
                assert 1 <= error.span.line <= len(lines), sql
                assert 1 <= error.span.column <= len(lines[error.span.line - 1]) + 1, sql
                assert "sqlglot" not in error.message, sql


def damaged(sql: str, dice: random.Random) -> str:
    """The text with one to three accidents."""
    import re

    parts = re.findall(r"\w+|'[^']*'|\s+|.", sql)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(max(1, len(parts)))
        if not parts:
            break
        match dice.randrange(6):
            case 0:
                del parts[at]
            case 1:
                parts.insert(at, parts[at])
            case 2:
                other = dice.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at] = dice.choice(
                    ["(", ")", ",", "'", "`", "SELECT", "x", "1", "*", "/*+", "\n", "=>", "ö", "::"]
                )
            case 4:
                parts = parts[: at + 1]
            case _:
                parts[at] = parts[at][: len(parts[at]) // 2]
    return "".join(parts)


def test_a_statement_nested_out_of_reason_is_an_error(namespace: Namespace) -> None:
    """Not a crash of Python."""
    with pytest.raises(InputError, match="nested too deeply"):
        parse("SELECT " + "(" * 5000 + "1" + ")" * 5000, namespace)


# --- what the dialect reads and Penstock does not run is refused at its place; the rows of the ---


def place(sql: str) -> str:
    """The part of a statement that it is refused for."""
    (text,) = split(sql, "test.sql")
    with pytest.raises(UnsupportedError) as caught:
        parse_tree(text)
    span = caught.value.span
    assert span is not None
    return sql[span.column - 1 : span.column - 1 + span.length]


def test_a_type_is_refused_where_it_stands() -> None:
    """Inside another type, and as the element of a postfix ARRAY, too."""
    assert place("CREATE TABLE t (a ROW<b RAW('x', 'y')>) WITH ('a' = 'b')") == "RAW('x', 'y')"
    assert place("CREATE TABLE t (a VARIANT ARRAY) WITH ('a' = 'b')") == "VARIANT"


def test_a_value_may_have_a_type_that_a_column_may_not() -> None:
    """PARSE_JSON gives a VARIANT; a query may go on with it."""
    (text,) = split("SELECT CAST(a AS VARIANT) FROM t", "test.sql")

    assert parse_tree(text)


def test_a_table_function_is_refused_at_its_name() -> None:
    """Wherever FROM has one that no user can have registered: of tables, or with the name of a function of Flink's."""
    assert place("SELECT * FROM a JOIN TABLE(UPPER(1)) AS t ON TRUE") == "UPPER(1"
    assert place("SELECT * FROM TABLE(COALESCE(1, 2)) AS t") == "COALESCE(1, 2"
    assert place("SELECT * FROM a, LATERAL TABLE(f(TABLE b)) AS t") == "f(TABLE b"
