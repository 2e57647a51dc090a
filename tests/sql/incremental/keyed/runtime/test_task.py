"""What a task makes of the rows that come: the changes of each input, in memory or on disk."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.catalog.model import types as t
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.expression import (
    BUCKET,
    ENCODED,
    FIRST,
    INPUT,
    BucketedInput,
    BucketedRows,
    FieldValue,
    NamedExpression,
)
from penstock.connector.spark.source import buckets
from penstock.connector.spark.source.buckets import RowBuckets
from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.files import spooled_rows
from penstock.sql.incremental.keyed.files.manifest import BucketId
from penstock.sql.incremental.keyed.files.spooled_rows import is_large
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedBatch, RunBySpark
from penstock.sql.incremental.keyed.runtime import task
from penstock.sql.incremental.keyed.runtime.task import (
    ORDER,
    ReceivedInput,
    StageTask,
    TaskInput,
    TaskReport,
    TaskStage,
    returned_rows,
    rows_column,
)
from penstock.sql.incremental.stages import StageInput
from tests.sql.maintain.maintaining import recomputed

SCHEMA = pa.schema([("k", pa.int64()), ("K", pa.string()), ("at", pa.timestamp("us", "UTC"))])
CHANGES = pa.schema([*SCHEMA, pa.field(ROW_KIND, pa.int8())])
ROWS = 1_000
REPEATS = 1_000


def task_rows() -> list[pa.RecordBatch]:
    """Rows of inserts and of changes by turns, and some of no input, in no order."""
    places = list(range(ROWS))
    random.Random(4).shuffle(places)
    inserts = [row(n) if n % 3 == 0 else None for n in places]
    changes = [{**row(n), ROW_KIND: n % 4} if n % 3 == 1 else None for n in places]
    table = pa.table(
        {
            BUCKET: pa.array([5] * ROWS, pa.int32()),
            ORDER: pa.array(places, pa.int64()),
            rows_column(0): pa.array(inserts, pa.struct(list(SCHEMA))),
            rows_column(1): pa.array(changes, pa.struct(list(CHANGES))),
        }
    )
    return table.to_batches(max_chunksize=130)


def row(n: int) -> dict[str, object]:
    """A row of a place."""
    return {"k": None if n % 7 == 0 else n, "K": f"é{n}", "at": n * 1_000}


@pytest.mark.parametrize("most", [0, 1 << 20])
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("ordered", [True, False])
def test_changes_of_an_input_come_from_the_rows_of_all(
    monkeypatch: pytest.MonkeyPatch, most: int, column: int, ordered: bool
) -> None:
    """In the order of the batch where that matters; inserts get their kind."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", most)
    one = TaskInput(name="a", schema=SCHEMA, inserts=column == 0, column=column)
    received = ReceivedInput(one, ordered=ordered)
    for batch in task_rows():
        received.add(batch)
    changes = received.changes()

    assert changes.schema == CHANGES
    assert is_large(changes) == (most == 0)
    found = list(zip(*(of.to_pylist() for of in changes.columns), strict=True))
    places = [n for n in range(ROWS) if n % 3 == column]
    kind = [int(RowKind.INSERT) if column == 0 else n % 4 for n in places]
    stamps = [of.as_py() for of in pa.array([n * 1_000 for n in places], pa.timestamp("us", "UTC"))]
    wanted = [
        (None if n % 7 == 0 else n, f"é{n}", stamp, k)
        for n, stamp, k in zip(places, stamps, kind, strict=True)
    ]
    assert (found if ordered else sorted(found, key=lambda of: of[2])) == wanted


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_rows_that_come_in_no_order_are_sorted_by_their_columns(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Their places, which another attempt gives otherwise, make no difference where the order counts."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", most)
    one = TaskInput(name="a", schema=SCHEMA, inserts=True, column=0, shuffled=True)
    given = pa.Table.from_batches(task_rows())
    found = []
    for seed in (1, 2):
        places = random.Random(seed).sample(range(ROWS), ROWS)
        turned = given.take(places).set_column(1, ORDER, pa.array(range(ROWS), pa.int64()))
        received = ReceivedInput(one, ordered=True)
        for batch in turned.to_batches(max_chunksize=130):
            received.add(batch)
        found.append(received.changes().to_pylist())

    assert found[0] == found[1]
    assert [of["k"] for of in found[0] if of["k"] is not None] == [
        n for n in range(0, ROWS, 3) if n % 7
    ]
    assert len(found[0]) == len(range(0, ROWS, 3))


