"""Upserts into tables that others replace, change and write meanwhile: right rows, or an error that says why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Self

import pyarrow as pa
import pytest
from delta.tables import DeltaTable, IdentityGenerator
from pyarrow import parquet
from pyspark.sql import SparkSession

from penstock.catalog.errors import PenstockError, StateMismatchError
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.delta import upsert
from penstock.connector.delta.files.file_keys import FileKeys
from penstock.connector.delta.transaction import CONFLICTS
from penstock.connector.delta.writer import NOTED_EVERY_S, DeltaWriter, NotedVersions
from penstock.connector.spark.session import configured
from tests.connector.delta.tables import delta_table, forget, rows
from tests.connector.delta.test_upsert import COLUMNS, THREE, Upserted
from tests.connector.spark.micro_batches import QUERY, micro_batch


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> Upserted:
    return Upserted(spark, tmp_path)


def made_again(orders: Upserted) -> None:
    shutil.rmtree(orders.path)
    forget(orders.spark, orders.path)
    orders.opened()


def merged_again(orders: Upserted) -> None:
    made_again(orders)
    orders.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")


def renamed(orders: Upserted) -> None:
    orders.path.rename(orders.folder / "elsewhere")
    forget(orders.spark, orders.path)


@pytest.mark.parametrize("act", [made_again, merged_again, renamed, Upserted.replace_table])
def test_a_table_that_is_replaced_between_batches_takes_none(
    orders: Upserted, act: Callable[[Upserted], None]
) -> None:
    """It lacks the rows before, which no later batch brings back."""
    orders.write((1, "a"), (2, "b"))
    act(orders)
    with pytest.raises(
        StateMismatchError, match="is another one than when its pipeline was started"
    ):
        orders.replay(1, (1, "c"))

    if orders.path.exists() and act is not renamed:
        assert rows(orders.spark, orders.path) == []
    else:
        assert not (orders.path / "_delta_log").exists()


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_an_older_copy_than_a_run_noted_is_refused(
    spark: SparkSession, tmp_path: Path, writer: str
) -> None:
    """Of upserts not every batch is a commit, so that the version is noted while they are written."""
    options = {"sink.writer": writer} if writer == "spark" else {}
    orders = Upserted(spark, tmp_path, delta_table(columns=COLUMNS, key=("id",), options=options))
    checkpoint = str(tmp_path / "checkpoint")
    clock = [0.0]
    orders.writer._noted.clock = lambda: clock[0]
    orders.writer.check_resumes(spark, checkpoint, "")
    orders.write((1, "a"))
    shutil.copytree(orders.path, tmp_path / "backup")
    for _ in range(2):
        clock[0] += NOTED_EVERY_S / 2
        orders.write((1, "b"))
    (tmp_path / "checkpoint" / "commits").mkdir()
    (tmp_path / "checkpoint" / "commits" / "2").touch()
    orders.opened()
    put_back(orders)
    with pytest.raises(StateMismatchError, match="at version 1, and was at 3 when its pipeline"):
        orders.opened()


def begun(orders: Upserted) -> DeltaWriter:
    """A run that has begun, for which no time passes."""
    (orders.folder / "checkpoint").mkdir(exist_ok=True)
    (orders.folder / "checkpoint" / "metadata").write_text(json.dumps({"id": QUERY}))
    writer = orders.sink.writer
    writer._noted.clock = lambda: 0.0
    writer.check_resumes(orders.spark, str(orders.folder / "checkpoint"), "")
    return writer


def put_back(orders: Upserted) -> None:
    shutil.rmtree(orders.path)
    shutil.copytree(orders.folder / "backup", orders.path)
    forget(orders.spark, orders.path)


def noted(orders: Upserted) -> dict[str, object]:
    """What the checkpoint notes of the table."""
    (note,) = (orders.folder / "checkpoint" / "delta-sinks").glob("[!.]*")
    found: dict[str, object] = json.loads(note.read_text())
    return found


@pytest.mark.parametrize("writer", ["tasks", "spark"])
@pytest.mark.parametrize("ends", [True, False])
def test_a_copy_of_before_a_run_is_refused(
    spark: SparkSession, tmp_path: Path, writer: str, ends: bool
) -> None:
    """However short the run was: it notes its first commit."""
    options = {"sink.writer": writer} if writer == "spark" else {}
    orders = Upserted(spark, tmp_path, delta_table(columns=COLUMNS, key=("id",), options=options))
    orders.ends = ends
    orders.write((1, "a"), writer=begun(orders))
    shutil.copytree(orders.path, tmp_path / "backup")
    run = begun(orders)
    orders.write(writer=run)
    orders.write((1, "b"), writer=run)
    put_back(orders)
    with pytest.raises(StateMismatchError, match="at version 1, and was at 2 when its pipeline"):
        orders.opened()


def test_a_copy_that_others_wrote_since_is_refused(orders: Upserted) -> None:
    """Its version is not behind any more, the last batch in it is."""
    orders.write((1, "a"), writer=begun(orders))
    shutil.copytree(orders.path, orders.folder / "backup")
    orders.write((1, "b"), writer=begun(orders))
    put_back(orders)
    orders.sql("INSERT INTO {t} VALUES (2, 'theirs')")
    orders.sql("INSERT INTO {t} VALUES (3, 'theirs')")
    with pytest.raises(StateMismatchError, match=r"has batch 0 of this query .*, and had batch 1"):
        orders.opened()


def test_a_copy_that_lacks_a_batch_of_a_run_that_ends_is_refused(orders: Upserted) -> None:
    """Such a run notes each commit, the last one, too."""
    orders.ends = True
    run = begun(orders)
    orders.write((1, "a"), writer=run)
    shutil.copytree(orders.path, orders.folder / "backup")
    orders.write((1, "b"), writer=run)
    put_back(orders)
    with pytest.raises(StateMismatchError, match="at version 1, and was at 2 when its pipeline"):
        orders.opened()


def test_a_run_without_an_end_notes_few_of_its_commits(orders: Upserted) -> None:
    """Each note is a file that is made durable: of its first commit, and not of others' before."""
    run = begun(orders)
    orders.sql("INSERT INTO {t} VALUES (2, 'theirs')")
    orders.write(writer=run)
    assert (noted(orders)["version"], noted(orders)["written"]) == (0, None)
    orders.write((1, "a"), writer=run)
    assert (noted(orders)["version"], noted(orders)["written"]) == (2, 1)
    orders.write((1, "b"), writer=run)

    assert (noted(orders)["version"], noted(orders)["written"]) == (2, 1)


