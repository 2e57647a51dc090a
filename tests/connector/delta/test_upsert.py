"""Upserts by position: one commit of files and deletion vectors, beside whoever else writes the table."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from delta.exceptions import ConcurrentAppendException
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import PenstockError, QueryFailedError, SinkError, StateMismatchError
from penstock.catalog.model.table import Table
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.delta import compaction, upsert
from penstock.connector.delta.connector import DeltaConnector, DeltaSink
from penstock.connector.delta.files import key_index
from penstock.connector.delta.transaction import CONFLICTS, Transaction
from penstock.connector.delta.writer import DeltaWriter
from penstock.connector.spark.session import configured
from tests.connector.delta.tables import delta_table, rows
from tests.connector.delta.test_connector import prepared
from tests.connector.delta.test_merge import actions
from tests.connector.spark.micro_batches import micro_batch

COLUMNS = {"id": "BIGINT", "v": "STRING"}
THREE = {"spark.databricks.delta.autoCompact.minNumFiles": "3"}
Change = tuple[int, str | None]
"""A key with its value; None deletes it."""


class Upserted:
    """A table with a key, batches that go into it, and a model of its rows."""

    def __init__(self, spark: SparkSession, folder: Path, table: Table | None = None) -> None:
        self.spark = spark
        self.folder = folder
        self.path = folder / "orders"
        self.table = table or delta_table(columns=COLUMNS, key=("id",))
        self.writer = self.opened()
        self.number = 0
        self.ends = False
        self.model: dict[int, str] = {}

    @property
    def sink(self) -> DeltaSink:
        """Another sink of the table, as that of a process that begins."""
        sink = prepared(self.spark, self.table, self.folder)
        assert isinstance(sink, DeltaSink)
        return sink

    def opened(self) -> DeltaWriter:
        """Another writer of the table, as that of a process that begins."""
        writer = self.sink.writer
        writer.check_resumes(self.spark, str(self.folder / "checkpoint"), "", notes=False)
        return writer

    def frame(self, changes: Iterable[Change]) -> DataFrame:
        given = [
            (key, value, int(RowKind.DELETE if value is None else RowKind.INSERT))
            for key, value in changes
        ]
        return self.spark.createDataFrame(given, f"id BIGINT, v STRING, {ROW_KIND} TINYINT")

    def write(self, *changes: Change, writer: DeltaWriter | None = None) -> None:
        """Write the next batch."""
        self.replay(self.number, *changes, writer=writer)
        self.number += 1
        for key, value in changes:
            if value is None:
                self.model.pop(key, None)
            else:
                self.model[key] = value

    def replay(self, number: int, *changes: Change, writer: DeltaWriter | None = None) -> None:
        batch = micro_batch(self.spark, self.folder / "checkpoint", number)
        batch = replace(batch, ends=self.ends)
        (writer or self.writer).write_batch(self.frame(changes).coalesce(1), batch)

    def sql(self, text: str) -> None:
        """Change the table by SQL of Spark, in which it is {t}."""
        self.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def replace_table(self) -> None:
        """Put an empty table with the same columns and properties in its place, by SQL of Spark."""
        properties = self.spark.sql(f"SHOW TBLPROPERTIES delta.`{self.path}`").collect()
        told = ", ".join(
            f"'{row.key}' = '{row.value}'"
            for row in properties
            if row.key.startswith("delta.")
            and not row.key.startswith(("delta.feature", "delta.min"))
        )
        columns = "(id BIGINT NOT NULL, v STRING)"
        self.sql(f"REPLACE TABLE {{t}} {columns} USING delta TBLPROPERTIES ({told})")

    def sql_again(self, text: str) -> None:
        """Change it likewise, as a program that tries again where a compaction was first."""
        for left in reversed(range(5)):
            try:
                self.sql(text)
            except CONFLICTS:
                if not left:
                    raise
            else:
                return

    def check(self) -> None:
        """The rows are those of the model, for readers and for the next writer."""
        assert rows(self.spark, self.path) == sorted(self.model.items())

    @property
    def version(self) -> int:
        return int(DeltaTable.forPath(self.spark, str(self.path)).history(1).collect()[0][0])

    @property
    def operation(self) -> str:
        history = DeltaTable.forPath(self.spark, str(self.path)).history(1)
        return str(history.collect()[0]["operation"])

    def last(self, kind: str) -> list[dict[str, Any]]:
        """The actions of the last commit."""
        return actions(self.path, self.version, kind)


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> Upserted:
    return Upserted(spark, tmp_path)


def test_a_batch_is_one_commit_of_new_files_and_vectors(orders: Upserted) -> None:
    """The file of the row before stays; one without other rows is removed, and a delete of nothing changes nothing."""
    orders.write((1, "a"), (2, "b"), (3, "c"))
    assert orders.version == 1
    orders.write((2, "new"), (3, None), (4, "d"), (9, None))

    assert orders.version == 2
    orders.check()
    removed, added = orders.last("remove"), orders.last("add")
    old = next(add for add in added if "deletionVector" in add)
    assert [remove["path"] for remove in removed] == [old["path"]]
    assert old["deletionVector"]["cardinality"] == 2
    assert json.loads(old["stats"])["tightBounds"] is False
    assert orders.last("txn")[0]["version"] == 1
    assert "penstock" in orders.last("commitInfo")[0]["userMetadata"]

    orders.write((1, "last"))
    assert [r["deletionVector"]["cardinality"] for r in orders.last("remove")] == [2]
    assert all("deletionVector" not in add for add in orders.last("add"))
    orders.check()
    before = orders.version
    orders.write((77, None))
    assert orders.version == before + 1
    assert orders.last("add") == []
    orders.write()
    assert orders.version == before + 1
    orders.check()


def test_the_last_change_of_a_key_in_a_batch_wins(orders: Upserted) -> None:
    """As MERGE has it."""
    orders.write((1, "a"), (1, "b"), (2, "c"), (2, None), (3, None), (3, "d"))

    orders.check()
    assert orders.model == {1: "b", 3: "d"}


def test_others_write_the_table_in_between(orders: Upserted) -> None:
    """Files that they removed are forgotten, files that they added are read, their vectors are kept."""
    orders.write(*((key, "first") for key in range(20)))
    orders.sql("DELETE FROM {t} WHERE id = 3")
    del orders.model[3]
    orders.write((3, "back"), (4, "second"))
    orders.check()
    orders.sql("OPTIMIZE {t}")
    orders.write((5, "third"), (4, "third"))
    orders.check()
    orders.sql("UPDATE {t} SET v = 'theirs' WHERE id IN (6, 7)")
    orders.model |= {6: "theirs", 7: "theirs"}
    orders.write((6, "fourth"))
    orders.check()
    orders.sql("MERGE INTO {t} t USING (SELECT 8L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    del orders.model[8]
    orders.sql("INSERT INTO {t} VALUES (100, 'theirs'), (8, 'theirs')")
    orders.model |= {100: "theirs", 8: "theirs"}
    orders.write((100, "fifth"), (8, None))
    orders.check()
    restored, before = dict(orders.model), orders.version
    orders.write((100, "lost"), (9, None), (500, "lost"))
    orders.sql("REORG TABLE {t} APPLY (PURGE)")
    orders.write((101, "lost"))
    orders.sql(f"RESTORE {{t}} TO VERSION AS OF {before}")
    orders.model = restored
    # the number of the batch is restored, too: another query goes on
    shutil.rmtree(orders.folder / "checkpoint")
    orders.number = 10
    orders.write((100, "sixth"), (9, "sixth"), (3, None))
    orders.check()
    orders.sql("OPTIMIZE {t}")
    vacuum(orders)
    orders.write((10, "seventh"), (11, None))
    orders.check()


def test_rows_that_others_doubled_are_replaced_together(orders: Upserted) -> None:
    """As MERGE does with all rows of a key."""
    orders.write((1, "a"), (2, "b"))
    orders.sql("INSERT INTO {t} VALUES (1, 'again'), (1, 'and again')")
    orders.write((1, "one"))

    orders.check()


@pytest.mark.nightly
def test_random_batches_and_others_commits_are_a_model(orders: Upserted) -> None:
    """With a new writer now and then, which reads the keys of the table, and files that are put together beside."""
    chance = random.Random(7)
    writer = orders.writer
    for number in range(14):
        keys = chance.sample(range(60), 25)
        with configured(orders.spark, THREE):
            orders.write(
                *((key, None if chance.random() < 0.2 else f"{number}") for key in keys),
                writer=writer,
            )
        match chance.randrange(4):
            case 0:
                orders.sql_again("OPTIMIZE {t}")
            case 1:
                orders.sql_again(f"DELETE FROM {{t}} WHERE id % 11 = {number % 11}")
                for key in [key for key in orders.model if key % 11 == number % 11]:
                    del orders.model[key]
            case 2:
                writer = orders.opened()
        orders.check()
    assert writer.behind.wait(120)
    orders.check()
    assert optimized(orders)


def during(
    monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None], *, times: int = 1
) -> None:
    """Act where the failpoint `name` is passed, the first times."""
    left = [times]

    def reach(passed: str) -> None:
        if passed == name and left[0]:
            left[0] -= 1
            act()

    monkeypatch.setattr(upsert, "reach", reach)


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("positions-known", "OPTIMIZE {t}"),
        ("positions-known", "DELETE FROM {t} WHERE id = 2"),
        ("positions-known", "UPDATE {t} SET v = 'theirs' WHERE id = 2"),
        ("positions-known", "INSERT INTO {t} VALUES (50, 'theirs')"),
        ("files-written", "OPTIMIZE {t}"),
    ],
)
def test_a_commit_of_others_meanwhile_is_taken_in(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch, text: str, when: str
) -> None:
    """The batch is committed to the version behind it."""
    orders.write((1, "a"), (2, "b"), (3, "c"))
    orders.write((4, "d"), (2, "c"))
    if "DELETE" in text:
        del orders.model[2]
    if "UPDATE" in text:
        orders.model[2] = "theirs"
    if "INSERT" in text:
        orders.model[50] = "theirs"
    during(monkeypatch, when, lambda: orders.sql(text))
    orders.write((1, "mine"), (3, None))

    orders.check()
    orders.write((50, "mine"), (2, "mine"))
    orders.check()


def test_others_that_always_come_first_end_the_batch(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again from the checkpoint, and is in the table once."""
    monkeypatch.setattr("penstock.connector.delta.merge.RETRY_DELAYS_MS", (1, 1))
    orders.write((1, "a"), (2, "b"))
    numbers = iter(range(9))
    during(
        monkeypatch,
        "positions-known",
        lambda: orders.sql(f"UPDATE {{t}} SET v = 'u{next(numbers)}' WHERE id = 2"),
        times=3,
    )
    with pytest.raises(SinkError, match="other writers changed the Delta table"):
        orders.replay(1, (1, "mine"))
    orders.model[2] = "u2"
    orders.check()
    orders.write((1, "mine"))
    orders.check()


