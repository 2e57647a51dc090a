"""Which files of a table are put together next, by its log alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.connector.delta.files import small_files
from penstock.connector.delta.files.small_files import (
    CompactionLimits,
    LogGapError,
    SmallFile,
    SmallFiles,
    choose,
)
from penstock.connector.storage import open_folder

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "x",
    "offset": 1,
    "sizeInBytes": 9,
    "cardinality": 1,
}
LIMITS = CompactionLimits(enough=3, small_bytes=100, file_bytes=200)


def commit(table: Path, version: int, *actions: dict[str, Any]) -> None:
    """Write a commit."""
    log = table / "_delta_log"
    log.mkdir(exist_ok=True)
    lines = [json.dumps(action) for action in ({"commitInfo": {}}, *actions)]
    (log / f"{version:020}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


def added(path: str, size: int = 10, **other: Any) -> dict[str, Any]:
    """A file that a commit adds."""
    return {"add": {"path": path, "size": size, "partitionValues": {}, **other}}


def removed(path: str) -> dict[str, Any]:
    """A file that a commit removes."""
    return {"remove": {"path": path}}


def due_at(table: Path, version: int) -> list[str]:
    """The files that are due at a version, as found without a look before."""
    files = SmallFiles(limits=LIMITS)
    files.follow(open_folder(str(table)), version)
    return [file.path for file in files.due()]


def test_files_are_due_when_there_are_enough_of_them(tmp_path: Path) -> None:
    """In the order they came in; those that are gone, or large, do not count."""
    commit(tmp_path, 0, added("a"), added("gone"), added("large", 100))
    commit(tmp_path, 1, added("b"), removed("gone"))
    commit(tmp_path, 2, added("c"))

    assert due_at(tmp_path, 1) == []
    assert due_at(tmp_path, 2) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "odd",
    [
        added("odd", clusteringProvider="liquid"),
        added("/elsewhere/odd"),
        added("s3://elsewhere/odd"),
    ],
)
def test_files_that_are_more_than_rows_stay(tmp_path: Path, odd: dict[str, Any]) -> None:
    """Laid out by clustering, of a clone."""
    commit(tmp_path, 0, added("a"), added("b"), odd)
    assert due_at(tmp_path, 0) == []
    commit(tmp_path, 1, added("c"))

    assert due_at(tmp_path, 1) == ["a", "b", "c"]


def test_a_file_with_a_deletion_vector_is_known_with_it(tmp_path: Path) -> None:
    """DELETE removes the file without it and adds the same with it, in either order."""
    commit(tmp_path, 0, added("a"), added("b"), added("c"))
    commit(tmp_path, 1, added("a", deletionVector=VECTOR), removed("a"))
    files = SmallFiles(limits=LIMITS)
    files.follow(open_folder(str(tmp_path)), 1)

    assert [(file.path, file.vector) for file in files.due()] == [
        ("b", None),
        ("c", None),
        ("a", VECTOR),
    ]
    assert files.due()[2].removed(7)["deletionVector"] == VECTOR
    assert "deletionVector" not in files.due()[0].removed(7)


def test_a_large_file_is_small_when_most_of_its_rows_are_gone(tmp_path: Path) -> None:
    """By the share of its rows that are of the table; where the log does not say how many there are it stays."""
    stats = json.dumps({"numRecords": 10})
    commit(tmp_path, 0, added("a", 40), added("b", 45), added("few", 150, deletionVector=VECTOR))
    commit(tmp_path, 1, added("some", 101, deletionVector=VECTOR, stats=stats))
    more = {**VECTOR, "cardinality": 4}
    commit(tmp_path, 2, added("some", 150, deletionVector=more, stats=stats))

    assert due_at(tmp_path, 0) == []
    assert due_at(tmp_path, 1) == ["a", "b", "some"]
    assert due_at(tmp_path, 2) == ["a", "b", "some"]


def test_files_become_one_within_their_partition(tmp_path: Path) -> None:
    """Of the partition that has enough; NULL is one of its own."""
    at = [("x", "1"), ("y", None), ("y", "1"), ("x", "2"), ("x", "3")]
    files = [
        added(f"{place}{number}", partitionValues={"p": None if number is None else place})
        for place, number in at
    ]
    commit(tmp_path, 0, *files)

    assert due_at(tmp_path, 0) == ["x1", "x2", "x3"]


def test_a_look_goes_on_from_the_one_before(tmp_path: Path) -> None:
    """Commits that were read are not read again; an older version is known from the beginning."""
    commit(tmp_path, 0, added("a"), added("b"))
    files = SmallFiles(limits=LIMITS)
    files.follow(open_folder(str(tmp_path)), 0)
    commit(tmp_path, 0)
    commit(tmp_path, 1, added("c"))
    files.follow(open_folder(str(tmp_path)), 1)
    due = [file.path for file in files.due()]
    files.follow(open_folder(str(tmp_path)), 0)

    assert due == ["a", "b", "c"]
    assert files.due() == []


def test_what_a_checkpoint_has_is_known(tmp_path: Path) -> None:
    """Its commits may be gone; one behind the version that is asked for is not read."""
    adds = [
        {
            "path": path,
            "size": size,
            "partitionValues": [],
            "deletionVector": vector,
            "stats": '{"numRecords":10}',
        }
        for path, size, vector in (
            ("a", 10, None),
            ("b", 10, None),
            ("large", 100, None),
            ("gone", 150, {**VECTOR, "cardinality": 9}),
            ("marked", 150, VECTOR),
        )
    ]
    kind = pa.struct(
        [
            ("path", pa.string()),
            ("size", pa.int64()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            (
                "deletionVector",
                pa.struct(
                    [
                        *((name, pa.string()) for name in ("storageType", "pathOrInlineDv")),
                        *((name, pa.int32()) for name in ("offset", "sizeInBytes")),
                        ("cardinality", pa.int64()),
                    ]
                ),
            ),
            ("stats", pa.string()),
        ]
    )
    commit(tmp_path, 8, added("c"))
    rows = pa.table({"add": pa.array([None, *adds], kind)})
    parquet.write_table(rows, tmp_path / "_delta_log" / f"{7:020}.checkpoint.parquet")
    parquet.write_table(rows, tmp_path / "_delta_log" / f"{9:020}.checkpoint.parquet")

    assert due_at(tmp_path, 8) == ["a", "b", "gone", "c"]


def test_a_commit_that_is_missing_is_no_empty_one(tmp_path: Path) -> None:
    """It may have removed files."""
    commit(tmp_path, 0, added("a"), added("b"), added("c"))
    commit(tmp_path, 2)
    with pytest.raises(LogGapError, match="commit 1 is missing"):
        due_at(tmp_path, 2)


def test_partitions_that_nobody_writes_any_more_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest files are forgotten where there are more than are held."""
    monkeypatch.setattr(small_files, "MOST_KNOWN", 4)
    old = [added(f"old{day}", partitionValues={"p": f"day {day}"}) for day in range(6)]
    commit(tmp_path, 0, *old)
    commit(tmp_path, 1, added("a"), added("b"), added("c"))

    assert due_at(tmp_path, 1) == ["a", "b", "c"]