def test_a_run_that_is_killed_before_its_note_is_gone_on_with(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is ahead of the note, which is no other table."""
    orders.write((1, "a"), writer=begun(orders))

    def killed(*_: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(NotedVersions, "note_if_due", killed)
        with pytest.raises(InterruptedError):
            orders.replay(1, (1, "b"), writer=begun(orders))
    assert noted(orders)["version"] == 1
    again = begun(orders)
    orders.write((1, "b"), writer=again)
    orders.write((2, "c"), writer=again)

    orders.check()
    assert (noted(orders)["version"], noted(orders)["written"]) == (3, 2)


def test_in_commit_timestamps_keep_positions(orders: Upserted) -> None:
    """They are the commit's."""
    orders.write((1, "a"), (2, "b"))
    orders.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    orders.write((1, "c"), (3, "d"))
    orders.write((3, None))

    assert orders.operation == "STREAMING UPDATE"
    assert orders.last("commitInfo")[0]["inCommitTimestamp"] > 0
    orders.check()


def test_rows_without_a_key_stay(orders: Upserted) -> None:
    """Those of others, who let the columns of the key have none."""
    orders.write((1, "a"))
    orders.sql("ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL")
    orders.sql("INSERT INTO {t} VALUES (NULL, 'theirs'), (1, 'theirs'), (0, 'theirs')")
    orders.model[0] = "theirs"
    orders.write((1, "mine"))
    orders.write((1, "again"), (2, "mine"))

    assert orders.operation == "STREAMING UPDATE"
    found = orders.spark.read.format("delta").load(str(orders.path)).collect()
    expected = [*orders.model.items(), (None, "theirs")]
    assert sorted(map(tuple, found), key=str) == sorted(expected, key=str)


def test_vectors_of_spark_in_partitions_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    """Keys are partly in the log, in files of both writers with vectors of both."""
    columns = {"id": "BIGINT", "p": "STRING", "v": "STRING"}
    table = delta_table(columns=columns, key=("p", "id"), partition_keys=("p",))
    orders = Upserted(spark, tmp_path, table)
    model: dict[tuple[int, str], str] = {}

    def write(number: int, *changes: tuple[int, str, str | None]) -> None:
        kinds = {True: int(RowKind.DELETE), False: int(RowKind.INSERT)}
        given = [(key, p, v, kinds[v is None]) for key, p, v in changes]
        frame = spark.createDataFrame(given, f"id BIGINT, p STRING, v STRING, {ROW_KIND} TINYINT")
        batch = micro_batch(spark, orders.folder / "checkpoint", number)
        orders.writer.write_batch(frame.coalesce(1), batch)
        for key, p, v in changes:
            if v is None:
                model.pop((key, p), None)
            else:
                model[key, p] = v

    write(0, *((key, p, "a") for key in range(20) for p in ("x", "y/%", "ü")))
    for key in (3, 4, 5):
        orders.sql(f"DELETE FROM {{t}} WHERE id = {key} AND p <> 'x'")
        del model[key, "y/%"], model[key, "ü"]
    orders.sql("UPDATE {t} SET v = 'theirs' WHERE id = 7")
    model |= {(7, p): "theirs" for p in ("x", "y/%", "ü")}
    write(1, (3, "x", "b"), (3, "y/%", "b"), (7, "ü", "b"), (8, "ü", None), (9, "new", "b"))
    write(2, (3, "y/%", None), (7, "x", "c"), (9, "new", "c"))

    assert orders.operation == "STREAMING UPDATE"
    expected = sorted((key, p, v) for (key, p), v in model.items())
    assert rows(spark, orders.path) == expected


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {t} RENAME COLUMN v TO w",
        "ALTER TABLE {t} RENAME COLUMN id TO key",
        "ALTER TABLE {t} DROP COLUMN v",
    ],
)
def test_columns_that_are_gone_are_an_error(orders: Upserted, change: str) -> None:
    """And the table is as it was."""
    orders.write((1, "a"), (2, "b"))
    orders.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    orders.sql(change)
    before = orders.version
    with pytest.raises(PenstockError):
        orders.replay(1, (1, "c"))

    assert orders.version == before
    assert [row[0] for row in rows(orders.spark, orders.path)] == [1, 2]