def test_a_batch_that_the_table_has_is_passed(orders: Upserted) -> None:
    """By this writer, by another one, and with other rows never."""
    orders.write((1, "a"))
    orders.write((1, "b"))
    orders.replay(1, (1, "b"))
    orders.replay(1, (1, "b"), writer=orders.opened())
    assert orders.version == 2
    (orders.folder / "checkpoint" / "offsets" / "1").write_text("other")
    batch = micro_batch(orders.spark, orders.folder / "checkpoint", 1, offsets="other")
    with pytest.raises(StateMismatchError, match="with other rows"):
        orders.opened().write_batch(orders.frame([(1, "c")]), batch)
    orders.check()


def test_another_run_of_the_query_loses_the_race(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever commits second finds the batch, and leaves nothing that readers see."""
    orders.write((1, "a"), (2, "b"))
    zombie = orders.opened()
    during(monkeypatch, "positions-known", lambda: orders.write((1, "mine"), writer=zombie))

    with pytest.raises(SinkError, match="another run of this query wrote the same batch"):
        orders.replay(1, (1, "mine"))
    orders.check()
    orders.replay(1, (1, "mine"))
    assert orders.version == 2


@pytest.mark.parametrize("when", ["files-written", "positions-known"])
def test_another_run_with_other_rows_is_noticed_where_the_commit_is_tried_again(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Of a copy of the checkpoint: the number of the batch alone says nothing."""
    orders.write((1, "a"), (2, "b"))
    other = orders.opened()

    def overtake() -> None:
        # a conflict of another kind first: that of two batches ends the attempts
        orders.sql("UPDATE {t} SET v = 'theirs' WHERE id = 2")
        batch = micro_batch(orders.spark, orders.folder / "copy", 1, offsets="of the copy")
        other.write_batch(orders.frame([(3, "copy")]).coalesce(1), batch)

    during(monkeypatch, when, overtake)
    with pytest.raises(StateMismatchError, match="has batch 1 of this query, with other rows"):
        orders.replay(1, (1, "mine"), (2, None))

    orders.model |= {2: "theirs", 3: "copy"}
    orders.check()


def test_a_failure_before_the_commit_leaves_nothing(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without a commit are no part of the table, also for the writer that wrote them."""
    orders.write((1, "a"), (2, "b"))

    def fail() -> None:
        raise RuntimeError("as a process that ends")

    for when in ("files-written", "positions-known"):
        during(monkeypatch, when, fail)
        with pytest.raises(RuntimeError, match="as a process"):
            orders.replay(1, (1, "mine"), (3, "mine"))
        orders.check()
    orders.write((1, "mine"), (3, "mine"))
    orders.check()
    orders.write((1, None), (3, "again"))
    orders.check()


def vacuum(orders: Upserted) -> None:
    """Remove all that no commit names, at once."""
    with configured(
        orders.spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
    ):
        orders.sql("VACUUM {t} RETAIN 0 HOURS")


def test_vectors_that_are_vacuumed_before_the_commit_are_written_again(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused runner commits no name of a file that is gone."""
    orders.write((1, "a"), (2, "b"), (3, "c"))
    removed: list[Path] = []

    def remove() -> None:
        removed.extend(orders.path.glob("deletion_vector_*.bin"))
        for file in removed:
            file.unlink()

    during(monkeypatch, "positions-known", remove)
    orders.write((1, "mine"), (3, None))

    assert len(removed) == 1
    orders.check()
    orders.write((2, "mine"))
    orders.check()


def test_files_that_are_vacuumed_before_the_commit_are_written_again_by_a_replay(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of tasks: the batch fails, and nothing of it is in the table."""
    orders.write((1, "a"), (2, "b"), (3, "c"))
    during(monkeypatch, "positions-known", lambda: vacuum(orders))
    with pytest.raises(SinkError, match="was removed before it was committed"):
        orders.replay(1, (1, "mine"), (3, None))

    orders.check()
    orders.write((1, "mine"), (3, None))
    orders.check()


def test_a_runner_that_lost_its_lease_meanwhile_does_not_commit(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked in front of each attempt at the commit."""
    monkeypatch.setattr("penstock.connector.delta.merge.RETRY_DELAYS_MS", (1, 1))
    orders.write((1, "a"), (2, "b"))
    lost: list[PenstockError] = []
    asked = 0

    def lost_lease() -> PenstockError | None:
        nonlocal asked
        asked += 1
        return lost[0] if lost else None

    def pause() -> None:
        # the first attempt is in conflict, and the lease goes before the second one
        orders.sql("UPDATE {t} SET v = 'theirs' WHERE id = 2")
        if asked > 1:
            lost.append(QueryFailedError("another runs", hint="none"))

    during(monkeypatch, "positions-known", pause, times=2)
    batch = micro_batch(orders.spark, orders.folder / "checkpoint", 1)
    with pytest.raises(QueryFailedError, match="another runs"):
        orders.writer.write_batch(
            orders.frame([(1, "mine")]), replace(batch, lost_lease=lost_lease)
        )

    assert orders.operation == "UPDATE"
    orders.model[2] = "theirs"
    orders.check()
    orders.write((1, "mine"))
    orders.check()


def test_null_in_the_key_ends_the_query(orders: Upserted) -> None:
    """And is in no file."""
    frame = orders.spark.sql("SELECT CAST(NULL AS BIGINT) AS id, 'a' AS v")

    with pytest.raises(SinkError, match="a row has NULL in id, a part of the PRIMARY KEY"):
        orders.writer.write_batch(frame, micro_batch(orders.spark, orders.folder / "c", 0))


KEYS = {
    "s": "STRING",
    "n": "INT",
    "d": "DATE",
    "t": "TIMESTAMP_LTZ(3)",
    "p": "DECIMAL(10, 2)",
    "b": "BYTES",
}


@pytest.mark.parametrize("partitions", [(), ("n", "d"), ("v",)])
def test_keys_of_every_type_and_of_partitions(
    spark: SparkSession, tmp_path: Path, partitions: tuple[str, ...]
) -> None:
    """Of files that Spark wrote, too, whose values of partitions are in the log."""
    table = delta_table(columns={**KEYS, "v": "STRING"}, key=tuple(KEYS), partition_keys=partitions)
    sink = prepared(spark, table, tmp_path)
    assert isinstance(sink, DeltaSink)
    text = (
        "SELECT concat('k ', id % 3) AS s, CAST(id AS INT) AS n, DATE'1969-12-30' + CAST(id AS INT) AS d, "
        "timestamp_millis(id * 1000 - 5000) AS t, CAST(id - 2 AS DECIMAL(10, 2)) AS p, "
        "CAST(unhex(hex(id + 250)) AS BINARY) AS b, '{}' AS v FROM range({}, {})"
    )
    sink.write(spark.sql(text.format("theirs", 0, 10)))
    writer = sink.writer
    writer.write_batch(spark.sql(text.format("one", 3, 12)), micro_batch(spark, tmp_path, 0))
    writer.write_batch(spark.sql(text.format("two", 5, 7)), micro_batch(spark, tmp_path, 1))

    found = spark.read.format("delta").load(str(tmp_path / "orders"))
    expected = ["theirs"] * 3 + ["one"] * 2 + ["two"] * 2 + ["one"] * 5
    assert [row["v"] for row in found.orderBy("n").collect()] == expected
    history = DeltaTable.forPath(spark, str(tmp_path / "orders")).history(2)
    assert {row["operation"] for row in history.collect()} == {"STREAMING UPDATE"}


NO_VECTORS = "the table has no deletion vectors ('delta.enableDeletionVectors')"
FEED = "the table has a change data feed ('delta.enableChangeDataFeed')"


@pytest.mark.parametrize(
    ("given", "change", "why"),
    [
        ({"options": {"delta.enableDeletionVectors": "false"}}, None, NO_VECTORS),
        ({"options": {"delta.enableChangeDataFeed": "true"}}, None, FEED),
        ({"options": {"sink.writer": "spark"}}, None, "'sink.writer' = 'spark'"),
        (
            {"options": {"sink.target-file-size": "8 mb"}},
            None,
            "'sink.target-file-size' gathers small files",
        ),
        (
            {"columns": {"id": "DOUBLE", "v": "STRING"}},
            None,
            "column id of the key is of type DOUBLE",
        ),
        (
            {},
            "ALTER TABLE {t} ADD COLUMNS (more INT)",
            "column more of the table is not declared",
        ),
        ({}, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')", FEED),
        (
            {},
            "ALTER TABLE {t} ADD CONSTRAINT few CHECK (v <> 'x')",
            "the table has the CHECK constraint few",
        ),
        (
            {},
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
            "the table has the property delta.enablerowtracking = true",
        ),
        (
            {},
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "the table has the property delta.columnmapping.mode = name",
        ),
        ({}, "ALTER TABLE {t} CLUSTER BY (id)", "the table is clustered"),
    ],
)
def test_tables_that_do_not_take_positions_are_merged_into(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    given: dict[str, Any],
    change: str | None,
    why: str,
) -> None:
    """Each row is right all the same; EXPLAIN and the log of a start say why."""
    given = {"columns": COLUMNS, **given}
    orders = Upserted(spark, tmp_path, delta_table(key=("id",), **given))
    orders.write((1, "a"), (2, "b"))
    if change:
        orders.sql(change)
    orders.write((1, "c"), (2, None), (3, "d"))

    assert orders.operation == "MERGE"
    found = orders.spark.read.format("delta").load(str(orders.path)).select("id", "v")
    assert sorted(map(tuple, found.collect())) == sorted(orders.model.items())
    sink = DeltaConnector(project=tmp_path).sink(orders.table)
    assert sink.describe_upserts() == f"MERGE: {why}"
    caplog.clear()
    with caplog.at_level(logging.INFO, logger=upsert.__name__):
        orders.opened()
    assert [record.getMessage() for record in caplog.records] == [
        f"rows are merged into the Delta table at {orders.path}, as {why}"
    ]


def test_rows_are_merged_into_a_table_whose_key_others_have_widened(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A running query goes on; the next start asks for the declared type."""
    table = delta_table(key=("id",), columns={"id": "INT", "v": "STRING"})
    orders = Upserted(spark, tmp_path, table)
    orders.write((1, "a"), (2, "b"))
    orders.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    orders.sql("ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT")
    orders.write((1, "c"), (2, None), (3, "d"))

    assert orders.operation == "MERGE"
    found = orders.spark.read.format("delta").load(str(orders.path)).select("id", "v")
    assert sorted(map(tuple, found.collect())) == sorted(orders.model.items())
    with pytest.raises(StateMismatchError, match="has type bigint, declared is int"):
        orders.opened()


def test_a_start_says_that_rows_are_replaced_by_position(
    orders: Upserted, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and again when that changes."""
    with caplog.at_level(logging.INFO, logger=upsert.__name__):
        orders.writer = orders.opened()
        orders.write((1, "a"))
        orders.write((2, "b"))
        orders.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
        orders.write((1, "c"))
        orders.write((2, "d"))
    told = [record.getMessage() for record in caplog.records if " rows in " not in record.message]

    assert told == [
        f"rows of the Delta table at {orders.path} are replaced by position",
        f"rows are merged into the Delta table at {orders.path}, as {FEED}",
    ]
    orders.check()


def test_a_table_that_is_too_large_is_merged_into(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its rows and by its files; positions are for smaller ones again."""
    orders.write((1, "a"), (2, "b"), (3, "c"))
    for bound in ("MOST_ROWS", "MOST_FILES"):
        with monkeypatch.context() as patch:
            patch.setattr(upsert, bound, 0)
            orders.write((1, bound), (3, "d"), writer=orders.opened())
        assert orders.operation == "MERGE"
        orders.check()
    orders.write((1, "last"), (4, "e"))
    assert orders.operation == "STREAMING UPDATE"
    orders.check()


def test_gone_rows_make_room(orders: Upserted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of files that are gone are counted until the index is made anew."""
    monkeypatch.setattr(upsert, "MOST_ROWS", 8)
    for number in range(6):
        orders.write((1, f"{number}"), (2, f"{number}"), (3, f"{number}"))
        assert orders.operation == "STREAMING UPDATE"
    orders.check()


def test_a_log_with_checkpoints_is_begun_with(orders: Upserted) -> None:
    """A new writer has the files of the checkpoint from Delta, with their vectors."""
    orders.write(*((key, "a") for key in range(10)))
    orders.write((1, "b"), (2, None))
    log = DeltaTable.forPath(orders.spark, str(orders.path))._jdt.deltaLog()
    log.checkpoint(
        log.update(False, *(orders.spark._jvm.scala.Option.empty(),) * 2),
        orders.spark._jvm.scala.Option.empty(),
    )
    orders.write((3, "c"), writer=orders.opened())
    orders.write((1, "d"), (4, "c"), writer=orders.opened())

    orders.check()
    vector = next(add for add in orders.last("add") if "deletionVector" in add)
    assert vector["deletionVector"]["cardinality"] >= 2


def optimized(orders: Upserted) -> int:
    """How many times files were put together beside batches, not by an OPTIMIZE of others."""
    history = DeltaTable.forPath(orders.spark, str(orders.path)).history().collect()
    compacted = [row for row in history if row["operation"] == "OPTIMIZE"]
    return sum(row["operationParameters"]["auto"] == "true" for row in compacted)


def test_small_files_are_put_together_beside_batches(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the vectors that they have; no batch reads the keys of the new file."""
    with configured(orders.spark, THREE):
        for number in range(5):
            orders.write(*((key, f"{number}") for key in range(number, 30, number + 1)))
            assert orders.writer.behind.wait(120)
    assert optimized(orders)
    monkeypatch.setattr(upsert.Upserts, "_read_keys", None)
    orders.write((0, "last"), (1, None))

    orders.check()
    assert (orders.writer.behind.failures, orders.writer.behind.lost_races) == (0, 0)


class Held:
    """The thread that puts files together, held at a failpoint."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.reached, self.go_on = Event(), Event()

        def reach(passed: str) -> None:
            if passed == name and not self.go_on.is_set():
                self.reached.set()
                assert self.go_on.wait(120)

        monkeypatch.setattr(compaction, "reach", reach)


@pytest.mark.parametrize("batches", [1, 3])
def test_batches_delete_rows_of_files_that_are_put_together(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    """The new file has these rows, and a vector that names them; later batches find the others in it."""
    held = Held(monkeypatch, "put-together")
    with configured(orders.spark, THREE):
        orders.write(*((key, "first") for key in range(40)))
        orders.write(*((key, "second") for key in range(0, 40, 3)))
        orders.write((100, "third"), (5, None))
        assert held.reached.wait(120)
        for number in range(batches):
            orders.write(
                (number, "meanwhile"), (3, None), *((key, f"{number}") for key in range(20, 25))
            )
        orders.check()
        held.go_on.set()
        assert orders.writer.behind.wait(120)

    assert optimized(orders)
    orders.check()
    assert (orders.writer.behind.failures, orders.writer.behind.lost_races) == (0, 0)
    orders.write((0, "last"), (21, None), (39, "last"))
    orders.check()
    orders.write((0, None), (38, "other"), writer=orders.opened())
    orders.check()


def test_files_are_replaced_while_tasks_write_a_batch(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is committed to the version behind it at once: no attempt is lost."""
    held = Held(monkeypatch, "put-together")
    lost: list[Exception] = []
    commit = Transaction.commit

    def counted(self: Transaction, *given: Any, **named: Any) -> int:
        try:
            return commit(self, *given, **named)
        except Exception as error:
            lost.append(error)
            raise

    monkeypatch.setattr(Transaction, "commit", counted)
    with configured(orders.spark, THREE):
        for number in range(2):
            orders.write(*((key, f"{number}") for key in range(20 * number, 30)))
        orders.write((100, "third"))
        assert held.reached.wait(120)

        def let_go() -> None:
            held.go_on.set()
            assert orders.writer.behind.wait(120)

        during(monkeypatch, "files-written", let_go)
        orders.write((0, "mine"), (15, None), (29, "mine"))

    assert optimized(orders) == 1
    orders.check()
    assert lost == []


def test_files_that_are_not_those_of_the_snapshot_are_listed_anew(orders: Upserted) -> None:
    """As of a table whose folder was restored while the query ran: the checksum of a commit says how many there are."""
    orders.write((1, "a"), (2, "b"))
    live = orders.writer._upserts._live
    live.begin(live.version, [*(file.add for file in live), {"path": "gone", "size": 1}])
    orders.write((1, "c"))

    orders.check()
    assert "gone" not in live
    live.begin(live.version, ())
    orders.write((2, None), (1, "d"))
    orders.check()


class _NoSpace:
    """Files on a disk that is full."""

    def __init__(self, **_: object) -> None:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("behind_the_commit", [False, True])
def test_a_full_disk_under_the_index_doubles_no_row(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch, *, behind_the_commit: bool
) -> None:
    """The batch fails; the next attempt of this writer reads the keys again."""
    orders.write((1, "a"), (2, "b"))
    orders.write((3, "c"))
    with monkeypatch.context() as full:
        full.setattr(key_index, "_ON_DISK_FROM", 1)
        full.setattr(key_index, "_RUN_FROM", 1 if behind_the_commit else 100)
        full.setattr("tempfile.TemporaryFile", _NoSpace)
        with pytest.raises(OSError, match="No space left"):
            orders.replay(2, (1, "new"))
    orders.write((1, "new"))
    orders.write((1, "newer"), (3, None))

    orders.check()


def written(orders: Upserted, number: int, schema: str, *values: tuple[object, ...]) -> None:
    """Write a batch of other columns; the last value is the kind of the row."""
    frame = orders.spark.createDataFrame(values, f"{schema}, {ROW_KIND} TINYINT")
    batch = micro_batch(orders.spark, orders.folder / "checkpoint", number)
    orders.writer.write_batch(frame.coalesce(1), batch)


def test_bounds_of_a_file_with_a_vector_are_those_of_its_writer(
    spark: SparkSession, tmp_path: Path
) -> None:
    """To the last of 38 digits: readers leave out files by them."""
    table = delta_table(columns={"id": "BIGINT", "d": "DECIMAL(38, 18)"}, key=("id",))
    orders = Upserted(spark, tmp_path, table)
    low, high = "0.123456789012345671", "9.123456789012345679"
    rows_before = ((1, Decimal(low), 0), (2, Decimal(5), 0), (3, Decimal(high), 0))
    written(orders, 0, "id BIGINT, d DECIMAL(38, 18)", *rows_before)
    written(orders, 1, "id BIGINT, d DECIMAL(38, 18)", (2, Decimal(6), 0))

    found = spark.read.format("delta").load(str(orders.path))
    assert [row.id for row in found.where(f"d = {low}BD").collect()] == [1]
    assert [row.id for row in found.where(f"d = {high}BD").collect()] == [3]


def test_deletes_of_binary_keys_are_found_whatever_form_tasks_get(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A setting of Spark gives them offsets of 64 bits."""
    table = delta_table(columns={"k": "VARBINARY(10)", "v": "STRING"}, key=("k",))
    orders = Upserted(spark, tmp_path, table)
    with configured(spark, {"spark.sql.execution.arrow.useLargeVarTypes": "true"}):
        written(orders, 0, "k BINARY, v STRING", (b"a", "1", 0), (b"b", "2", 0))
        written(orders, 1, "k BINARY, v STRING", (b"a", None, int(RowKind.DELETE)))

    assert [row[1] for row in rows(spark, orders.path)] == ["2"]


def test_a_table_that_is_replaced_meanwhile_takes_no_batch(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there before the batch is not in it."""
    orders.write((1, "a"), (2, "b"))
    during(monkeypatch, "positions-known", orders.replace_table)
    with pytest.raises(StateMismatchError):
        orders.replay(1, (1, "c"))

    assert rows(orders.spark, orders.path) == []


def test_files_of_a_commit_that_was_told_as_a_conflict_stay(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file system answers that repeats a request by itself."""
    orders.write((1, "a"))
    commit = Transaction.commit

    def told(self: Transaction, *given: Any, **named: Any) -> int:
        monkeypatch.setattr(Transaction, "commit", commit)
        commit(self, *given, **named)
        raise ConcurrentAppendException("of the commit itself")

    monkeypatch.setattr(Transaction, "commit", told)
    orders.write((1, "b"), (2, "c"))
    orders.check()


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_an_empty_text_in_a_partition_column_is_no_key(
    spark: SparkSession, tmp_path: Path, vectors: str
) -> None:
    """Delta keeps it as NULL, so that no later change would find the row."""
    columns = {"id": "BIGINT", "p": "STRING", "v": "STRING"}
    options = {"delta.enableDeletionVectors": vectors}
    key = {"key": ("id", "p"), "partition_keys": ("p",)}
    orders = Upserted(spark, tmp_path, delta_table(columns=columns, options=options, **key))
    with pytest.raises(SinkError, match="a row has NULL in p, a part of the PRIMARY KEY"):
        written(orders, 0, "id BIGINT, p STRING, v STRING", (1, "", "a", 0))