COLUMNS = (("k", t.BigIntType()), ("K", t.VarCharType(length=9)), ("at", t.TimestampLtzType()))


def task_pieces() -> list[pa.RecordBatch]:
    """The rows of both inputs, of three tasks, in pieces of some rows each, in no order; and a row of no input."""
    names = tuple(NamedExpression(name=n, value=FieldValue(path=(n,), type=k)) for n, k in COLUMNS)
    of_both = (BucketedInput(columns=names, key=()),) * 2
    pieces = []
    for partition in range(3):
        sorted_rows = RowBuckets(BucketedRows(buckets=1, inputs=of_both))
        for start in range(partition * 300, partition * 300 + 300, 50):
            rows = pa.RecordBatch.from_pylist([row(n) for n in range(start, start + 50)], SCHEMA)
            pieces += [(partition, piece) for piece in sorted_rows.add(rows)]
        pieces += [(partition, piece) for piece in sorted_rows.finish()]
    random.Random(4).shuffle(pieces)
    found = [
        pa.table(
            {
                BUCKET: piece.column(BUCKET),
                ORDER: pc.add(piece.column(FIRST), partition << 33),
                INPUT: piece.column(INPUT),
                ENCODED: piece.column(ENCODED),
            }
        )
        for partition, piece in pieces
    ]
    wakes = pa.table(
        {BUCKET: [0], ORDER: [0], INPUT: [None], ENCODED: [None]}, schema=found[0].schema
    )
    table = pa.concat_tables([*found, wakes]).combine_chunks()
    return table.to_batches(max_chunksize=4)