def test_a_column_that_is_renamed_and_back_is_merged(orders: Upserted) -> None:
    """By its name, whatever it is called in files."""
    orders.write((1, "a"), (2, "b"))
    orders.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    orders.sql("ALTER TABLE {t} RENAME COLUMN v TO w")
    orders.sql("ALTER TABLE {t} RENAME COLUMN w TO v")
    orders.write((1, "c"), (2, None), (3, "d"))

    assert orders.operation == "MERGE"
    orders.check()


@pytest.mark.parametrize("filled", ["generated", "identity", "always", "default"])
def test_columns_that_delta_fills_are_filled(
    spark: SparkSession, tmp_path: Path, filled: str
) -> None:
    """By MERGE, as they are not declared."""
    made = DeltaTable.create(spark).location(str(tmp_path / "orders"))
    made = made.addColumn("id", "BIGINT", nullable=False).addColumn("v", "STRING")
    made = made.property("delta.enableDeletionVectors", "true")
    match filled:
        case "generated":
            made.addColumn("more", "STRING", generatedAlwaysAs="CONCAT(v, '!')").execute()
        case "identity":
            made.addColumn("more", "BIGINT", generatedByDefaultAs=IdentityGenerator()).execute()
        case "always":
            made.addColumn("more", "BIGINT", generatedAlwaysAs=IdentityGenerator()).execute()
        case _:
            made.property("delta.feature.allowColumnDefaults", "supported").execute()
            text = f"ALTER TABLE delta.`{tmp_path / 'orders'}`"
            spark.sql(f"{text} ADD COLUMN more STRING")
            spark.sql(f"{text} ALTER COLUMN more SET DEFAULT 'none'")
    orders = Upserted(spark, tmp_path)
    orders.write((1, "a"), (2, "b"))
    orders.write((1, "c"), (2, None), (3, "d"))

    assert orders.operation == "MERGE"
    found = rows(spark, orders.path)
    assert [row[:2] for row in found] == sorted(orders.model.items())
    if filled == "generated":
        assert [row[2] for row in found] == ["c!", "d!"]
    if filled in ("identity", "always"):
        assert len({row[2] for row in found}) == len(found)
    if filled == "default":
        assert [row[2] for row in found] == ["none", "none"]


@pytest.mark.parametrize("key", [("id",), ()])
def test_a_column_that_delta_numbers_itself_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path, key: tuple[str, ...]
) -> None:
    """Where it is declared: Delta would refuse each batch."""
    made = DeltaTable.create(spark).location(str(tmp_path / "orders"))
    made = made.addColumn("id", "BIGINT", nullable=not key).addColumn("v", "STRING")
    made.addColumn("more", "BIGINT", generatedAlwaysAs=IdentityGenerator()).execute()
    columns = {"id": "BIGINT", "v": "STRING", "more": "BIGINT"}
    with pytest.raises(
        StateMismatchError, match="column more is GENERATED ALWAYS AS IDENTITY"
    ) as told:
        Upserted(spark, tmp_path, delta_table(columns=columns, key=key))

    assert told.value.hint == "leave more out of CREATE TABLE, which Delta then fills"


