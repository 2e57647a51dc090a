"""A task's work without Spark: rows of its ranges, framed, with what was left out counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from penstock.catalog.errors import SinkError
from penstock.catalog.model.table import Watermark
from penstock.catalog.model.types import BigIntType, BooleanType
from penstock.connector.event_time.future_timestamps import filters_future_rows
from penstock.connector.event_time.reports import MARK, ReportFolder
from penstock.connector.expression import Constant, Expression, FieldValue, FunctionCall
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.scan import ARRIVED, Rowtime, Scan
from penstock.connector.source.split import Split
from penstock.connector.spark.errors import SparkReadableError
from penstock.connector.spark.source import task
from penstock.connector.spark.source.columns import FILTERED, FUTURE, SKIPPED, scan_schema
from penstock.connector.spark.source.offsets import BatchWatermarks, TaskPartition
from penstock.connector.spark.source.task import read_partition
from penstock.connector.spark.storage_access import store_of
from penstock.connector.storage import StorageAccess
from tests.connector.filesystem.tables import file_table, planned, planning, write

if TYPE_CHECKING:
    from tests.s3_server import S3Server

LINES = (
    '{"id":1,"ts":"2024-01-01 00:00:00"}',
    '{"id":2,"ts":"2090-01-01 00:00:00"}',
    "bad",
    '{"id":3}',
)
BOUND_MS = 1_704_153_600_000  # 2024-01-02
ROWTIME = Rowtime(column="ts", inputs=("ts",), expression='"ts"', instant=False)


def run(
    folder: Path,
    columns: tuple[str, ...],
    *,
    bound: bool = True,
    condition: Expression | None = None,
    reports: ReportFolder | None = None,
    apart: bool = False,
    scan_changes: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> list[dict[str, Any]]:
    """The rows of one task over all files of a folder; `apart`: of a task for each file."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    given = {"scan.dead-letter.path": "letters"} | given
    table = file_table(folder / "in", given, columns={"id": "BIGINT", "ts": "TIMESTAMP(3)"})
    watermark = Watermark(column="ts", expression="ts")
    table = replace(table, schema=replace(table.schema, watermark=watermark))
    scan = Scan(
        table=table,
        columns=columns,
        rowtime=ROWTIME,
        time_zone="UTC",
        project=str(folder),
        condition=condition,
    )
    scan = replace(scan, **scan_changes)
    source = FilesystemConnector(project=folder).source(table)
    planner = planning(source)
    splits: list[Split] = [planner.split(i, *at) for i, at in sorted(planned(planner).items())]
    partitions = [
        TaskPartition(
            splits=tuple(of_task),
            watermarks=BatchWatermarks(now_ms=0, before_ms=0),
            heartbeat=False,
            not_after_ms=BOUND_MS if bound else None,
            reports=reports,
        )
        for of_task in ([[split] for split in splits] if apart else [splits])
    ]
    counts = source.skips_bad_records or filters_future_rows(scan, source.watermark)
    schema = scan_schema(scan, counts_skipped=counts)
    found = [b for partition in partitions for b in read_partition(partition, scan, source, schema)]
    return [row for batch in found for row in batch.to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with one file."""
    write(tmp_path / "in" / "a", "\n".join((*LINES[:2], LINES[3])))
    return tmp_path


def test_a_record_of_the_future_fails_the_task(folder: Path) -> None:
    """Unless the table says otherwise; file and position are named."""
    with pytest.raises(SparkReadableError, match=r"/in/a, byte 36: the watermark of this record"):
        run(folder, ("id", "ts"))


@pytest.mark.parametrize("columns", [("id", "ts"), ("id",)])
def test_skipped_records_are_counted_in_a_marker_row(
    folder: Path, columns: tuple[str, ...]
) -> None:
    """Also where the query does not want the time; a record without a time stays."""
    rows = run(folder, columns, scan__watermark__on_future="skip")

    assert [(row["id"], row[SKIPPED]) for row in rows] == [(1, None), (3, None), (None, 1)]
    assert all(("ts" in row) == ("ts" in columns) for row in rows)


def test_bad_records_of_both_kinds_are_one_count(tmp_path: Path) -> None:
    """Those that cannot be decoded, and those of the future, which are told apart as well."""
    write(tmp_path / "in" / "a", "\n".join(LINES))
    rows = run(
        tmp_path, ("id",), json__ignore_parse_errors="true", scan__watermark__on_future="skip"
    )

    assert [row[SKIPPED] for row in rows] == [None, None, 2]
    assert [row[FUTURE] for row in rows] == [None, None, 1]


def test_dead_letters_are_written_once_however_often_the_task_runs(folder: Path) -> None:
    """The same rows, the same count, the same file."""
    runs = [run(folder, ("id",), scan__watermark__on_future="dead-letter") for _ in range(2)]

    (path,) = (folder / "letters").rglob("*.jsonl")
    (letter,) = map(json.loads, path.read_text().splitlines())
    assert runs[0] == runs[1]
    assert runs[0][-1][SKIPPED] == 1
    assert (letter["split"], letter["position"], letter["value"]) == ("a", 36, LINES[1])


def test_a_task_of_several_splits_gives_what_a_task_for_each_gives(tmp_path: Path) -> None:
    """Rows in the order of each split, one sum of what was left out, event times and dead letters by split."""
    given: list[tuple[Any, ...]] = []
    for apart in (True, False):
        home = tmp_path / str(apart)
        for name, lines in (("a", LINES), ("b", LINES[::-1]), ("c", LINES[:1])):
            write(home / "in" / name, "\n".join(lines))
        reported = home / "reports"
        reported.mkdir()
        (reported / MARK).touch()
        rows = run(
            home,
            ("id", "ts"),
            reports=ReportFolder(folder=str(reported), batch="b"),
            apart=apart,
            json__ignore_parse_errors="true",
            scan__watermark__on_future="dead-letter",
        )
        letters = {path.name: path.read_text() for path in (home / "letters").rglob("*.jsonl")}
        times = sorted(path.name for path in (reported / "b").iterdir())
        markers = [row[SKIPPED] for row in rows if row[SKIPPED] is not None]
        ids = [row["id"] for row in rows if row[SKIPPED] is None]
        given.append((ids, sum(markers), letters, times))

    assert given[0] == given[1]
    ids, left_out, letters, times = given[1]
    assert (ids, left_out, len(letters), len(times)) == ([1, 3, 3, 1, 1], 4, 2, 3)


def test_a_task_writes_into_a_store_by_the_keys_that_its_scan_has(
    folder: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Event times, bad records and the deprecated folder of dead letters; nothing stands in the environment."""
    monkeypatch.setattr(task, "_batch_id", lambda: 4)
    write(folder / "in" / "a", "\n".join(LINES))
    store = store_of("s3a://penstock", s3.settings)
    assert store is not None
    for name in ("event-times/0", "letters-staging/0"):
        s3.objects[f"job/{name}/{MARK}"] = b""
    rows = run(
        folder,
        ("id", "ts"),
        reports=ReportFolder(folder="s3a://penstock/job/event-times/0", batch="b"),
        scan_changes={
            "access": StorageAccess(stores=(store,)),
            "staging": "s3a://penstock/job/letters-staging/0",
        },
        bad_records="dead-letter",
        scan__watermark__on_future="dead-letter",
        scan__dead_letter__path="s3a://penstock/letters",
    )
    times, staged = s3.keys("job/event-times/0/b/"), s3.keys("job/letters-staging/0/4/")
    (letters,) = s3.keys("letters/")

    assert [row["id"] for row in rows if row[SKIPPED] is None] == [1, 3]
    assert (len(times), len(staged)) == (1, 1)
    assert staged[0].endswith(".parquet")
    assert json.loads(s3.objects[letters])["value"] == LINES[1]
    assert not s3.refused


def above(number: int) -> Expression:
    """`id > number`."""
    sides = (Constant(value=number, type=BigIntType()), FieldValue(path=("id",), type=BigIntType()))
    return FunctionCall(function="less", arguments=sides, type=BooleanType())


def test_rows_without_the_condition_are_counted_and_do_not_come(folder: Path) -> None:
    """Beside those that are bad; a task that leaves out none tells nothing."""
    rows = run(folder, ("id",), condition=above(2), scan__watermark__on_future="skip")
    all_rows = run(folder, ("id",), condition=above(0), scan__watermark__on_future="skip")
    whole = run(folder, ("id",), condition=above(0), bound=False)

    assert [(row["id"], row[SKIPPED], row[FILTERED]) for row in rows] == [
        (3, None, None),
        (None, 1, 1),
    ]
    assert [(row["id"], row[FILTERED]) for row in all_rows] == [(1, None), (3, None), (None, 0)]
    assert [row["id"] for row in whole] == [1, 2, 3]


def test_a_condition_hides_no_record_of_the_future(folder: Path) -> None:
    """It would make later rows late all the same, were it accepted."""
    with pytest.raises(SparkReadableError, match=r"/in/a, byte 36: the watermark of this record"):
        run(folder, ("id",), condition=above(2))


def test_event_times_are_those_of_all_rows(folder: Path) -> None:
    """Whether the condition holds for them or not: the watermark is the table's."""
    told = []
    for number in (0, 100):
        place = folder / f"times-{number}"
        place.mkdir()
        (place / MARK).touch()
        reports = ReportFolder(folder=str(place), batch="b")
        run(folder, ("id",), condition=above(number), bound=False, reports=reports)
        told.append(sorted(path.name for path in (place / "b").iterdir()))

    assert told[0] == told[1] != []


def test_without_a_bound_all_rows_come(folder: Path) -> None:
    """The option is off, or the offset is of before there was one."""
    rows = run(folder, ("id",), bound=False)

    assert [row["id"] for row in rows] == [1, 2, 3]


def test_a_record_of_the_future_may_be_kept_with_the_other_bad_records(folder: Path) -> None:
    """Without a directory of its own it goes where they go; in a SELECT, which keeps none, it is counted."""
    write(folder / "in" / "a", "\n".join(LINES))
    options: dict[str, Any] = {
        "scan__watermark__on_future": "dead-letter",
        "bad_records": "dead-letter",
    }
    rows = run(folder, ("id",), scan__dead_letter__path=None, **options)

    assert [row[SKIPPED] for row in rows] == [None, None, 2]


def test_both_kinds_of_bad_records_stop_a_task_together(folder: Path) -> None:
    """The limit is one of records, whatever is wrong with them."""
    write(folder / "in" / "a", "\n".join(LINES))
    options: dict[str, Any] = {
        "scan__watermark__on_future": "dead-letter",
        "bad_records": "dead-letter",
    }
    with pytest.raises(SparkReadableError, match="2 of 4"):
        run(folder, ("id",), scan__dead_letter__path=None, bad_records__max_rows="1", **options)


def arrived(
    folder: Path, ranges: dict[str, tuple[int, int]], **scan_changes: Any
) -> dict[int, Any]:
    """Read ranges of files as one task; gives ids with when their rows came."""
    table = file_table(folder / "in", {}, columns={"id": "BIGINT"})
    source = FilesystemConnector(project=folder).source(table)
    planner = planning(source)
    splits = {i: planner.split(i, *at) for i, at in planned(planner).items()}
    scan = Scan(table=table, columns=("id",), rowtime=None, time_zone="UTC", project=str(folder))
    scan = replace(scan, input=2, **scan_changes)
    partition = TaskPartition(
        splits=tuple(replace(splits[i], start=at, stop=stop) for i, (at, stop) in ranges.items()),
        watermarks=None,
        heartbeat=False,
        numbers=tuple(sorted(splits).index(i) for i in ranges),
    )
    found = read_partition(partition, scan, source, scan_schema(scan, counts_skipped=False))
    return {row["id"]: tuple(row[ARRIVED].values()) for b in found for row in b.to_pylist()}


def test_rows_of_two_tasks_are_in_the_order_of_their_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is cut gives the order that it has whole; another file comes behind it, a batch before all."""
    monkeypatch.setattr(task, "_batch_id", lambda: 4)
    for name, first in (("a", 0), ("b", 5)):
        rows = "\n".join(f'{{"id":{first + i}}}' for i in range(4))
        write(tmp_path / "in" / name, rows + "\n")
    a, b = sorted(planned(planning(FilesystemConnector(project=tmp_path).source(
        file_table(tmp_path / "in", {}, columns={"id": "BIGINT"})))))  # fmt: skip
    whole = arrived(tmp_path, {a: (0, 36), b: (0, 36)}, event_times="stream")
    cut = arrived(tmp_path, {a: (18, 36), b: (0, 36)}) | arrived(tmp_path, {a: (0, 18)})

    assert sorted(whole, key=whole.__getitem__) == sorted(cut, key=cut.__getitem__)
    assert sorted(whole, key=whole.__getitem__) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert {came[:2] for came in whole.values()} == {(4, 2)}
    assert {came[:2] for came in cut.values()} == {(0, 2)}  # what is read once has no batches


def test_a_task_that_cannot_tell_its_batch_gives_no_order(tmp_path: Path) -> None:
    """Rows of later batches would seem to have come first."""
    write(tmp_path / "in" / "a", '{"id":1}\n')

    with pytest.raises(SinkError, match="so it cannot say which rows came first"):
        arrived(tmp_path, {}, event_times="stream")


class OfSpark:
    """The context of a task."""

    def partitionId(self) -> int:  # noqa: N802  Spark's name
        """The first one."""
        return 0

    def getLocalProperty(self, key: str) -> None:  # noqa: N802
        """None is set."""


def test_a_worker_leaves_its_modules_out_of_collections_after_its_first_task(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's daemon collects garbage after each task; a process that is not Spark's stays as it is."""
    calls: list[str] = []
    monkeypatch.setattr(task, "_WORKER", task._Worker())
    monkeypatch.setattr(task.gc, "collect", lambda: calls.append("collect"))
    monkeypatch.setattr(task.gc, "freeze", lambda: calls.append("freeze"))

    run(folder, ("id",), bound=False)
    elsewhere = list(calls)
    monkeypatch.setattr(task.TaskContext, "get", OfSpark)
    run(folder, ("id",), bound=False)
    after_the_first = list(calls)
    run(folder, ("id",), bound=False)

    assert elsewhere == []
    assert after_the_first == ["collect", "freeze"]
    assert calls == after_the_first
