"""Which statement sets run as one query: those whose rows are a function of the rows of the batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.sql.dialect import parse_query, to_spark_query
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.statement_set import SeparateQueries, SharedRead, read_of, reading, share
from tests.sql.sql_objects import new_namespace

TABLE = """
CREATE TABLE {name} (
  id BIGINT, url STRING, at TIMESTAMP(3), twice AS id * 2, WATERMARK FOR at AS at
) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:1', 'format' = 'json',
        'scan.startup.mode' = 'earliest-offset');
"""


@pytest.fixture(scope="module")
def namespace() -> Namespace:
    """Two tables and a view."""
    view = "CREATE VIEW even AS SELECT id, url FROM clicks WHERE MOD(id, 2) = 0"
    return new_namespace(TABLE.format(name="clicks") + TABLE.format(name="views") + view)


def analysed(namespace: Namespace, *texts: str) -> list[AnalysedQuery]:
    """The queries of a set, analysed."""
    return [analyse(parse_query(text), namespace, Path(), appends=True) for text in texts]


@pytest.mark.parametrize(
    "second",
    [
        "SELECT id, INITCAP(url) FROM clicks WHERE id > 3",
        "SELECT url, id FROM even",
        "SELECT id, url FROM clicks UNION ALL SELECT id, url FROM even",
        "WITH c AS (SELECT id, url FROM clicks) SELECT id, url FROM c",
    ],
)
def test_filters_and_projections_of_one_table_share_its_read(
    namespace: Namespace, second: str
) -> None:
    """What is read is what any of them needs, what a computed column needs included."""
    way = share(analysed(namespace, "SELECT twice FROM clicks", second), Path())

    assert isinstance(way, SharedRead)
    assert way.leaf.columns == ("id", "url")
    assert set(way.leaf.computed) == {"twice"}


@pytest.mark.parametrize(
    ("column", "shared"),
    [
        ("UUID()", False),
        ("RAND()", False),
        ("RANDN()", False),
        ("CAST(RAND_INTEGER(9) AS STRING)", False),
        ("PROCTIME()", True),
    ],
)
def test_chance_in_a_computed_column_is_seen(column: str, shared: bool) -> None:
    """Each sink would have another value for one record; the time is kept with the batch. Views are looked through."""
    table = TABLE.format(name="clicks").replace("twice AS id * 2", f"c AS {column}")
    names = new_namespace(table + "CREATE VIEW v AS SELECT c AS d, id FROM clicks")
    ways = [
        share(analysed(names, "SELECT id FROM clicks", text), Path())
        for text in ("SELECT c FROM clicks", "SELECT d FROM v")
    ]
    unread = share(analysed(names, "SELECT id FROM clicks", "SELECT url FROM clicks"), Path())

    assert [isinstance(way, SharedRead) for way in ways] == [shared] * 2
    assert all(isinstance(way, SharedRead) or "the column c AS" in way.reason for way in ways)
    assert isinstance(unread, SharedRead)


def test_chance_in_a_view_is_seen(namespace: Namespace) -> None:
    """Though the INSERT itself has none."""
    namespace = new_namespace(
        TABLE.format(name="clicks") + "CREATE VIEW v AS SELECT id, UUID() AS u FROM clicks"
    )
    way = share(analysed(namespace, "SELECT id FROM clicks", "SELECT u FROM v"), Path())

    assert isinstance(way, SeparateQueries)
    assert "chance" in way.reason


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ("SELECT id FROM views", "different tables"),
        ("SELECT id FROM clicks /*+ OPTIONS('scan.startup.mode' = 'latest-offset') */", "options"),
        ("SELECT 1", "no table"),
        (
            "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, window_end",
            "keeps state",
        ),
        ("SELECT a.id FROM clicks AS a JOIN clicks AS b ON a.id = b.id", "keeps state"),
        ("SELECT id FROM clicks WHERE at < CURRENT_TIMESTAMP", "current time"),
        ("SELECT RAND() FROM clicks", "chance"),
        ("SELECT SHUFFLE(ARRAY[id]) FROM clicks", "chance"),
        ("SELECT id FROM clicks WHERE id IN (SELECT id FROM clicks)", "is maintained"),
    ],
)
def test_others_are_a_query_per_insert(namespace: Namespace, second: str, reason: str) -> None:
    """In words why."""
    way = share(analysed(namespace, "SELECT id FROM clicks", second), Path())

    assert isinstance(way, SeparateQueries)
    assert reason in way.reason


def test_an_insert_is_evaluated_over_the_batch(namespace: Namespace) -> None:
    """The view of the batch takes the table's place, under the name that the query calls it by."""
    (query,) = analysed(namespace, "SELECT c.id, url FROM clicks AS c WHERE c.id > 3")

    text = to_spark_query(reading(query, "batch"))

    assert "batch" in text
    assert "`c`" in text
    assert "clicks" not in text
    assert len(read_of(query.leaves[0]).leaves) == 1


def test_a_table_keeps_the_names_that_an_insert_gives_its_columns(namespace: Namespace) -> None:
    """They go by position, so that all of it is read."""
    queries = analysed(
        namespace, "SELECT d FROM clicks AS t (a, b, c, d)", "SELECT id, url FROM clicks"
    )
    way = share(queries, Path())

    assert isinstance(way, SharedRead)
    assert (way.leaf.columns, set(way.leaf.computed)) == (("id", "url", "at"), {"twice"})
    assert to_spark_query(reading(queries[0], "batch")) == (
        "SELECT `d` FROM `batch` AS `t`(`a`, `b`, `c`, `d`)"
    )
