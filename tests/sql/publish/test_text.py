"""Tables and views as Spark SQL: what is selected, renamed, refused. Starts no Spark."""

from __future__ import annotations

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import quoted
from penstock.catalog.model.table import Table, View
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.changelog import ChangelogMode
from penstock.sql.convert.statement import parse_statement
from penstock.sql.execution.ddl import define
from penstock.sql.publish.text import PublishedName, empty_text, scanned_text, view_text
from penstock.sql.script.splitter import split

ORDERS = """
CREATE TEMPORARY TABLE orders (id BIGINT, at TIMESTAMP(3), day AS CAST(at AS DATE)
  {key}) WITH ('connector' = 'filesystem', 'path' = 'orders', 'format' = 'json')"""


def names(*definitions: str) -> Namespace:
    """A namespace with these temporary objects."""
    namespace = Namespace(SqlCatalog("sqlite://"))
    for text in definitions:
        (statement,) = split(text, "test")
        define(parse_statement(statement, namespace), namespace)
    return namespace


def orders(key: str = "") -> tuple[Namespace, Table]:
    """The table, and where it is known."""
    namespace = names(ORDERS.format(key=key))
    found = namespace.lookup(namespace.resolve(("orders",)))
    assert isinstance(found, Table)
    return namespace, found


def written(query: str) -> str:
    """A view over orders, which is published as `home`.`orders`, as Spark SQL."""
    namespace, table = orders()
    view = View(identifier=namespace.resolve(("v",)), query=query)
    return view_text(
        view, namespace, {table.identifier: PublishedName(database="home", name="orders")}
    )


def test_computed_columns_are_written_over_what_the_records_hold() -> None:
    """In the table's order."""
    _, table = orders()
    text = scanned_text(table, "r", changes=ChangelogMode.INSERT_ONLY, counts_skipped=False)

    assert text == "SELECT `id`, `at`, CAST(`at` AS DATE) AS `day` FROM r"


def test_grouping_sets_are_sparks_own_and_group_id_is_written_out() -> None:
    """Spark has no GROUP_ID."""
    own = written("SELECT id, COUNT(*) AS n FROM orders GROUP BY ROLLUP (id)")
    text = written("SELECT GROUP_ID() AS g FROM orders GROUP BY GROUPING SETS ((id), (id))")

    assert own.endswith("GROUP BY ROLLUP (`id`)")
    assert "LATERAL EXPLODE(ARRAY(0, 1))" in text
    assert "GROUP_ID" not in text.upper().replace("`GROUP_ID", "")


def test_rows_that_only_count_bad_records_are_left_out() -> None:
    """They have NULL in every column of the table."""
    _, table = orders()
    text = scanned_text(table, "r", changes=ChangelogMode.INSERT_ONLY, counts_skipped=True)

    assert text.endswith("FROM (SELECT * FROM r WHERE `__skipped` IS NULL)")


def test_rows_that_only_count_lost_records_are_left_out() -> None:
    _, table = orders()
    text = scanned_text(
        table, "r", changes=ChangelogMode.INSERT_ONLY, counts_skipped=False, counts_lost=True
    )

    assert text.endswith("FROM (SELECT * FROM r WHERE `__lost` IS NULL)")


def test_changes_need_a_key() -> None:
    """The newest row of each is what the table holds, unless it is a delete."""
    _, keyed = orders(", PRIMARY KEY (id) NOT ENFORCED")
    text = scanned_text(keyed, "r", changes=ChangelogMode.UPSERT, counts_skipped=False)

    assert "PARTITION BY `id` ORDER BY __at DESC" in text
    assert "`__row_kind` <> 3" in text
    with pytest.raises(UnsupportedError, match="without a PRIMARY KEY"):
        scanned_text(orders()[1], "r", changes=ChangelogMode.ALL, counts_skipped=False)


def test_a_view_reads_published_names() -> None:
    """An alias stays; a table without one keeps its own name for the query's columns."""
    assert written("SELECT orders.id FROM orders") == (
        "SELECT `orders`.`id` FROM `home`.`orders` AS `orders`"
    )
    assert "FROM `home`.`orders` AS `o`" in written("SELECT o.id FROM orders AS o")


@pytest.mark.parametrize(
    ("function", "window"),
    [
        ("TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '5' MINUTE)", "'300000 milliseconds', '300000 milliseconds', '0"),
        ("HOP(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)", "'300000 milliseconds', '60000 milliseconds'"),
        ("CUMULATE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)", "sequence(__pane.start + INTERVAL '60.000' SECOND"),
    ],
)  # fmt: skip
def test_a_windowing_function_is_a_query_of_its_own(function: str, window: str) -> None:
    """With the three columns of the window behind the table's."""
    text = written(f"SELECT window_start, id FROM TABLE({function})")

    assert window in text
    assert "FROM `home`.`orders` AS `orders`) WHERE `at` IS NOT NULL" in text
    assert "AS window_time" in text


def test_what_spark_has_no_words_for_is_refused() -> None:
    """Hints change how a table is read; a table that is not published has no name."""
    with pytest.raises(UnsupportedError, match="OPTIONS"):
        written("SELECT id FROM orders /*+ OPTIONS('source.monitor-interval' = '1 s') */")
    namespace, table = orders()
    view = View(identifier=namespace.resolve(("v",)), query="SELECT id FROM orders")
    with pytest.raises(UnsupportedError, match="is not published"):
        view_text(view, namespace, {})
    assert table.identifier.name == "orders"


def test_names_are_quoted_whatever_they_are() -> None:
    """A backtick in a name does not end it."""
    assert quoted("a`b") == "`a``b`"
    assert empty_text([("a`b", "int")]) == "SELECT CAST(NULL AS int) AS `a``b` WHERE false"
