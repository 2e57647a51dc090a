"""A task of several splits whose fetches come in another order: where the order of rows counts, it gives the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from penstock.catalog.model.types import BigIntType
from penstock.connector.contract import FetcherModel, ReadRequest, SplitReader, SplitSource
from penstock.connector.expression import (
    BUCKET,
    ENCODED,
    FIRST,
    BucketedInput,
    BucketedRows,
    FieldValue,
    NamedExpression,
)
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.scan import Scan, read_scan, write_scan
from penstock.connector.source.reader.reader import SourceReader
from penstock.connector.source.reader.split_order import SplitOrder
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split
from penstock.connector.spark.source.buckets import decoded
from penstock.connector.spark.source.columns import LOST, scan_schema
from penstock.connector.spark.source.offsets import TaskPartition
from penstock.connector.spark.source.task import read_partition
from tests.connector.filesystem.tables import file_table
from tests.connector.kafka.reading import planned, planning, topic_source

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer

ID = FieldValue(path=("id",), type=BigIntType())
BUCKETED = BucketedRows(
    buckets=3, inputs=(BucketedInput(columns=(NamedExpression(name="id", value=ID),), key=(0,)),)
)
FETCHES: Sequence[tuple[str, list[int], bool]] = (
    ("a", [1, 2, 3], False),
    ("b", [11, 12], False),
    ("a", [4], True),
    ("b", [13], False),
    ("b", [14, 15], True),
)
TURNED = [fetch for split in "ba" for fetch in FETCHES if fetch[0] == split]


@dataclass
class ScriptedReader:
    """Gives fetches one after the other: a split, its rows, and whether it is finished."""

    fetches: list[tuple[str, list[int], bool]]
    lost: int = 0

    def fetch(self) -> RecordsWithSplitIds:
        """Give the next one."""
        split_id, ids, ends = self.fetches.pop(0)
        rows = pa.record_batch({"id": pa.array(ids, pa.int64())})
        return RecordsWithSplitIds(
            batches=((split_id, rows),),
            finished=frozenset({split_id} if ends else ()),
            lost=self.lost,
        )

    def add_splits(self, splits: Sequence[Split]) -> None:
        """They are known."""

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """So few rows pause nothing."""

    def wake_up(self) -> None:
        """It never waits."""

    def close(self) -> None:
        """It holds nothing."""


@dataclass
class ScriptedSource:
    """The source of such a reader: as a consumer it reads all splits at once."""

    fetches: Sequence[tuple[str, list[int], bool]]
    watermark: WatermarkSettings
    lost: int = 0
    fetching = FetcherModel.MULTIPLEXED
    skips_bad_records = False

    @property
    def tolerates_loss(self) -> bool:
        """Whether its fetches may lose records."""
        return self.lost > 0

    def open_reader(self, request: ReadRequest) -> SplitReader:
        """Open it."""
        return ScriptedReader(list(self.fetches), lost=self.lost)


def given(
    folder: Path, fetches: Sequence[tuple[str, list[int], bool]], lost: int = 0, **scan_changes: Any
) -> list[dict[str, Any]]:
    """What Spark gets of a task that reads two splits."""
    table = file_table(folder, {}, columns={"id": "BIGINT"})
    scan = Scan(table=table, columns=("id",), rowtime=None, time_zone="UTC", project=str(folder))
    scan = replace(scan, **scan_changes)
    settings = FilesystemConnector(project=folder).source(table).watermark
    partition = TaskPartition(
        splits=tuple(Split(split_id=i, start=0, stop=9) for i in "ab"),
        watermarks=None,
        heartbeat=False,
        numbers=(0, 1),
    )
    source = cast("SplitSource", ScriptedSource(fetches=fetches, watermark=settings, lost=lost))
    schema = scan_schema(scan, counts_skipped=False, counts_lost=source.tolerates_loss)
    found = read_partition(partition, scan, source, schema)
    return [row for batch in found for row in batch.to_pylist()]


def test_what_fetches_lost_is_in_the_marker_row_of_the_task(tmp_path: Path) -> None:
    """Of all fetches, those included that are held back until another split is read."""
    for ordered in (False, True):
        *rows, marker = given(tmp_path, TURNED, lost=3, split_by_split=ordered)

        assert marker == {"id": None, LOST: 15}
        assert {row[LOST] for row in rows} == {None}


def test_rows_come_one_split_after_the_other_where_that_is_asked_for(tmp_path: Path) -> None:
    """Else they come as they are fetched."""
    ordered = [
        [row["id"] for row in given(tmp_path, fetches, split_by_split=True)]
        for fetches in (FETCHES, TURNED)
    ]
    as_fetched = [row["id"] for row in given(tmp_path, TURNED)]

    assert ordered == [[1, 2, 3, 4, 11, 12, 13, 14, 15]] * 2
    assert as_fetched == [11, 12, 13, 14, 15, 1, 2, 3, 4]


def test_rows_of_a_bucket_have_the_same_order(tmp_path: Path) -> None:
    """The number of the first row of each piece is that of the splits' order, whatever came first."""

    def pieces(fetches: Sequence[tuple[str, list[int], bool]]) -> list[tuple[int, int, list[int]]]:
        rows = given(tmp_path, fetches, buckets=BUCKETED, split_by_split=True)
        encoded = [row for row in rows if row[ENCODED] is not None]
        tables = decoded([pa.scalar(row[ENCODED], pa.binary()) for row in encoded])
        return [
            (row[BUCKET], row[FIRST], table.column(0).to_pylist())
            for row, table in zip(encoded, tables, strict=True)
        ]

    found = pieces(FETCHES)

    assert found == pieces(TURNED)
    assert sorted(i for _, _, ids in found for i in ids) == [1, 2, 3, 4, 11, 12, 13, 14, 15]
    assert len(found) == 3
    assert all(ids == sorted(ids) for _, _, ids in found)


