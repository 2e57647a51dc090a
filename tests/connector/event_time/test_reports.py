"""Reports of event times: what tasks leave, and what planning makes of it after the batch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import fs

from penstock.catalog.errors import SinkError
from penstock.connector.event_time import reports as event_time_reports
from penstock.connector.event_time.reports import (
    EventTimes,
    EventTimesReader,
    RangeReporter,
    ReportFolder,
)
from penstock.connector.source.split import Split
from penstock.connector.source.state import SourceState, SplitState
from penstock.connector.spark.storage_access import store_of
from penstock.connector.storage import Folder, StorageAccess

if TYPE_CHECKING:
    from tests.s3_server import S3Server


def state(*ranges: tuple[str, int, int]) -> SourceState:
    """A planned batch of these ranges."""
    splits = [SplitState(split_id=i, owner="t", start=start, end=end) for i, start, end in ranges]
    return SourceState(splits=tuple(splits))


def place_of(folder: Path, batch: SourceState, *, replayed: bool = False) -> ReportFolder:
    """Where the tasks of a batch report."""
    report_folder = EventTimesReader(str(folder)).report_folder(batch, replayed=replayed)
    assert report_folder is not None
    return report_folder


def report(
    report_folder: ReportFolder | None,
    split_id: str,
    *highest_ms: int | None,
    start: int = 0,
    known_ms: int | None = None,
    late: int = 0,
) -> None:
    """Read one range to its end, as a task does."""
    split = Split(split_id=split_id, start=start, stop=start + 10)
    known = {} if known_ms is None else {split_id: known_ms}
    reporter = RangeReporter(report_folder, [split], known)
    for ms in highest_ms:
        reporter.take(split_id, EventTimes(highest_ms=ms, late=late))
    reporter.finish({split_id})


def files(folder: Path) -> list[str]:
    """What there is of reports."""
    return sorted(path.name for path in folder.glob("*/*"))


BATCH = state(("t-0", 0, 20), ("a/b.c d", 0, 10))


def test_planning_finds_the_highest_of_all_ranges_of_a_split(tmp_path: Path) -> None:
    """Of two tasks of one partition, and of a split whose name is no file's; after a restart too."""
    report_folder = place_of(tmp_path, BATCH)
    report(report_folder, "t-0", 5, None, 9)
    report(report_folder, "t-0", 7, start=10)
    report(report_folder, "a/b.c d", -3)

    assert EventTimesReader(str(tmp_path)).after(BATCH) == {
        "t-0": EventTimes(highest_ms=9),
        "a/b.c d": EventTimes(highest_ms=-3),
    }


def test_rows_in_order_of_time_leave_no_file(tmp_path: Path) -> None:
    """Planning saw the last record, which is the highest; nor do rows without a time."""
    report_folder = place_of(tmp_path, BATCH)
    report(report_folder, "t-0", 5, known_ms=5)
    report(report_folder, "a/b.c d", None)

    assert files(tmp_path) == []
    assert EventTimesReader(str(tmp_path)).after(BATCH) == {}


def test_a_range_that_is_not_read_to_its_end_reports_nothing(tmp_path: Path) -> None:
    """Its task failed, and another attempt reads it again."""
    report_folder = place_of(tmp_path, BATCH)
    reporter = RangeReporter(report_folder, [Split(split_id="t-0", start=0, stop=9)], {})
    reporter.take("t-0", EventTimes(highest_ms=900))

    assert EventTimesReader(str(tmp_path)).after(BATCH) == {}


def test_a_replayed_range_takes_the_place_of_what_it_reported(tmp_path: Path) -> None:
    """Options may have changed since: records that are left out now do not move the watermark."""
    report(place_of(tmp_path, BATCH), "t-0", 900)
    report(place_of(tmp_path, BATCH), "t-0", 30, start=10)
    again = place_of(tmp_path, BATCH, replayed=True)
    report(again, "t-0", 40)
    first = EventTimesReader(str(tmp_path)).after(BATCH)
    report(again, "t-0", 4, known_ms=4)

    assert first == {"t-0": EventTimes(highest_ms=40)}
    assert EventTimesReader(str(tmp_path)).after(BATCH) == {"t-0": EventTimes(highest_ms=30)}


def test_reports_are_kept_until_the_batch_after_is_complete(tmp_path: Path) -> None:
    """Its offset says what they said. A process that starts over removes what earlier ones left, a batch later."""
    second, third, fourth = (state(("t-0", at, at + 10)) for at in (20, 30, 40))
    reader = EventTimesReader(str(tmp_path))
    report(place_of(tmp_path, BATCH), "t-0", 9)
    assert reader.after(BATCH)
    report(place_of(tmp_path, second), "t-0", 19, start=20)
    assert len(files(tmp_path)) == 2
    assert reader.after(second) == {"t-0": EventTimes(highest_ms=19)}
    assert len(files(tmp_path)) == 1
    again = EventTimesReader(str(tmp_path))
    again.after(third)
    assert len(files(tmp_path)) == 1
    again.after(fourth)

    assert files(tmp_path) == []


