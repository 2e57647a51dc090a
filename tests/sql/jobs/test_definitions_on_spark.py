"""Tables that are made of queries, replaced and renamed, in databases and catalogs of their own, with their rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.catalog.errors import InputError, InputErrors
from penstock.sql.session.session import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = "WITH ('connector' = 'delta', 'path' = '{0}')"


def test_a_table_has_the_rows_of_its_query(spark: SparkSession, project: Path) -> None:
    """CREATE ... AS, REPLACE ... AS with other columns, RENAME; what fails makes no table."""
    with connect(spark) as session:

        def rows(query: str) -> list[tuple[Any, ...]]:
            frame = session.sql(query)
            return sorted(tuple(row) for row in frame.collect())  # type: ignore[union-attr]

        session.sql("CREATE DATABASE sales")
        session.sql("USE sales")
        made = DELTA.format(project / "t")
        session.sql(
            f"CREATE TABLE t (note STRING) {made} AS SELECT 1 AS id, 'a' AS name UNION ALL SELECT 2, 'b'"
        )
        assert rows("SELECT * FROM t") == [(None, 1, "a"), (None, 2, "b")]
        session.sql(f"CREATE TABLE IF NOT EXISTS t {made} AS SELECT 3 AS id")
        assert rows("SELECT id FROM sales.t") == [(1,), (2,), (3,)]
        session.sql(f"REPLACE TABLE t (note STRING) {made} AS SELECT 9 AS id, 'c' AS name")
        assert rows("SELECT * FROM t") == [(None, 9, "c")]
        with pytest.raises(InputError, match="is not the declared table"):
            session.sql(f"REPLACE TABLE t {made} AS SELECT 'only' AS label")
        assert rows("SELECT * FROM t") == [(None, 9, "c")]
        session.sql(f"REPLACE TABLE t {DELTA.format(project / 't2')} AS SELECT 'only' AS label")
        assert rows("SELECT * FROM t") == [("only",)]
        session.sql("INSERT INTO t VALUES ('more')")
        session.sql("ALTER TABLE t RENAME TO u")
        assert rows("SELECT label FROM u") == [("more",), ("only",)]
        with pytest.raises(InputError):
            session.sql(f"CREATE TABLE v {made} AS SELECT nothing FROM u")
        with pytest.raises(InputError, match=r"cannot be overwritten"):
            session.sql("REPLACE TABLE u WITH ('connector' = 'blackhole') AS SELECT 1 AS x")
        session.sql("CREATE CATALOG memory WITH ('type' = 'generic_in_memory')")
        session.sql(
            f"CREATE TABLE memory.`default`.c {DELTA.format(project / 'c')} AS SELECT 'kept' AS label"
        )
        assert rows("SELECT * FROM memory.`default`.c") == [("kept",)]

        assert [str(one) for one in session.catalog.tables()] == ["default_catalog.sales.u"]


def test_a_file_makes_and_fills_tables(spark: SparkSession, project: Path) -> None:
    """All of it is checked first: a file with a fault changes nothing."""
    good = project / "good.sql"
    good.write_text(
        f"CREATE DATABASE d; USE d; CREATE TABLE t {DELTA.format(project / 'f')} AS SELECT 1 AS id;"
        "CREATE VIEW v AS SELECT id FROM t; ALTER TABLE t ADD later INT; ALTER TABLE t SET ('path' = 'g');"
    )
    bad = project / "bad.sql"
    bad.write_text("CREATE DATABASE e; ALTER TABLE d.t DROP id;")
    with connect(spark) as session:
        session.run_file(good)
        with pytest.raises(InputErrors, match=r"the view .* would no longer be right"):
            session.run_file(bad)

        assert session.namespace.databases() == ["d", "default_database"]
        table = session.namespace.lookup(session.namespace.resolve(["d", "t"]))
        assert table.schema.names == ("id", "later")  # type: ignore[union-attr]
        assert spark.read.format("delta").load(str(project / "f")).collect() == [(1,)]
