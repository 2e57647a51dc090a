"""Writing into SQLite and into a real PostgreSQL: every value, by key, exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Connection

from penstock.catalog.errors import ConfigError, DefinitionError, SinkError, StateMismatchError
from penstock.connector.changelog import ROW_KIND
from penstock.connector.contract import AvailableNow, MicroBatch, SinkSettings
from penstock.connector.jdbc.database import JdbcDatabase
from penstock.connector.jdbc.sink import JdbcSink
from penstock.sql.errors.spark import is_permanent, translate
from tests.connector.jdbc.conftest import TestDatabase
from tests.connector.jdbc.tables import COLUMNS, jdbc_table, sink_of
from tests.connector.spark.micro_batches import QUERY, micro_batch

CREATE = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(10))"


def orders(
    database: TestDatabase,
    *,
    key: tuple[str, ...] = ("id",),
    types: dict[str, str] = COLUMNS,
    **options: str,
) -> JdbcSink:
    sink = sink_of(jdbc_table({**database.options, **options}, types=types, key=key))
    assert isinstance(sink, JdbcSink)
    return sink


def rows(spark: SparkSession, *values: tuple[int, str | None]) -> DataFrame:
    return spark.createDataFrame(list(values), "id BIGINT, name STRING").coalesce(1)


def changes(spark: SparkSession, *values: tuple[int, str | None, int]) -> DataFrame:
    kind = f"id BIGINT, name STRING, {ROW_KIND} TINYINT"
    return spark.createDataFrame(list(values), kind).coalesce(1)


def held(database: TestDatabase) -> list[tuple[object, ...]]:
    return database.execute("SELECT id, name FROM orders ORDER BY id, name")


def test_every_value_arrives(spark: SparkSession, database: TestDatabase) -> None:
    """Texts that look like something else, NULL beside the empty text, bytes, times, in pieces of two rows."""
    database.execute(
        "CREATE TABLE orders (id BIGINT, name TEXT, amount NUMERIC(10, 2), ok BOOLEAN, day DATE, "
        f"at TIMESTAMP, instant {'TIMESTAMPTZ' if 'username' in database.options else 'TEXT'}, "
        f"raw {'BYTEA' if 'username' in database.options else 'BLOB'}, x DOUBLE PRECISION)"
    )
    types = {
        "id": "BIGINT",
        "name": "STRING",
        "amount": "DECIMAL(10, 2)",
        "ok": "BOOLEAN",
        "day": "DATE",
        "at": "TIMESTAMP(6)",
        "instant": "TIMESTAMP_LTZ(3)",
        "raw": "BYTES",
        "x": "DOUBLE",
    }
    texts = ["", "\\N", "\\.", 'a,"b"\nc', "NULL", "ü\t"]
    some = (
        "CAST(1.5 AS DECIMAL(10, 2)) AS amount",
        "true AS ok",
        "DATE'2026-01-31' AS day",
        "TIMESTAMP_NTZ'2026-01-31 10:00:00.123456' AS at",
        "TIMESTAMP'2026-01-31 10:00:00+02:00' AS instant",
        "X'00ff5c' AS raw",
        "CAST(0.1 AS DOUBLE) AS x",
    )
    frame = spark.createDataFrame(list(enumerate(texts)), "id BIGINT, name STRING")
    sink = orders(database, key=(), types=types, **{"sink.buffer-flush.max-rows": "2"})
    sink.write(frame.selectExpr("*", *some))
    sink.write(spark.sql("SELECT CAST(NULL AS BIGINT) AS id, CAST(NULL AS STRING) AS name"))
    names = database.execute("SELECT name FROM orders WHERE id IS NOT NULL ORDER BY id")
    empty = database.execute("SELECT name, amount, ok, raw FROM orders WHERE id IS NULL")
    ((amount, ok, day, at, raw, x),) = database.execute(
        "SELECT amount, ok, day, at, raw, x FROM orders WHERE id = 0"
    )
    moment = "instant AT TIME ZONE 'UTC'" if "username" in database.options else "instant"
    ((instant,),) = database.execute(f"SELECT {moment} FROM orders WHERE id = 0")

    assert [name for (name,) in names] == texts
    assert empty == [(None, None, None, None)]
    assert (float(amount), bool(ok), str(day), bytes(raw), x) == (
        1.5,
        True,
        "2026-01-31",
        b"\x00\xff\\",
        0.1,
    )
    assert (str(at), str(instant)) == ("2026-01-31 10:00:00.123456", "2026-01-31 08:00:00")


def test_the_last_change_of_a_key_decides(
    spark: SparkSession, database: TestDatabase, tmp_path: Path
) -> None:
    """Within a batch and over batches; -U alone is a delete, of which only the key counts."""
    database.execute(CREATE)
    sink = orders(database)
    sink.prepare(spark, changes(spark).schema)
    first = [(1, "a", 0), (2, "b", 0), (3, "c", 0), (1, "a", 1), (1, "A", 2), (4, "d", 0)]
    second = [(2, None, 3), (3, "c", 1), (4, None, 3), (4, "D", 0), (5, "e", 0), (5, "e", 3)]
    sink.write_batch(changes(spark, *first), micro_batch(spark, tmp_path / "c", 0))
    sink.write_batch(changes(spark, *second), micro_batch(spark, tmp_path / "c", 1))
    sink.write_batch(rows(spark, (6, "x"), (6, "f")), micro_batch(spark, tmp_path / "c", 2))

    assert held(database) == [(1, "A"), (4, "D"), (6, "f")]


def test_a_batch_that_is_replayed_is_taken_once(
    spark: SparkSession, database: TestDatabase, tmp_path: Path
) -> None:
    """The ledger has it: without a key, too. A ledger that does not fit the checkpoint is refused."""
    database.execute("CREATE TABLE orders (id BIGINT, name VARCHAR(10))")
    sink = orders(database, key=())
    sink.prepare(spark, rows(spark).schema)
    batch = micro_batch(spark, tmp_path / "c", 0)
    for _ in range(2):
        sink.write_batch(rows(spark, (1, "a")), batch)
    sink.write_batch(rows(spark, (2, "b")), micro_batch(spark, tmp_path / "c", 1))
    with pytest.raises(StateMismatchError, match="rows in between are gone"):
        sink.write_batch(rows(spark, (9, "x")), micro_batch(spark, tmp_path / "c", 5))
    ledger = database.execute("SELECT application_id, batch_id FROM penstock_ledger")

    assert held(database) == [(1, "a"), (2, "b")]
    assert ledger == [(QUERY, 1)]


def test_a_batch_that_fails_leaves_nothing(
    spark: SparkSession, database: TestDatabase, tmp_path: Path
) -> None:
    """Rows and ledger are one transaction: the reason is the query's own, and the replay writes all."""
    database.execute(CREATE)
    sink = orders(database, **{"sink.buffer-flush.max-rows": "1"})
    sink.prepare(spark, rows(spark).schema)
    batch = micro_batch(spark, tmp_path / "c", 0)
    frame = rows(spark, (1, "a"), (2, "b"))
    with pytest.raises(Exception, match="broken here"):
        sink.write_batch(
            frame.selectExpr("IF(id = 2, raise_error('broken here'), id) AS id", "name"), batch
        )
    assert held(database) == []
    sink.write_batch(frame, batch)

    assert held(database) == [(1, "a"), (2, "b")]


