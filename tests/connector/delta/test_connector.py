"""Writing into real Delta tables: created as declared, checked, appended to exactly once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.catalog.errors import (
    ConfigError,
    DefinitionError,
    InputError,
    OptionError,
    PenstockError,
    SinkError,
    StateMismatchError,
    UnknownObjectError,
)
from penstock.catalog.model.table import Schema, Table
from penstock.connector.contract import Continuous, EngineSource, Sink, SinkSettings, SourceKind
from penstock.connector.delta.connector import DeltaConnector
from penstock.connector.delta.table import stored_schema
from penstock.connector.spark.types import spark_schema
from tests.connector.delta.tables import commented, delta_table, forget, rows, run_to_end
from tests.connector.delta.test_definition import EVERY_TYPE


def sink_of(table: Table, project: Path) -> Sink:
    connector = DeltaConnector(project=project)
    connector.check(table)
    return connector.sink(table)


def query_of(table: Table) -> StructType:
    """What a query gives that fills all columns."""
    return spark_schema(table.schema.physical)


def prepared(spark: SparkSession, table: Table, project: Path) -> Sink:
    sink = sink_of(table, project)
    sink.prepare(spark, query_of(table))
    return sink


def commits(path: Path) -> list[dict[str, object]]:
    """The actions of all commits, in order."""
    logs = sorted((path / "_delta_log").glob("*.json"))
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


def test_a_table_is_made_as_it_is_declared(spark: SparkSession, tmp_path: Path) -> None:
    """Types, comments, NOT NULL, partitioning, properties; twice is once."""
    schema = Schema(
        columns=(
            commented("id", "BIGINT NOT NULL", "the order's number"),
            commented("day", "DATE", "it's a day"),
            commented("lines", "ROW<sku STRING NOT NULL 'what', n INT> NOT NULL", "nested"),
        )
    )
    table = delta_table(
        "orders",
        schema=schema,
        partition_keys=("day",),
        comment="All orders",
        options={"delta.appendOnly": "true", "delta.logRetentionDuration": "interval 7 days"},
    )
    prepared(spark, table, tmp_path)
    prepared(spark, table, tmp_path)
    made = DeltaTable.forPath(spark, str(tmp_path / "orders"))
    detail = made.detail().collect()[0]

    assert made.toDF().schema == spark_schema(schema.columns)
    assert detail["partitionColumns"] == ["day"]
    assert detail["description"] == "All orders"
    assert detail["properties"] == {
        "delta.appendOnly": "true",
        "delta.checkpointInterval": "1000",
        "delta.logRetentionDuration": "interval 7 days",
    }
    assert made.history().count() == 1


def test_every_type_is_stored_and_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """What a definition may hold, Delta holds."""
    table = delta_table(columns=EVERY_TYPE, partition_keys=("n",))
    prepared(spark, table, tmp_path)

    assert spark.read.format("delta").load(str(tmp_path / "orders")).schema == stored_schema(table)


def test_null_among_elements_stays_null(spark: SparkSession, tmp_path: Path) -> None:
    """Delta would store it as 0 if it were told that there is none."""
    table = delta_table(columns={"a": "ARRAY<INT NOT NULL>", "m": "MAP<STRING, INT NOT NULL>"})
    sink = prepared(spark, table, tmp_path)
    sink.write(spark.sql("SELECT array(1, NULL) AS a, map('x', CAST(NULL AS INT)) AS m"))

    assert rows(spark, tmp_path / "orders") == [([1, None], {"x": None})]


def test_a_table_whose_elements_would_lose_their_nulls_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Somebody else may have made it; a query without NULL among the elements may go on."""
    table = delta_table(columns={"a": "ARRAY<INT NOT NULL>"})
    path = str(tmp_path / "orders")
    DeltaTable.create(spark).location(path).addColumns(query_of(table)).execute()
    sink = sink_of(table, tmp_path)
    sink.prepare(spark, spark.sql("SELECT array(1, 2) AS a").schema)
    with pytest.raises(StateMismatchError, match="elements in its column a are NOT NULL"):
        sink.prepare(spark, spark.sql("SELECT array(1, NULL) AS a").schema)


