"""Changes into a Delta table with a PRIMARY KEY, batch by batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from delta.exceptions import ConcurrentAppendException, ConcurrentTransactionException
from deltalake import DeltaTable as RustTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as s

from penstock.catalog.errors import SinkError, StateMismatchError
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.delta.merge import MAX_PARTITIONS, Merge, key_literal, measure_keys
from penstock.connector.spark.sink.target_rows import IS_DELETE
from tests.connector.delta.tables import delta_table, rows
from tests.connector.delta.test_connector import commits, prepared

ADD, BEFORE, AFTER, GONE = RowKind
COLUMNS = {"id": "BIGINT", "v": "STRING", "w": "INT"}


def changes(spark: SparkSession, *given: tuple[int, str, RowKind]) -> DataFrame:
    """Changes in their order, in one partition."""
    plain = [(key, value, int(kind)) for key, value, kind in given]
    return spark.createDataFrame(plain, f"id BIGINT, v STRING, {ROW_KIND} TINYINT").coalesce(1)


def actions(path: Path, version: int, kind: str) -> list[dict[str, Any]]:
    """The actions of one kind in a commit."""
    log = path / "_delta_log" / f"{version:020}.json"
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return [action[kind] for action in found if kind in action]


def test_the_last_change_of_a_key_wins(spark: SparkSession, tmp_path: Path) -> None:
    """Deletes delete, so does an update-before with nothing after it; a key that is not there is no error."""
    sink = prepared(spark, delta_table(columns=COLUMNS, key=("id",)), tmp_path)
    sink.write(
        spark.sql("SELECT * FROM VALUES (1L, 'a', 10), (2L, 'b', 20), (3L, 'c', 30) AS t(id, v, w)")
    )
    sink.write(
        changes(
            spark,
            *((1, "old", BEFORE), (1, "new", AFTER)),
            *((2, "b", GONE), (2, "back", ADD)),
            *((3, "c", AFTER), (3, "c", BEFORE)),
            *((4, "d", ADD), (4, "d", GONE)),
            *((5, "e", GONE), (6, "f", ADD)),
        )
    )

    assert rows(spark, tmp_path / "orders") == [(1, "new", None), (2, "back", None), (6, "f", None)]


def test_rows_without_a_kind_replace_those_of_their_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As an aggregate gives them; columns of the table that are not declared stay as they are."""
    made = delta_table(columns={**COLUMNS, "extra": "STRING"}, key=("id",))
    prepared(spark, made, tmp_path).write(
        spark.sql("SELECT 1L AS id, 'a' AS v, 1 AS w, 'x' AS extra")
    )
    sink = prepared(spark, delta_table(columns=COLUMNS, key=("id",)), tmp_path)
    sink.write(spark.sql("SELECT 2 AS w, 'b' AS v, 1L AS id"))
    sink.write(spark.range(3, 4))

    assert rows(spark, tmp_path / "orders") == [(1, "b", 2, "x"), (3, None, None, None)]


def test_a_table_may_be_all_key(spark: SparkSession, tmp_path: Path) -> None:
    """There is nothing to update then."""
    sink = prepared(spark, delta_table(columns={"a": "INT", "b": "DATE"}, key=("b", "a")), tmp_path)
    sink.write(spark.sql("SELECT 1 AS a, DATE'2026-01-01' AS b"))
    sink.write(spark.sql("SELECT id AS a, DATE'2026-01-01' AS b FROM range(0, 3)"))

    assert [row[0] for row in rows(spark, tmp_path / "orders")] == [0, 1, 2]