def test_a_lost_answer_to_a_commit_doubles_nothing(
    spark: SparkSession,
    database: TestDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The transaction is tried again, and finds itself in the ledger."""
    database.execute("CREATE TABLE orders (id BIGINT, name VARCHAR(10))")
    sink = orders(database, key=(), **{"sink.max-retries": "1"})
    sink.prepare(spark, rows(spark).schema)
    real, attempts = JdbcDatabase._transaction, []

    def losing(self: JdbcDatabase, engine: object, work: object) -> object:
        result = real(self, engine, work)  # type: ignore[arg-type]
        attempts.append(result)
        if len(attempts) == 1:
            raise engine.dialect.loaded_dbapi.OperationalError("no answer")  # type: ignore[attr-defined]
        return result

    monkeypatch.setattr(JdbcDatabase, "_transaction", losing)
    sink.write_batch(rows(spark, (1, "a")), micro_batch(spark, tmp_path / "c", 0))

    assert len(attempts) == 2
    assert held(database) == [(1, "a")]


def test_a_lost_answer_to_the_commit_of_values_doubles_nothing(
    spark: SparkSession, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no batch: a row of the ledger with an id of their own stands for one, and goes when all is well."""
    database.execute("CREATE TABLE orders (id BIGINT, name VARCHAR(10))")
    sink = orders(database, key=(), **{"sink.max-retries": "2"})
    sink.prepare(spark, rows(spark).schema)
    real, attempts = JdbcDatabase._transaction, []

    def losing(self: JdbcDatabase, engine: object, work: object) -> object:
        attempts.append(work)
        if len(attempts) == 1:  # lost before the commit: nothing is there

            def broken(connection: Connection) -> None:
                work(connection)  # type: ignore[operator]
                raise engine.dialect.loaded_dbapi.OperationalError("lost")  # type: ignore[attr-defined]

            return real(self, engine, broken)  # type: ignore[arg-type]
        result = real(self, engine, work)  # type: ignore[arg-type]
        if len(attempts) == 2:
            raise engine.dialect.loaded_dbapi.OperationalError("no answer")  # type: ignore[attr-defined]
        return result

    monkeypatch.setattr(JdbcDatabase, "_transaction", losing)
    sink.write(rows(spark, (1, "a")))
    sink.write(rows(spark, (1, "a")))

    assert held(database) == [(1, "a"), (1, "a")]
    assert database.execute("SELECT application_id FROM penstock_ledger") == []


def test_a_text_that_postgresql_cannot_hold_is_named_with_its_column(
    spark: SparkSession, postgresql_database: TestDatabase, tmp_path: Path
) -> None:
    """The character U+0000: nothing is written, the pipeline stops for good, and says how it can go on."""
    postgresql_database.execute(CREATE)
    sink = orders(postgresql_database)
    sink.prepare(spark, rows(spark).schema)
    batch = micro_batch(spark, tmp_path / "c", 0)
    with pytest.raises(Exception, match="penstock") as caught:
        sink.write_batch(rows(spark, (1, "a"), (2, "b\0c")), batch)
    refused = translate(caught.value)
    before = held(postgresql_database)
    cleaned = rows(spark, (1, "a"), (2, "b\0c")).selectExpr("id", "replace(name, chr(0)) AS name")
    sink.write_batch(cleaned, batch)

    assert isinstance(refused, SinkError)
    assert is_permanent(refused)
    assert "U+0000 in column name" in refused.message
    assert "'b\\x00c'" in refused.message
    assert "REPLACE(`name`, CHR(0), '')" in (refused.hint or "")
    assert before == []
    assert held(postgresql_database) == [(1, "a"), (2, "bc")]


@pytest.mark.parametrize(
    ("create", "part"),
    [
        (None, "there is no table orders"),
        ("CREATE TABLE orders (id BIGINT PRIMARY KEY)", "no column name"),
        ("CREATE TABLE orders (id BIGINT, name TEXT)", "no primary key or unique index"),
    ],
)
def test_a_table_that_is_not_the_declared_one_is_refused(
    spark: SparkSession, database: TestDatabase, create: str | None, part: str
) -> None:
    """Before the query starts."""
    database.execute("CREATE TABLE other (id BIGINT)")
    if create is not None:
        database.execute(create)
    with pytest.raises(StateMismatchError, match=part):
        orders(database).prepare(spark, rows(spark).schema)
    with pytest.raises(DefinitionError, match="leaves out"):
        orders(database).prepare(spark, rows(spark).select("name").schema)


def test_rows_that_the_database_refuses_end_the_query_for_good(
    spark: SparkSession, postgresql_database: TestDatabase
) -> None:
    """A text too long for its column; the server's words, and no way around by trying again."""
    postgresql_database.execute(CREATE)
    with pytest.raises(SinkError, match="too long") as caught:
        orders(postgresql_database).write(rows(spark, (1, "x" * 11)))

    assert caught.value.permanent


def test_a_server_that_is_not_there_may_come_back(spark: SparkSession) -> None:
    """Not so a database that does not exist: that is the option's fault."""
    options = {"url": "jdbc:postgresql://127.0.0.1:1/shop", "sink.max-retries": "0"}
    sink = sink_of(jdbc_table({**options, "username": "app", "password": "hunter2"}))
    with pytest.raises(SinkError) as caught:
        sink.prepare(spark, rows(spark).schema)

    assert "hunter2" not in str(caught.value)


def test_a_database_that_does_not_exist_is_a_mistake_in_the_options(
    spark: SparkSession, postgresql_database: TestDatabase
) -> None:
    """Nothing is started."""
    url = postgresql_database.options["url"].replace("/postgres?", "/nope?")
    with pytest.raises(ConfigError, match='"nope" does not exist'):
        orders(postgresql_database, url=url).prepare(spark, rows(spark).schema)


def test_a_stream_fills_a_table(
    spark: SparkSession, postgresql_database: TestDatabase, tmp_path: Path
) -> None:
    """Started twice on one checkpoint: each row once, under the query's own id."""
    postgresql_database.execute(CREATE)
    sink = orders(postgresql_database)
    seen: list[MicroBatch] = []
    settings = SinkSettings(
        checkpoint=str(tmp_path / "checkpoint"),
        query_name="q",
        trigger=AvailableNow(),
        after_batch=seen.append,
    )
    for first in (0, 5):
        frame = spark.range(first, first + 5).selectExpr("id", "CAST(id AS STRING) AS name")
        frame.write.mode("append").json(str(tmp_path / "in"))
        stream = spark.readStream.schema("id BIGINT, name STRING").json(str(tmp_path / "in"))
        sink.prepare(spark, stream.schema)
        sink.start(stream, settings).awaitTermination()
    ledger = postgresql_database.execute("SELECT application_id, batch_id FROM penstock_ledger")

    assert held(postgresql_database) == [(n, str(n)) for n in range(10)]
    assert ledger == [(seen[0].query_id, 1)]


def test_the_connection_is_given_back(sqlite_database: TestDatabase) -> None:
    """A transaction leaves no lock behind; a file that is not there is not made."""
    database = JdbcDatabase(
        address=orders(sqlite_database).table.address,
        username=None,
        password=None,
        connect_timeout_s=2,
        retries=0,
        shown="t",
    )

    def work(connection: Connection) -> int:
        return len(connection.exec_driver_sql("SELECT 1").all())

    with pytest.raises(ConfigError, match="no such file"):
        database.run(work)
    sqlite_database.execute("CREATE TABLE before (id INT)")

    assert database.run(work) == 1
    sqlite_database.execute("CREATE TABLE free (id INT)")