COMMITS = 8
"""Commits of another program beside batches."""
TRIES = 40
"""Within how many tries it makes them: it loses some to batches, of those that change rows."""
TRY_S = 120


class OtherWriter:
    """Another program that inserts, updates, deletes and compacts in a loop, on keys of its own; a model of them."""

    def __init__(self, orders: Upserted) -> None:
        self._orders, self._end, self._tried = orders, Event(), Condition()
        self._tries = 0
        self.model: dict[int, str] = {}
        self.done = 0
        self.errors: list[Exception] = []
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def wait(self, tries: int) -> None:
        """Wait until it has tried so often: it is slower than batches, and must not come too late for them."""
        with self._tried:
            assert self._tried.wait_for(lambda: self._tries >= tries or bool(self.errors), TRY_S)

    def _run(self) -> None:
        number = 1_000
        try:
            while not self._end.is_set():
                self._step(number)
                number += 1
        except Exception as error:  # noqa: BLE001  told by the test
            with self._tried:
                self.errors.append(error)
                self._tried.notify_all()

    def _step(self, number: int) -> None:
        old, gone = number - 1, number - 3
        values = f"({number}, 'first'), ({number + 500_000}, 'stays')"
        if self._commit(f"INSERT INTO {{t}} VALUES {values}"):
            self.model |= {number: "first", number + 500_000: "stays"}
        if old in self.model and self._commit(f"UPDATE {{t}} SET v = 'second' WHERE id = {old}"):
            self.model[old] = "second"
        if gone in self.model and self._commit(f"DELETE FROM {{t}} WHERE id = {gone}"):
            del self.model[gone]
        if number % 4 == 0:
            self._commit("OPTIMIZE {t}")

    def _commit(self, text: str) -> bool:
        try:
            self._orders.sql(text)
        except CONFLICTS:
            is_done = False
        else:
            is_done = True
        with self._tried:
            self._tries += 1
            self.done += is_done
            self._tried.notify_all()
        return is_done


@pytest.mark.nightly
def test_another_program_writes_all_the_time(orders: Upserted) -> None:
    """Beside batches and the compaction behind them: each row of both is there once."""
    orders.write(*((key, "first") for key in range(60)))
    with configured(orders.spark, THREE), OtherWriter(orders) as other:
        for number in range(1, TRIES):
            for part in range(2):
                changed = (key for key in range(60) if key % 7 == (2 * number + part) % 7)
                orders.write(*((key, None if key % 5 == 0 else f"{number}") for key in changed))
            other.wait(number)
            if other.done >= COMMITS or other.errors:
                break
    assert orders.writer.behind.wait(120)

    assert other.errors == []
    assert other.done >= COMMITS
    orders.model |= other.model
    orders.check()
    orders.write((1, "last"), (1_000, "mine"), (501_000, None))
    orders.check()


MANY = 3_000
"""Files of a table that is read whole when a run begins."""
EACH = 4
"""Rows of each of them."""


def add_many_files(orders: Upserted) -> None:
    """Commit small files of one column more than the key, as a program that writes a few rows at a time leaves them."""
    lines = [json.dumps({"commitInfo": {"timestamp": 0, "operation": "WRITE"}})]
    for number in range(MANY):
        keys = [number * EACH + n for n in range(EACH)]
        path = orders.path / f"many-{number:05}.parquet"
        parquet.write_table(
            pa.table({"id": pa.array(keys, pa.int64()), "v": ["first"] * EACH}), path
        )
        add = {
            "path": path.name,
            "partitionValues": {},
            "size": path.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({"numRecords": EACH}),
        }
        lines.append(json.dumps({"add": add}))
        orders.model |= dict.fromkeys(keys, "first")
    commit = orders.path / "_delta_log" / f"{orders.version + 1:020}.json"
    commit.write_text("\n".join(lines) + "\n")


@pytest.mark.nightly
def test_keys_of_thousands_of_small_files_are_read_once(
    orders: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a run begins; its batches and the compaction beside them read those of no file again."""
    read: list[str] = []
    plain = FileKeys.read

    def counted(self: FileKeys, file: upsert.LiveFile) -> object:
        read.append(file.path)
        return plain(self, file)

    add_many_files(orders)
    monkeypatch.setattr(FileKeys, "read", counted)
    for number in range(3):
        keys = range(number, MANY * EACH, 997)
        orders.write(*((key, None if key % 5 == 0 else f"{number}") for key in keys))
    assert orders.writer.behind.wait(300)
    orders.write((0, "last"), (1, "last"), (MANY * EACH, "last"))

    assert len([path for path in read if path.startswith("many-")]) == MANY
    assert len(read) == len(set(read))
    assert orders.operation == "STREAMING UPDATE"
    orders.check()