def test_new_keys_are_only_added(spark: SparkSession, tmp_path: Path) -> None:
    """Files that cannot hold them are not even read, and no file is written again."""
    table = delta_table(
        columns={"id": "BIGINT", "day": "STRING"}, key=("day", "id"), partition_keys=("day",)
    )
    sink = prepared(spark, table, tmp_path)
    sink.write(spark.sql("SELECT id, 'mon' AS day FROM range(10)"))
    sink.write(spark.sql("SELECT id, 'mon' AS day FROM range(-10, 0)"))
    sink.write(spark.sql("SELECT id, 'tue' AS day FROM range(10)"))
    path = tmp_path / "orders"
    told = [actions(path, version, "commitInfo")[0] for version in (1, 2, 3)]

    assert [len(actions(path, version, "remove")) for version in (1, 2, 3)] == [0, 0, 0]
    assert {info["operationMetrics"]["numTargetRowsCopied"] for info in told} == {"0"}
    assert [">= -10" in info["operationParameters"]["predicate"] for info in told] == [
        False,
        True,
        False,
    ]
    assert len(rows(spark, path)) == 30


@pytest.mark.parametrize("column", ["id", "v"])
def test_a_null_that_may_not_be_is_refused_with_its_column(
    spark: SparkSession, tmp_path: Path, column: str
) -> None:
    """In the key also where the row says delete; nothing is written."""
    table = delta_table(columns={"id": "BIGINT", "v": "STRING NOT NULL"}, key=("id",))
    sink = prepared(spark, table, tmp_path)
    row = changes(spark, (1, "x", GONE if column == "id" else ADD))
    with pytest.raises(SinkError, match=rf"\b{column}\b") as caught:
        sink.write(
            row.selectExpr(
                f"nullif({column}, {column}) AS {column}", *(c for c in row.columns if c != column)
            )
        )

    assert caught.value.hint
    assert rows(spark, tmp_path / "orders") == []


def test_any_reader_reads_a_table_without_deletion_vectors(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The oldest protocol: no feature that a reader would have to know."""
    options = {"delta.enableDeletionVectors": "false"}
    sink = prepared(spark, delta_table(columns=COLUMNS, key=("id",), options=options), tmp_path)
    sink.write(changes(spark, (1, "a", ADD), (2, "b", ADD)))
    sink.write(changes(spark, (1, "a", GONE), (2, "c", AFTER)))
    table = RustTable(str(tmp_path / "orders"))

    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    assert table.to_pyarrow_table().to_pylist() == [{"id": 2, "v": "c", "w": None}]


def test_deletion_vectors_and_clustering_are_options(spark: SparkSession, tmp_path: Path) -> None:
    """An update marks the old row instead of writing its file again; a table that is not so is refused."""
    options = {"delta.enableDeletionVectors": "true", "clustering.columns": "id"}
    table = delta_table(columns=COLUMNS, key=("id",), options=options)
    path = tmp_path / "orders"
    sink = prepared(spark, table, tmp_path)
    prepared(spark, table, tmp_path)
    sink.write(spark.range(100))
    sink.write(changes(spark, (7, "seven", AFTER)))
    laid_out = [a["domainMetadata"] for a in commits(path) if "domainMetadata" in a]

    assert any(add.get("deletionVector") for add in actions(path, 2, "add"))
    assert '"id"' in laid_out[0]["configuration"]  # type: ignore[index]
    assert (7, "seven", None) in rows(spark, path)
    elsewise = {"clustering.columns": "v"}
    with pytest.raises(StateMismatchError, match="it is clustered by id, declared is v"):
        prepared(spark, delta_table(columns=COLUMNS, key=("id",), options=elsewise), tmp_path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waits between attempts."""
    monkeypatch.setattr("penstock.connector.delta.merge.RETRY_DELAYS_MS", (0, 0))


def failing(error: type[Exception], times: int) -> Callable[..., None]:
    """A MERGE that meets another writer so many times, and then goes through."""
    left = [times]

    def merge(*_: object) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise error("desc")

    return merge


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("error", "times", "message"),
    [
        (ConcurrentAppendException, 2, None),
        (ConcurrentAppendException, 3, r"each of 3 attempts .*ConcurrentAppendException"),
        (ConcurrentTransactionException, 1, "another run of this query wrote the same batch"),
    ],
)
def test_a_conflict_is_tried_again_for_a_while(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
    times: int,
    message: str | None,
) -> None:
    """Then it is an error that names it; the same query elsewhere is one at once."""
    monkeypatch.setattr(Merge, "_merge", failing(error, times))
    sink = prepared(spark, delta_table(columns=COLUMNS, key=("id",)), tmp_path)
    if message is None:
        sink.write(spark.range(3))
    else:
        with pytest.raises(SinkError, match=message):
            sink.write(spark.range(3))