ORDERS = {"id": "BIGINT NOT NULL", "amount": "DECIMAL(10, 2)", "day": "DATE"}


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (delta_table(columns=ORDERS | {"note": "STRING"}), "has no column note"),
        (
            delta_table(columns=ORDERS | {"amount": "DOUBLE"}),
            "column amount has type decimal(10,2), declared is double",
        ),
        (
            delta_table(columns=ORDERS | {"id": "BIGINT"}),
            "column id is NOT NULL, declared is nullable",
        ),
        (
            delta_table(columns=ORDERS | {"amount": "DECIMAL(10, 2) NOT NULL"}),
            "column amount is nullable",
        ),
        (
            delta_table(columns={"amount": "DECIMAL(10, 2)"}),
            "column id that is NOT NULL and not declared",
        ),
        (
            delta_table(columns=ORDERS, partition_keys=("day",)),
            "it is not partitioned, declared is PARTITIONED BY (day)",
        ),
        (
            delta_table(columns=ORDERS, options={"delta.appendOnly": "true"}),
            "property delta.appendOnly is not set, declared is 'true'",
        ),
    ],
    ids=["missing", "type", "nullable", "not null", "undeclared", "partitioning", "property"],
)
def test_another_table_in_the_place_is_refused_and_left_as_it_is(
    spark: SparkSession, tmp_path: Path, declared: Table, message: str
) -> None:
    """The error says which column or property differs, and what to do."""
    prepared(spark, delta_table(columns=ORDERS), tmp_path)
    before = commits(tmp_path / "orders")
    with pytest.raises(StateMismatchError) as caught:
        prepared(spark, declared, tmp_path)

    assert message in caught.value.message
    assert "default_database.orders" in caught.value.message
    assert caught.value.hint
    assert commits(tmp_path / "orders") == before


def test_what_delta_adds_by_itself_is_no_difference(spark: SparkSession, tmp_path: Path) -> None:
    """Order and case of columns, columns that are not declared and may be NULL, protocol settings."""
    made = delta_table(
        columns={"Day": "DATE", "id": "BIGINT NOT NULL", "extra": "STRING"},
        options={"delta.feature.allowColumnDefaults": "supported"},
    )
    prepared(spark, made, tmp_path)
    sink = prepared(
        spark,
        delta_table(
            columns={"ID": "BIGINT NOT NULL", "day": "DATE"},
            options={
                "delta.feature.allowColumnDefaults": "supported",
                "delta.minReaderVersion": "1",
            },
        ),
        tmp_path,
    )
    sink.write(spark.sql("SELECT 7L AS ID, DATE'2026-01-02' AS day"))
    found = (
        spark.read.format("delta").load(str(tmp_path / "orders")).select("id", "extra").collect()
    )

    assert [tuple(row) for row in found] == [(7, None)]


def test_leaving_out_a_column_that_is_not_null_is_an_error_before_the_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """INSERT INTO t (a) is fine where the others may be NULL."""
    sink = sink_of(delta_table(columns=ORDERS), tmp_path)
    sink.prepare(spark, spark.sql("SELECT 1L AS id").schema)
    with pytest.raises(DefinitionError, match="leaves out column id"):
        sink.prepare(spark, spark.sql("SELECT DATE'2026-01-01' AS day").schema)


def in_the_way(path: Path) -> None:
    path.mkdir()
    (path / "part.parquet").write_text("x")


