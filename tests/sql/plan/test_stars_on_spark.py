"""Stars whose readers name their columns, on Spark: the same answers, and no other column is decoded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.sql.session.session import connect

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BIDS = """
CREATE TABLE bids (id BIGINT, item STRING, broken INT, price INT, ts TIMESTAMP(3), twice AS price * 2,
  WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE TABLE kept (a INT, b AS a + 1, c INT) WITH ('connector' = 'delta', 'path' = 'kept');
CREATE VIEW all_bids AS SELECT * FROM bids;
"""
BEST = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC) AS n FROM bids)"
WINDOW = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
QUERIES = {
    f"SELECT item, id FROM {BEST} WHERE n = 1": {("a", 3), ("b", 2)},
    f"SELECT b.id, c.twice FROM {BEST} AS b JOIN all_bids AS c ON b.id = c.id WHERE b.n = 2": {(1, 10)},
    f"SELECT item, SUM(price) FROM (SELECT * FROM {WINDOW}) AS w GROUP BY item, window_start, window_end": {
        ("a", 12),
        ("b", 6),
    },
    "SELECT id FROM all_bids AS a WHERE EXISTS (SELECT * FROM bids AS b WHERE b.price > a.price)": {(1,), (2,)},
    "SELECT COUNT(*) FROM all_bids": {(3,)},
    "SELECT COUNT(*) FROM (SELECT a.* FROM all_bids AS a CROSS JOIN bids) AS x": {(9,)},
}  # fmt: skip


def test_a_star_answers_as_its_names_do(spark: SparkSession, project: Path) -> None:
    """One table has a column that cannot be decoded, which nobody asks for; one computes a column amid the others."""
    rows = [
        {"id": n, "item": item, "broken": "x", "price": price, "ts": "2024-01-01 00:00:00"}
        for n, item, price in ((1, "a", 5), (2, "b", 6), (3, "a", 7))
    ]
    (project / "bids").mkdir()
    (project / "bids" / "1.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (project / "tables.sql").write_text(BIDS, encoding="utf-8")
    with connect(spark) as session:
        session.run_file(project / "tables.sql")
        found = {
            query: {tuple(row) for row in session.sql(query).collect()}  # type: ignore[union-attr]
            for query in QUERIES
        }
        shown = [
            session.sql(query).columns  # type: ignore[union-attr]
            for query in ("SELECT * FROM kept", "SELECT r, p FROM kept AS k (p, q, r)")
        ]

    assert found == QUERIES
    assert shown == [["a", "b", "c"], ["r", "p"]]