def test_writers_of_one_table_wait_for_each_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both want the same new keys at the same moment: one comes first, and no key is there twice."""
    sink = prepared(spark, delta_table(columns=COLUMNS, key=("id",)), tmp_path)
    both, merge = threading.Barrier(2, timeout=60), Merge._merge
    met: set[int] = set()

    def meeting(*arguments: Any) -> None:
        if threading.get_ident() not in met:
            met.add(threading.get_ident())
            both.wait()
        merge(*arguments)

    monkeypatch.setattr(Merge, "_merge", meeting)
    writers = [
        threading.Thread(
            target=sink.write,
            args=(spark.newSession().sql(f"SELECT id, '{name}' AS v FROM range(50)"),),
        )
        for name in ("a", "b")
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    found = rows(spark, tmp_path / "orders")

    assert [row[0] for row in found] == list(range(50))
    assert len({row[1] for row in found}) == 1


# --- bounds of a batch's keys, as Delta can skip files by them ---


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        (s.ByteType(), -3, "-3Y"),
        (s.ShortType(), 3, "3S"),
        (s.IntegerType(), 3, "3"),
        (s.LongType(), -(2**63), "-9223372036854775808L"),
        (s.StringType(), "Zoë", "'Zoë'"),
        (s.DateType(), "2026-01-02", "DATE '2026-01-02'"),
        (s.TimestampNTZType(), "2026-01-02 03:04:05.6", "TIMESTAMP_NTZ '2026-01-02 03:04:05.6'"),
        (s.TimestampType(), -1, "TIMESTAMP '1969-12-31 23:59:59.999999Z'"),
    ],
)
def test_a_value_is_a_literal_of_its_own_type(kind: s.DataType, value: Any, literal: str) -> None:
    """A cast around either side would hide it from data skipping."""
    assert key_literal(kind, value) == literal


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (s.LongType(), None),
        (s.StringType(), "O'Brien"),
        (s.StringType(), "a\\b"),
        (s.StringType(), "${x}"),
        (s.DateType(), "+10000-01-01"),
        (s.DateType(), "-0001-01-01"),
        (s.TimestampType(), 2**62),
        (s.TimestampType(), -(2**55)),
        (s.DecimalType(10, 2), "1.00"),
        (s.DoubleType(), 1.0),
        (s.BinaryType(), b"x"),
    ],
)
def test_what_cannot_be_told_exactly_is_not_bounded(kind: s.DataType, value: Any) -> None:
    """A bound that is read otherwise than it was meant would leave out a file that holds the key."""
    assert key_literal(kind, value) is None


def test_a_batch_tells_where_its_keys_are(spark: SparkSession) -> None:
    """Lowest and highest, the partitions one by one while they are few; columns with NULL; deletes."""
    many = spark.range(MAX_PARTITIONS + 1).selectExpr(
        "id AS n",
        "CAST(id % 2 AS STRING) AS few",
        "CAST(id AS INT) AS many",
        "DATE'2026-01-01' AS day",
        "nullif(timestamp_micros(id), timestamp_micros(5)) AS at",
        f"id < 3 AS {IS_DELETE}",
    )
    found = measure_keys(many, ("n", "few", "many", "day", "at"), ("few", "many"))

    assert found.rows == MAX_PARTITIONS + 1
    assert found.deletes == 3
    assert found.without == ("at",)
    assert found.within == (
        "t.`n` >= 0L AND t.`n` <= 100L",
        "t.`few` IN ('0', '1')",
        "t.`many` >= 0 AND t.`many` <= 100",
        "t.`day` >= DATE '2026-01-01' AND t.`day` <= DATE '2026-01-01'",
        "t.`at` >= TIMESTAMP '1970-01-01 00:00:00.000000Z' AND "
        "t.`at` <= TIMESTAMP '1970-01-01 00:00:00.000100Z'",
    )