def test_two_planners_of_one_table_find_what_their_own_batches_reported(tmp_path: Path) -> None:
    """A self-join is two scans, started anew after a crash, whose ranges may differ."""
    left, right = BATCH, state(("t-0", 0, 15))
    report(place_of(tmp_path, left), "t-0", 9)
    report(place_of(tmp_path, right), "t-0", 7)

    assert EventTimesReader(str(tmp_path)).after(left) == {"t-0": EventTimes(highest_ms=9)}
    assert EventTimesReader(str(tmp_path)).after(right) == {"t-0": EventTimes(highest_ms=7)}


def test_late_rows_are_added_up(tmp_path: Path) -> None:
    """They are reported also where the highest time is known."""
    report_folder = place_of(tmp_path, BATCH)
    report(report_folder, "t-0", 5, 6, known_ms=6, late=2)
    report(report_folder, "t-0", None, start=10, late=1)

    assert EventTimesReader(str(tmp_path)).after(BATCH) == {"t-0": EventTimes(late=5)}


def test_a_batch_without_records_has_no_reports(tmp_path: Path) -> None:
    """A heartbeat reads nothing, and looks at nothing."""
    reader = EventTimesReader(str(tmp_path / "never"))

    assert reader.report_folder(state(("t-0", 3, 3)), replayed=False) is None
    assert reader.after(state(("t-0", 3, 3))) == {}
    assert not (tmp_path / "never").exists()


def test_a_task_that_does_not_see_the_drivers_disk_reports_nothing(tmp_path: Path) -> None:
    """Then the watermark is what planning saw, which is never too high."""
    report_folder = ReportFolder(folder=str(tmp_path / "elsewhere"), batch="b")
    report(report_folder, "t-0", 5)

    assert not (tmp_path / "elsewhere").exists()


def test_a_file_system_that_tasks_do_not_know_is_gone_without() -> None:
    """The query runs as before; bad records, which would be lost, are refused there."""
    reader = EventTimesReader("dbfs:/somewhere/event-times")

    assert reader.report_folder(BATCH, replayed=False) is None
    assert reader.after(BATCH) == {}


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The checkpoint of the query is gone, or full."""
    (tmp_path / "file").write_text("")

    with pytest.raises(SinkError, match="event times of a batch cannot be kept in"):
        EventTimesReader(str(tmp_path / "file")).report_folder(BATCH, replayed=False)


class Store:
    """An object store over a local folder, which notes the calls of it and may refuse to be written."""

    type_name = "s3"

    def __init__(self, *, writable: bool = True) -> None:
        self.calls: list[str] = []
        self._writable = writable
        self._files = fs.LocalFileSystem()

    def create_dir(self, path: str, *, recursive: bool) -> None:
        """Make a folder."""
        self.calls.append("create_dir")
        if not self._writable:
            raise OSError("AWS Error ACCESS_DENIED during HeadBucket operation")
        self._files.create_dir(path, recursive=recursive)

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._files, name)

    def put_under(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be what every location is on."""

        def opened(location: str, *, access: StorageAccess) -> Folder:
            return Folder(system=self, path=location, shown=f"s3://bucket{location}")

        monkeypatch.setattr(event_time_reports, "open_folder", opened)


def test_a_store_that_lets_in_spark_alone_is_gone_without_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Credentials in Spark's configuration are not pyarrow's: the query runs, by what planning sees."""
    Store(writable=False).put_under(monkeypatch)
    reader = EventTimesReader(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert reader.report_folder(BATCH, replayed=False) is None
        assert reader.after(BATCH) == {}

    (record,) = caplog.records
    assert f"s3://bucket{tmp_path}: AWS Error ACCESS_DENIED" in record.getMessage()


def test_a_batch_without_reports_takes_one_listing_and_no_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an object store each call takes some ten milliseconds, at each batch."""
    store = Store()
    store.put_under(monkeypatch)
    reader = EventTimesReader(str(tmp_path))
    batches = [state(("t-0", at, at + 10)) for at in (0, 10, 20, 30)]
    reader.after(batches[0])
    calls = []
    for batch, *reports in zip(batches[1:], (0, 9, 0), strict=True):
        for ms in filter(None, reports):
            report(place_of(tmp_path, batch), "t-0", ms, start=20)
        store.calls.clear()
        reader.after(batch)
        calls.append(list(store.calls))

    assert calls == [["get_file_info"], ["get_file_info"], ["delete_dir", "get_file_info"]]
    assert files(tmp_path) == []


def test_reports_go_through_a_store_by_keys_of_hadoops_configuration(s3: S3Server) -> None:
    """Both sides open it so, and planning removes what it has read."""
    location = "s3a://penstock/job/event-times/0"
    store = store_of(location, s3.settings)
    assert store is not None
    access = StorageAccess(stores=(store,))
    split, later = Split(split_id="t-0", start=0, stop=20), state(("t-0", 20, 30))
    reader = EventTimesReader(location, access=access)
    reader.after(BATCH)
    report_folder = reader.report_folder(BATCH, replayed=False)
    for ms in (9, 30):  # the second attempt had another end
        reporter = RangeReporter(report_folder, [split], {}, access=access)
        reporter.take("t-0", EventTimes(highest_ms=ms))
        reporter.finish({"t-0"})
    found = EventTimesReader(location, access=access).after(BATCH)
    written = s3.keys("job/event-times/0/")
    for batch in (BATCH, later, state(("t-0", 30, 40))):
        reader.after(batch)

    assert found == {"t-0": EventTimes(highest_ms=30)}
    assert len(written) == 3
    assert s3.keys() == ["job/event-times/0/_driver"]