def test_files_that_cannot_be_joined_are_passed_over(tmp_path: Path) -> None:
    """Else they would be chosen for ever."""
    commit(tmp_path, 0, added("a"), added("b"), added("c"), added("d"))
    files = SmallFiles(limits=LIMITS)
    files.follow(open_folder(str(tmp_path)), 0)
    files.pass_over(files.due()[:1])

    assert [file.path for file in files.due()] == ["b", "c", "d"]


def sized(*sizes: int) -> list[SmallFile]:
    return [
        SmallFile(path=f"f{at}", size_bytes=size, partition={}) for at, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        # alike
        ((10,) * 8, (10,) * 8),
        # one that is much larger stays as it is, wherever it stands
        ((10, 10, 90, 10, 10), (10, 10, 10, 10)),
        # of a size with all that is below it
        ((10, 10, 40, 10, 10), (10, 10, 40, 10, 10)),
        # half of them in each case
        ((1, 30, 90, 90), (1, 30)),
        # up to the size of a file
        ((60, 70, 60, 60, 60), (60, 60, 60)),
    ],
)
def test_a_row_is_not_written_again_for_a_few_others(
    sizes: tuple[int, ...], chosen: tuple[int, ...]
) -> None:
    """The smallest half of those that make it due, then what is at most twice as large as these."""
    limits = CompactionLimits(enough=4, small_bytes=100, file_bytes=200)

    assert tuple(file.size_bytes for file in choose(sized(*sizes), limits)) == chosen


def test_a_row_is_written_again_only_a_few_times() -> None:
    """While a table grows by files of one size: less than twelve times in 5,000 files."""
    limits = CompactionLimits(enough=50, small_bytes=1 << 30, file_bytes=1 << 40)
    files: list[SmallFile] = []
    written = most = 0
    for number in range(5_000):
        files.append(SmallFile(path=f"f{number}", size_bytes=10, partition={}))
        if len(files) >= limits.enough:
            due = choose(files, limits)
            size = sum(file.size_bytes for file in due)
            written += size
            kept = [file for file in files if file not in due]
            files = [*kept, SmallFile(path=f"c{number}", size_bytes=size, partition={})]
        most = max(most, len(files))

    assert written < 12 * 5_000 * 10
    assert most == limits.enough - 1
