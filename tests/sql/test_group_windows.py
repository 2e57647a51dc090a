"""Group windows in statements: checked as the functions that they become, kept as they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputErrors
from penstock.sql.compatibility.tables import TABLES
from penstock.sql.ddl.show_create import show_create
from penstock.sql.dialect import parse_query, to_text
from penstock.sql.lineage.query import lineage_of_query
from penstock.sql.plan.analysis import analyse
from penstock.sql.statements.definitions import AlterView, CreateMaterializedTable
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import CreateView, Select
from tests.sql.sql_objects import new_namespace, parse_script

HOUR = "INTERVAL '1' HOUR"
HOURLY = (
    f"SELECT `auction`, TUMBLE_START(`ts`, {HOUR}) AS `s`, SUM(`price`) AS `total` FROM "
    "`default_catalog`.`default_database`.`bids` AS `bids` GROUP BY `auction`, TUMBLE(`ts`, "
    f"{HOUR})"
)
FUNCTION = (
    f"SELECT auction, window_start AS s, SUM(price) AS total FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), {HOUR})) "
    "GROUP BY auction, window_start, window_end"
)


@pytest.fixture(scope="module")
def namespace() -> Namespace:
    """The tables of the compatibility tables."""
    return new_namespace(TABLES)


def test_a_view_is_kept_as_it_was_written(namespace: Namespace) -> None:
    """With the full names of its tables; so SHOW CREATE VIEW reads back as the same view."""
    sql = f"CREATE VIEW hourly AS {HOURLY}; ALTER VIEW expensive AS {HOURLY}; SELECT s, total FROM hourly WHERE total > 1"
    created, altered, select = parse_script(sql, "a.sql", namespace)
    assert isinstance(created, CreateView)
    assert isinstance(altered, AlterView)
    assert isinstance(select, Select)

    assert created.view.query == altered.after.query == HOURLY
    (again,) = parse_script(show_create(created.view), "a.sql", namespace)
    assert isinstance(again, CreateView)
    assert again.view == created.view
    assert select.output == ("s", "total")


def test_a_materialized_table_is_kept_as_it_was_written(namespace: Namespace) -> None:
    """What fills it is the function."""
    query = HOURLY.replace("SUM(`price`)", "COUNT(*)")
    sql = f"CREATE MATERIALIZED TABLE m WITH ('connector' = 'delta', 'path' = 'm') AS {query}"
    (created,) = parse_script(sql, "a.sql", namespace)
    assert isinstance(created, CreateMaterializedTable)
    assert created.table.materialization is not None

    assert created.table.materialization.query == query
    assert "DESCRIPTOR(`ts`)" in to_text(created.insert.query)


def test_the_plan_is_that_of_the_function(namespace: Namespace) -> None:
    """In a query, in an INSERT and in a view: rows that stay, and no column that is not used."""
    group = f"SELECT auction, TUMBLE_START(ts, {HOUR}) AS s, SUM(price) AS total FROM bids GROUP BY auction, TUMBLE(ts, {HOUR})"
    sql = f"{group}; INSERT INTO totals SELECT auction, total FROM ({group}); CREATE VIEW v AS {group}; {FUNCTION}"
    select, insert, view, function = parse_script(sql, "a.sql", namespace)
    assert isinstance(select, Select)
    assert isinstance(insert, InsertInto)
    assert isinstance(view, CreateView)
    assert isinstance(function, Select)
    queries = (select.query, insert.query, parse_query(view.view.query), function.query)
    plans = [analyse(query, namespace, Path(), appends=True) for query in queries]

    assert {plan.flow.mechanism for plan in plans} == {None}
    assert {plan.leaves[0].columns for plan in plans} == {("auction", "price", "ts")}
    assert {plan.leaves[0].rowtime for plan in plans} == {plans[-1].leaves[0].rowtime}


def test_columns_are_traced_through_the_window(namespace: Namespace) -> None:
    """Those of the window come from the time column."""
    sql = (
        f"SELECT p.name, TUMBLE_END(b.ts, {HOUR}) AS e, MAX(price) AS m FROM bids AS b JOIN people AS p "
        f"ON b.bidder = p.id GROUP BY p.name, TUMBLE(b.ts, {HOUR})"
    )
    (select,) = parse_script(sql, "a.sql", namespace)
    assert isinstance(select, Select)
    columns = lineage_of_query(select.query, namespace).columns or ()

    assert [[s.column for s in flow.sources] for flow in columns] == [["name"], ["ts"], ["price"]]


def test_windows_of_windows_may_have_columns_named_as_those_of_the_function() -> None:
    """As Flink's documentation chains them: the inner window's time is `window_end`, its bound `window_start`."""
    inner = (
        f"SELECT TUMBLE_START(ts, {HOUR}) AS window_start, TUMBLE_ROWTIME(ts, {HOUR}) AS window_end, "
        f"SUM(price) AS total FROM bids GROUP BY TUMBLE(ts, {HOUR})"
    )
    outer = (
        "SELECT TUMBLE_START(window_end, INTERVAL '1' DAY) AS window_start, SUM(total) AS total FROM inner_windows "
        "GROUP BY TUMBLE(window_end, INTERVAL '1' DAY)"
    )
    namespace = new_namespace(f"{TABLES};\nCREATE VIEW inner_windows AS {inner}")
    (select,) = parse_script(outer, "a.sql", namespace)

    assert isinstance(select, Select)
    assert select.output == ("window_start", "total")
    assert analyse(select.query, namespace, Path(), appends=True).leaves


@pytest.mark.parametrize(
    ("sql", "words", "at"),
    [
        (f"SELECT COUNT(*) FROM bids GROUP BY TUMBLE(tss, {HOUR})", "no column 'tss'", "tss"),
        (f"SELECT COUNT(*) FROM bids GROUP BY TUMBLE(price, {HOUR})", "needs a time", "TUMBLE"),
        (
            f"SELECT nam FROM bids JOIN people ON id = bidder GROUP BY nam, TUMBLE(ts, {HOUR})",
            "no column 'nam'",
            "nam FROM",
        ),
        (
            f"SELECT COUNT(*) FROM x GROUP BY TUMBLE(ts, {HOUR})",
            "over a table that has a column window_start",
            "TUMBLE",
        ),
    ],
)
def test_what_is_wrong_is_found_where_it_was_written(
    sql: str, words: str, at: str, namespace: Namespace
) -> None:
    """As in any query."""
    view = "SELECT ts, price AS window_start FROM bids"
    with pytest.raises(InputErrors) as caught:
        parse_script(f"CREATE VIEW x AS {view};\n{sql}", "a.sql", namespace)
    error = caught.value.errors[0]

    assert words in error.message
    assert error.span is not None
    assert sql[error.span.column - 1 :].startswith(at)


def test_the_columns_of_a_window_are_left_out_by_a_query_in_from(namespace: Namespace) -> None:
    """As the error about them says."""
    view = FUNCTION.replace("window_start AS s", "window_start, window_time").replace(
        "BY auction", "BY window_time, auction"
    )
    sql = (
        f"CREATE VIEW w AS {view}; SELECT TUMBLE_START(t, {HOUR}) AS s, SUM(total) AS total "
        f"FROM (SELECT window_time AS t, total FROM w) AS w GROUP BY TUMBLE(t, {HOUR})"
    )
    _, select = parse_script(sql, "a.sql", namespace)
    assert isinstance(select, Select)

    assert select.output == ("s", "total")