@pytest.mark.parametrize("most", [0, 1 << 20])
@pytest.mark.parametrize("ordered", [True, False])
def test_pieces_of_rows_are_the_changes_of_their_input(
    monkeypatch: pytest.MonkeyPatch, most: int, ordered: bool
) -> None:
    """Each row once, in the order of the batch where that matters, in memory and on disk."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", most)
    monkeypatch.setattr(buckets, "ROWS_AT_ONCE", 150)
    one = TaskInput(name="a", schema=SCHEMA, inserts=True, column=1)
    received = ReceivedInput(one, ordered=ordered)
    batches = task_pieces()
    assert sum(batch.num_rows for batch in batches) > 10
    for batch in batches:
        received.add(batch)
    changes = received.changes()

    assert changes.schema == CHANGES
    assert is_large(changes) == (most == 0)
    wanted = pa.Table.from_pylist([row(n) | {ROW_KIND: 0} for n in range(900)], CHANGES)
    assert (changes if ordered else changes.sort_by("at")).to_pylist() == wanted.to_pylist()


def test_pieces_come_beside_rows_of_another_input() -> None:
    """Each input takes its own: pieces have no value in the columns of rows, and rows none in those of pieces."""
    pieces, rows = pa.Table.from_batches(task_pieces()), pa.Table.from_batches(task_rows())
    both = pa.concat_tables([rows.rename_columns([BUCKET, ORDER, "__rows2", "__rows3"]), pieces], promote_options="default")  # fmt: skip
    inputs = [
        TaskInput(name="a", schema=SCHEMA, inserts=number != 3, column=number)
        for number in (0, 2, 3)
    ]
    received = [ReceivedInput(one, ordered=True) for one in inputs]
    for batch in both.combine_chunks().to_batches(max_chunksize=130):
        for one in received:
            one.add(batch)
    of_pieces, *of_rows = (one.changes() for one in received)

    wanted = pa.Table.from_pylist([row(n) | {ROW_KIND: 0} for n in range(900)], CHANGES)
    assert of_pieces.to_pylist() == wanted.to_pylist()
    assert [of.num_rows for of in of_rows] == [len(range(n, ROWS, 3)) for n in (0, 1)]


def test_an_input_without_a_piece_has_no_change() -> None:
    """Its columns are there."""
    one = TaskInput(name="a", schema=SCHEMA, inserts=True, column=0)
    received = ReceivedInput(one, ordered=True)
    for batch in task_pieces():
        received.add(batch.filter(pc.fill_null(pc.equal(batch.column(INPUT), 1), fill_value=True)))

    assert received.changes().equals(CHANGES.empty_table())


def test_a_hot_key_leaves_arrow_little_to_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is on disk, whatever follows; the file is gone with the rows."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", 1 << 20)
    one = TaskInput(name="a", schema=SCHEMA, inserts=True, column=0)
    received = ReceivedInput(one, ordered=True)
    (first,) = pa.Table.from_batches(task_rows()).combine_chunks().to_batches()
    before = pa.total_allocated_bytes()
    for _ in range(REPEATS):
        received.add(first)
    assert pa.total_allocated_bytes() - before < 4 << 20
    changes = received.changes()

    assert changes.num_rows == REPEATS * len(range(0, ROWS, 3))
    assert changes.nbytes > 4 << 20


def test_stages_of_a_task_take_their_own_inputs_and_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join of counts with rows that come from outside: rows of both come mixed, and one of none."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    context = SimpleNamespace(get=lambda: SimpleNamespace(partitionId=lambda: 3))
    monkeypatch.setattr(task, "TaskContext", context)
    by_k = pa.schema([("k", pa.int64())])
    counts, named = (pa.schema([*by_k, of]) for of in (("n", pa.int64()), ("t", pa.string())))
    joined = pa.schema([*named, ("n", pa.int64())])
    counting = recomputed(
        "g", "SELECT k, COUNT(*) AS n FROM a GROUP BY k", StageInput(name="a", key=("k",))
    )
    joining = recomputed(
        "j",
        "SELECT b.k, b.t, g.n FROM b JOIN g ON b.k = g.k",
        StageInput(name="b", key=("k",)),
        StageInput(name="g", key=("k",)),
    )
    schemas = {"a": by_k, "g": counts, "b": named, "j": joined}
    inputs = {
        "g": (TaskInput(name="a", schema=by_k, inserts=True, column=0),),
        "j": (
            TaskInput(name="b", schema=named, inserts=False, column=1),
            TaskInput(name="g", schema=counts, inserts=False, column=None),
        ),
    }
    stages = []
    for stage in (counting, joining):
        operator = keyed_operator(stage, schemas, 0)
        assert not isinstance(operator, RunBySpark)
        result = pa.schema([*schemas[stage.name], CHANGES.field(ROW_KIND)])
        stages.append(
            TaskStage(
                name=stage.name,
                operator=operator,
                inputs=inputs[stage.name],
                result=result,
                states={},
            )
        )
    reports: list[TaskReport] = []
    run = StageTask(
        stages=tuple(stages),
        returned=(3, 1, 2),
        batch=KeyedBatch(batch_id=0, now_ms=0),
        files=StateFiles(location=str(tmp_path / "state")),
        state_id="s",
        reports=SimpleNamespace(add=reports.extend),  # type: ignore[arg-type]
        writes=True,
    )
    rows = pa.table(
        {
            BUCKET: pa.array([2] * 5, pa.int32()),
            ORDER: pa.array([0] * 5, pa.int64()),
            rows_column(0): pa.array([{"k": 1}, None, {"k": 1}, None, None], pa.struct(by_k)),
            rows_column(1): pa.array(
                [
                    None,
                    {"k": 1, "t": "x", ROW_KIND: 0},
                    None,
                    {"k": 2, "t": "y", ROW_KIND: 0},
                    None,
                ],
                pa.struct([*named, CHANGES.field(ROW_KIND)]),
            ),
        }
    )

    found = pa.Table.from_batches(list(run(iter(rows.to_batches(max_chunksize=2)))))
    assert found.schema.names == [ROW_KIND, "t", "n"]
    assert found.to_pylist() == [{ROW_KIND: int(RowKind.INSERT), "t": "x", "n": 2}]
    files = {(one.stage, of.input, of.bucket) for one in reports for of in one.files}
    assert files == {("g", "a", 2), ("j", "b", 2), ("j", "g", 2)}
    assert {one.partition for one in reports} == {3}

    reports.clear()
    assert list(run(iter([]))) == []
    assert [(one.stage, dict(one.files)) for one in reports] == [("g", {}), ("j", {})]


class StoppedWriters(ThreadPoolExecutor):
    """Writers that say when they are stopped, before they wait for what runs."""

    stopped = Event()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop, and say so."""
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        self.stopped.set()
        super().shutdown(wait=wait)