def a_file(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")


def nothing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize(
    ("table", "before", "kind", "message"),
    [
        (delta_table(), in_the_way, StateMismatchError, "no Delta table"),
        (delta_table(), a_file, StateMismatchError, "no Delta table"),
        (delta_table(options={"delta.nope": "1"}), nothing, OptionError, "delta.nope"),
        (delta_table(options={"delta.appendOnly": "maybe"}), nothing, OptionError, "maybe"),
        (delta_table("nofs://host/orders"), nothing, ConfigError, "no file system for nofs://host"),
        (
            delta_table("s3a://AKIA:hunter2@bucket/x"),
            nothing,
            ConfigError,
            "no file system for s3a://",
        ),
    ],
    ids=["files", "file", "property", "value", "scheme", "jars"],
)
def test_a_place_that_cannot_take_the_table_is_an_error_in_words(
    spark: SparkSession,
    tmp_path: Path,
    table: Table,
    before: Callable[[Path], None],
    kind: type[InputError],
    message: str,
) -> None:
    """No stack trace, no class names, no keys of a URL."""
    before(tmp_path / "orders")
    with pytest.raises(kind) as caught:
        prepared(spark, table, tmp_path)

    assert message in caught.value.message
    assert "hunter2" not in caught.value.message
    assert "Exception" not in caught.value.message
    assert "\n" not in caught.value.message


def test_a_place_that_cannot_be_reached_may_be_tried_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A folder below a file stands for any failure of a file system."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(PenstockError) as caught:
        prepared(spark, delta_table("file/orders"), tmp_path)

    assert isinstance(caught.value, SinkError)
    assert "file/orders" in caught.value.message


def test_a_batch_is_appended_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """Each write adds; NULL where NOT NULL is declared is refused with the column."""
    sink = prepared(spark, delta_table(columns=ORDERS), tmp_path)
    frame = spark.sql(
        "SELECT DATE'2026-01-01' AS day, 1L AS id, CAST(2.5 AS DECIMAL(10, 2)) AS amount"
    )
    sink.write(frame)
    sink.write(frame)
    with pytest.raises(Exception, match="NOT NULL constraint violated for column: id"):
        sink.write(frame.selectExpr("CAST(NULL AS BIGINT) AS id"))

    assert [row[0] for row in rows(spark, tmp_path / "orders")] == [1, 1]


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Callable[..., None]:
    """Appends numbers to a Delta table that queries of the tests read as a stream."""

    def append(*numbers: int) -> None:
        frame = spark.createDataFrame([(n,) for n in numbers], "id BIGINT")
        frame.write.format("delta").mode("append").save(str(tmp_path / "feed"))

    return append


def test_a_stream_goes_on_where_it_stopped(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """Its query is known by its name; the next run takes what is new."""
    sink = prepared(spark, delta_table(columns={"id": "BIGINT NOT NULL"}), tmp_path)
    settings = run_to_end(tmp_path / "checkpoint", name="shop/orders")
    for numbers in ((1, 2), (3,), ()):
        if numbers:
            feed(*numbers)
        query = sink.start(spark.readStream.format("delta").load(str(tmp_path / "feed")), settings)
        assert query.name == "shop/orders"
        query.awaitTermination()

    assert rows(spark, tmp_path / "orders") == [(1,), (2,), (3,)]


def test_a_batch_that_is_replayed_is_taken_once(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """A driver that dies after Delta's commit and before Spark's replays the batch, and changes nothing."""
    feed(1, 2, 3)
    sink = prepared(spark, delta_table(columns={"id": "BIGINT NOT NULL"}), tmp_path)
    settings = run_to_end(tmp_path / "checkpoint")

    def run() -> str:
        query = sink.start(spark.readStream.format("delta").load(str(tmp_path / "feed")), settings)
        query.awaitTermination()
        return str(query.id)

    first = run()
    version = DeltaTable.forPath(spark, str(tmp_path / "orders")).history(1).collect()[0]["version"]
    for path in (tmp_path / "checkpoint" / "commits").iterdir():
        path.unlink()
    second = run()
    found = [action["txn"] for action in commits(tmp_path / "orders") if "txn" in action]

    assert first == second
    assert [(txn["appId"], txn["version"]) for txn in found] == [(first, 0)]  # type: ignore[index]
    assert rows(spark, tmp_path / "orders") == [(1,), (2,), (3,)]
    assert (
        DeltaTable.forPath(spark, str(tmp_path / "orders")).history(1).collect()[0]["version"]
        == version
    )


def test_a_continuous_stream_runs_until_it_is_stopped(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """Batch after batch."""
    feed(1)
    sink = prepared(spark, delta_table(columns={"id": "BIGINT NOT NULL"}), tmp_path)
    query = sink.start(
        spark.readStream.format("delta").load(str(tmp_path / "feed")),
        SinkSettings(
            checkpoint=str(tmp_path / "checkpoint"),
            query_name="q",
            trigger=Continuous(interval_ms=10),
        ),
    )
    query.processAllAvailable()
    feed(2)
    query.processAllAvailable()

    assert query.isActive
    query.stop()
    assert rows(spark, tmp_path / "orders") == [(1,), (2,)]


def test_a_null_where_none_is_allowed_ends_the_stream(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """Delta checks every row and names the column."""
    feed(1)
    sink = prepared(spark, delta_table(columns={"id": "BIGINT NOT NULL"}), tmp_path)
    frame = spark.readStream.format("delta").load(str(tmp_path / "feed"))
    query = sink.start(frame.selectExpr("nullif(id, 1) AS id"), run_to_end(tmp_path / "checkpoint"))
    with pytest.raises(
        StreamingQueryException, match="NOT NULL constraint violated for column: id"
    ):
        query.awaitTermination()

    assert rows(spark, tmp_path / "orders") == []


def test_a_table_that_is_gone_is_not_made_anew(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """The checkpoint would go on in the middle, without a word about the rows before."""
    feed(1)
    sink = sink_of(delta_table(columns={"id": "BIGINT NOT NULL"}), tmp_path)
    with pytest.raises(StateMismatchError, match="is gone"):
        sink.start(
            spark.readStream.format("delta").load(str(tmp_path / "feed")),
            run_to_end(tmp_path / "checkpoint"),
        )

    assert not (tmp_path / "orders").exists()


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_table_that_was_made_anew_is_not_gone_on_with(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None], key: tuple[str, ...]
) -> None:
    """As above, when the next run has made an empty one in its place."""
    feed(1)
    append(spark, tmp_path, "checkpoint", key)
    shutil.rmtree(tmp_path / "orders")
    with pytest.raises(StateMismatchError, match="has written 1 batches to it"):
        append(spark, tmp_path, "checkpoint", key)

    assert rows(spark, tmp_path / "orders") == []


def test_a_copy_of_a_checkpoint_that_the_table_is_ahead_of_is_refused(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """Delta has the batch that the copy would plan next, and would pass over its rows."""
    feed(1)
    append(spark, tmp_path, "checkpoint")
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    feed(2)
    append(spark, tmp_path, "checkpoint")
    feed(3)
    with pytest.raises(StateMismatchError, match="is only at batch 0"):
        append(spark, tmp_path, "copy")
    append(spark, tmp_path, "checkpoint")

    assert rows(spark, tmp_path / "orders") == [(1,), (2,), (3,)]


def put_back(spark: SparkSession, folder: Path) -> None:
    """Put the backup in the place of the table."""
    shutil.rmtree(folder / "orders")
    shutil.copytree(folder / "backup", folder / "orders")
    forget(spark, folder / "orders")


def test_an_older_copy_of_a_table_that_lacks_committed_batches_is_refused(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """Also one that is newer than the last start: each batch is a commit, of whatever rows."""
    feed(1)
    append(spark, tmp_path, "checkpoint")
    shutil.copytree(tmp_path / "orders", tmp_path / "backup")
    feed(2)
    append(spark, tmp_path, "checkpoint")
    put_back(spark, tmp_path)
    feed(3)
    with pytest.raises(StateMismatchError, match="has batch 0 of this query as its last one"):
        append(spark, tmp_path, "checkpoint")

    assert rows(spark, tmp_path / "orders") == [(1,)]


@pytest.mark.parametrize("name", ["id", "ID"])
def test_batches_without_rows_are_commits(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None], name: str
) -> None:
    """Also those of Delta's own writer, which takes other columns: a start compares the last one with the checkpoint."""
    sink = prepared(spark, delta_table(columns={"id": "BIGINT"}), tmp_path)
    for number in (1, 2, 3):
        feed(number)
        frame = spark.readStream.format("delta").load(str(tmp_path / "feed")).where("id < 2")
        frame = frame.selectExpr(f"id AS {name}")
        sink.start(frame, run_to_end(tmp_path / "checkpoint")).awaitTermination()
    found = [action["txn"] for action in commits(tmp_path / "orders") if "txn" in action]

    assert [one["version"] for one in found] == [0, 1, 2]  # type: ignore[index]
    assert rows(spark, tmp_path / "orders") == [(1,)]


def test_a_key_that_is_dropped_over_a_checkpoint_is_no_older_copy(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """Batches of upserts without rows were no commits; those of appends from then on are, and are asked for."""

    def run(number: int, key: tuple[str, ...]) -> None:
        feed(number)
        sink = prepared(spark, delta_table(columns={"id": "BIGINT NOT NULL"}, key=key), tmp_path)
        found = spark.readStream.format("delta").load(str(tmp_path / "feed")).where("id <> 2")
        sink.start(found, run_to_end(tmp_path / "checkpoint")).awaitTermination()

    run(1, ("id",))
    run(2, ("id",))
    shutil.copytree(tmp_path / "orders", tmp_path / "backup")
    run(3, ())
    run(4, ())
    assert rows(spark, tmp_path / "orders") == [(1,), (3,), (4,)]
    put_back(spark, tmp_path)
    with pytest.raises(StateMismatchError, match="an older copy"):
        run(5, ())


def test_the_first_batch_behind_a_dropped_key_is_asked_for(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """A copy of before it is as far as the start noted, and lacks it all the same."""
    feed(1)
    append(spark, tmp_path, "checkpoint", ("id",))
    shutil.copytree(tmp_path / "orders", tmp_path / "backup")
    feed(2)
    append(spark, tmp_path, "checkpoint")
    put_back(spark, tmp_path)
    with pytest.raises(StateMismatchError, match="has committed batch 1: it is an older copy"):
        append(spark, tmp_path, "checkpoint")


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_table_that_is_made_again_under_a_query_ends_it(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None], key: tuple[str, ...]
) -> None:
    """By its next batch: it lacks the rows of those before."""
    feed(1)
    table = delta_table(columns={"id": "BIGINT NOT NULL"}, key=key)
    sink = prepared(spark, table, tmp_path)
    query = sink.start(
        spark.readStream.format("delta").load(str(tmp_path / "feed")),
        SinkSettings(
            checkpoint=str(tmp_path / "checkpoint"),
            query_name="again",
            trigger=Continuous(interval_ms=10),
        ),
    )
    query.processAllAvailable()
    shutil.rmtree(tmp_path / "orders")
    forget(spark, tmp_path / "orders")
    prepared(spark, table, tmp_path)
    feed(2)
    with pytest.raises(StreamingQueryException, match="was removed and created again"):
        query.processAllAvailable()

    assert rows(spark, tmp_path / "orders") == []


def append(spark: SparkSession, folder: Path, checkpoint: str, key: tuple[str, ...] = ()) -> None:
    """Run what the feed holds into the table, to its end."""
    sink = prepared(spark, delta_table(columns={"id": "BIGINT NOT NULL"}, key=key), folder)
    feed = spark.readStream.format("delta").load(str(folder / "feed"))
    sink.start(feed, run_to_end(folder / checkpoint)).awaitTermination()


def test_a_folder_inside_a_delta_table_is_no_place_for_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its files would be taken for the outer table's."""
    prepared(spark, delta_table(columns=ORDERS), tmp_path)
    with pytest.raises((InputError, PySparkException)):
        prepared(spark, delta_table("orders/inner", columns=ORDERS), tmp_path)


# --- reading real Delta tables, once and as streams ---


NUMBERS = {"id": "BIGINT"}


def source_of(table: Table, project: Path) -> EngineSource:
    connector = DeltaConnector(project=project)
    connector.check(table)
    source = connector.source(table)
    assert source.kind is SourceKind.ENGINE
    return source  # type: ignore[return-value]


def append_numbers(spark: SparkSession, path: Path, *numbers: int) -> None:
    frame = spark.createDataFrame([(n, str(n)) for n in numbers], "id BIGINT, text STRING")
    frame.write.format("delta").mode("append").save(str(path))


def drain(frame: DataFrame, project: Path) -> list[tuple[Any, ...]]:
    """Run a stream to its end and give what it read so far."""
    query = (
        frame.writeStream.format("delta")
        .option("checkpointLocation", str(project / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(project / "copy"))
    )
    query.awaitTermination()
    return rows(frame.sparkSession, project / "copy")


def test_the_declared_columns_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """By name, in the order and case of the declaration; a scan has an end."""
    append_numbers(spark, tmp_path / "orders", 1, 2)
    source = source_of(delta_table(columns={"TEXT": "STRING", "id": "BIGINT"}), tmp_path)
    frame = source.frame(spark, streaming=False)

    assert source.bounded
    assert frame.columns == ["TEXT", "id"]
    assert sorted(tuple(row) for row in frame.collect()) == [("1", 1), ("2", 2)]


def test_a_stream_reads_what_is_appended(spark: SparkSession, tmp_path: Path) -> None:
    """First all there is, then what is new."""
    source = source_of(delta_table(columns=NUMBERS), tmp_path)
    append_numbers(spark, tmp_path / "orders", 1, 2)
    assert drain(source.frame(spark, streaming=True), tmp_path) == [(1,), (2,)]
    append_numbers(spark, tmp_path / "orders", 3)

    assert drain(source.frame(spark, streaming=True), tmp_path) == [(1,), (2,), (3,)]


def test_a_stream_starts_where_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """A read once is of the whole table, whatever the options say of streams."""
    for number in (1, 2, 3):
        append_numbers(spark, tmp_path / "orders", number)
    for run, (options, read) in enumerate(
        (
            ({"scan.starting-version": "1", "scan.max-files-per-batch": "1"}, [(2,), (3,)]),
            ({"startingVersion": "2"}, [(3,)]),
            ({"scan.starting-timestamp": "2020-01-01 00:00:00"}, [(1,), (2,), (3,)]),
        )
    ):
        table = delta_table(tmp_path / "orders", columns=NUMBERS, options=options)
        source = source_of(table, tmp_path)

        assert drain(source.frame(spark, streaming=True), tmp_path / str(run)) == read
        assert source.frame(spark, streaming=False).count() == 3


def test_a_stream_does_not_pass_over_changed_rows(spark: SparkSession, tmp_path: Path) -> None:
    """An update told as appended rows would count them twice."""
    append_numbers(spark, tmp_path / "orders", 1, 2)
    source = source_of(delta_table(columns=NUMBERS), tmp_path)
    drain(source.frame(spark, streaming=True), tmp_path)
    DeltaTable.forPath(spark, str(tmp_path / "orders")).update("id = 1", {"id": "10"})
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        drain(source.frame(spark, streaming=True), tmp_path)


def test_a_table_that_was_not_written_yet_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    """Reading does not make it; a stream has nothing to begin at."""
    table = delta_table(columns={"id": "BIGINT NOT NULL", "tags": "ARRAY<STRING NOT NULL>"})
    source = source_of(table, tmp_path)
    frame = source.frame(spark, streaming=False)
    with pytest.raises(UnknownObjectError, match="no Delta table at"):
        source.frame(spark, streaming=True)

    assert frame.collect() == []
    assert frame.schema == stored_schema(table)
    assert not (tmp_path / "orders").exists()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"id": "INT"}, "column id has type bigint, declared is int"),
        ({"id": "BIGINT", "more": "STRING"}, "has no column more; its columns are: id, text"),
    ],
)
def test_a_table_that_is_not_the_declared_one_is_refused(
    spark: SparkSession, tmp_path: Path, declared: dict[str, str], message: str
) -> None:
    """Before anything runs, naming the column."""
    append_numbers(spark, tmp_path / "orders", 1)
    for streaming in (False, True):
        with pytest.raises(StateMismatchError) as caught:
            source_of(delta_table(columns=declared), tmp_path).frame(spark, streaming=streaming)
        assert message in caught.value.message


def test_names_with_dots_and_backticks_are_names(spark: SparkSession, tmp_path: Path) -> None:
    """They are no paths into rows."""
    spark.sql("SELECT 1 AS `a.b`, 2 AS `c``d`").write.format("delta").save(str(tmp_path / "orders"))
    source = source_of(delta_table(columns={"a.b": "INT", "c`d": "INT"}), tmp_path)

    assert [tuple(row) for row in source.frame(spark, streaming=False).collect()] == [(1, 2)]