@pytest.mark.parametrize("split_by_split", [True, False])
def test_a_task_is_told_of_the_order(tmp_path: Path, *, split_by_split: bool) -> None:
    """By the file that describes its scan."""
    table = file_table(tmp_path, {}, columns={"id": "BIGINT"})
    scan = Scan(table=table, columns=("id",), rowtime=None, time_zone="UTC", project="/nowhere")
    scan = replace(scan, split_by_split=split_by_split)
    write_scan(scan, tmp_path / "scan.json")

    assert read_scan(tmp_path / "scan.json") == scan


def test_partitions_of_a_topic_come_one_after_the_other_though_they_are_paused(
    kafka: KafkaServer,
) -> None:
    """One consumer reads three; those behind it come first, and are read on from where they were paused."""
    topic = kafka.create_topic(partitions=3)
    for partition, count in enumerate((30_000, 40_000, 25_000)):
        first = partition * 100_000
        records = [b'{"id": %d}' % (first + number) for number in range(count)]
        kafka.produce(topic, records, partition=partition)
    source = topic_source(kafka, topic, {"scan.bounded.mode": "latest-offset"})
    with planning(source) as planner:
        splits = [planner.split(i, *at) for i, at in sorted(planned(planner).items())]
    first, *others = (split.split_id for split in splits)
    order = SplitOrder([first, *others], most_bytes=50_000)
    found: list[int] = []
    paused: list[frozenset[str]] = []
    request = ReadRequest(columns=("id",))
    with SourceReader(lambda: source.open_reader(request), model=source.fetching) as reader:
        reader.add_splits(splits)
        reader.notify_no_more_splits()
        reader.pause_or_resume_splits([first], [])
        for records_of_fetch in reader.read_to_end():
            for _, batch in order.take(records_of_fetch.batches, records_of_fetch.finished):
                found += batch.column("id").to_pylist()
            if change := order.change():
                resumed = set(change.resume) if paused else {first, *change.resume}
                paused += [change.pause] if change.pause else []
                reader.pause_or_resume_splits(change.pause, resumed)

    assert found == [*range(30_000), *range(100_000, 140_000), *range(200_000, 225_000)]
    assert paused
    assert paused[0] <= set(others)