def test_a_file_that_fails_stops_those_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is written meanwhile is written to its end, and no other one is begun."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    monkeypatch.setattr(task, "ThreadPoolExecutor", StoppedWriters)
    monkeypatch.setattr(task, "_WRITERS", 1)
    monkeypatch.setattr(StoppedWriters, "stopped", Event())
    begun: list[int] = []

    def write(_: StateFiles, bucket: BucketId, *__: object) -> None:
        begun.append(bucket.bucket)
        if len(begun) > 1:
            assert StoppedWriters.stopped.wait(30)
        raise OSError(f"file {len(begun)}")

    monkeypatch.setattr(StateFiles, "write", write)
    schema, result = (
        pa.schema([("k", pa.int64())]),
        pa.schema([("k", pa.int64()), ("n", pa.int64())]),
    )
    stage = recomputed(
        "w", "SELECT k, COUNT(*) AS n FROM a GROUP BY k", StageInput(name="a", key=("k",))
    )
    operator = keyed_operator(stage, {"a": schema, "w": result}, 0)
    assert not isinstance(operator, RunBySpark)
    run = StageTask(
        stages=(
            TaskStage(
                name="w",
                operator=operator,
                inputs=(TaskInput(name="a", schema=schema, inserts=True, column=0),),
                result=pa.schema([*result, CHANGES.field(ROW_KIND)]),
                states={},
                buckets=8,
                hashed={"a": ("k",)},
            ),
        ),
        returned=(0,),
        batch=KeyedBatch(batch_id=0, now_ms=0),
        files=StateFiles(location=str(tmp_path / "state")),
        state_id="s",
        reports=SimpleNamespace(add=None),  # type: ignore[arg-type]
        writes=True,
        all_buckets=True,
    )
    rows = pa.table(
        {
            BUCKET: pa.array([0] * 100, pa.int32()),
            ORDER: pa.array(range(100), pa.int64()),
            rows_column(0): pa.array([{"k": n} for n in range(100)], pa.struct(schema)),
        }
    )

    with pytest.raises(OSError, match="file 1"):
        list(run(iter(rows.to_batches())))
    assert begun in ([0], [0, 1])


def test_rows_of_a_task_that_ran_again_count_once() -> None:
    """A task is tried again, or runs twice at once; each of its stages reports what the task returned."""
    reports = [
        TaskReport(batch_id=3, stage=stage, partition=partition, returned=rows)
        for partition, rows in ((0, 5), (1, 7), (0, 5))
        for stage in ("first", "last")
    ]

    assert returned_rows(reports, "last") == 12
    assert returned_rows(reports, "none") == 0
