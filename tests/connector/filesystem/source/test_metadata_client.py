"""What the driver sees of a folder: files in reading order, positions, and files that are not as they were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.errors import DataLossError, UnsupportedError
from penstock.connector.filesystem.source import metadata_client as peek_module
from penstock.connector.filesystem.source.metadata_client import FileMetadataClient, last_lines
from penstock.connector.filesystem.table.split import COMPRESSED_STOP, FileSplit
from penstock.connector.source.split import SplitOffsets
from tests.connector.filesystem.source.test_lines import expected, texts
from tests.connector.filesystem.tables import (
    MODIFIED_S,
    file_source,
    planned,
    planning,
    text_source,
    write,
)


@pytest.fixture
def one_file(tmp_path: Path) -> FileMetadataClient:
    """A planner that has listed a folder of one file, `a`, of four bytes."""
    write(tmp_path / "a", "x\ny\n")
    planner = planning(text_source(tmp_path))
    planner.list_splits()
    return planner


def test_files_are_listed_in_reading_order(tmp_path: Path) -> None:
    """By modification time, then by name."""
    for name, later_s in (("c", 0), ("b", 5), ("a", 5), ("x/d", 2)):
        write(tmp_path / name, "1\n", modified_s=MODIFIED_S + later_s)
    found = planning(text_source(tmp_path)).list_splits()

    assert list(found.owners) == ["c", "x/d", "a", "b"]
    assert set(found.owners.values()) == {str(tmp_path)}


def test_only_paths_that_match_the_pattern_are_listed(tmp_path: Path) -> None:
    """The whole absolute path, files only: folders need not match (NonSplittingRecursiveAllDirEnumerator)."""
    for name in ("a.json", "a.json.bak", "x/b.json"):
        write(tmp_path / name, "1\n")
    pattern = {"source.path.regex-pattern": f"{tmp_path}/.*[.]json"}

    assert list(planned(planning(text_source(tmp_path, pattern)))) == ["a.json", "x/b.json"]


def test_positions_are_bytes_and_a_compressed_file_has_one(tmp_path: Path) -> None:
    """A file is read from its beginning to the size that it had at the listing, also in a monitored folder."""
    write(tmp_path / "a", "one\ntwo")
    write(tmp_path / "b.gz", "one\ntwo")

    for options in ({}, {"source.monitor-interval": "1 s"}):
        assert planned(planning(text_source(tmp_path, options))) == {"a": (0, 7), "b.gz": (0, 1)}


def test_an_empty_file_waits_until_it_holds_something(tmp_path: Path) -> None:
    """Listed empty it would be done with, and what is written then never read."""
    planner = planning(text_source(tmp_path))
    write(tmp_path / "a", "")
    before = planned(planner)
    write(tmp_path / "a", "1\n")

    assert before == {}
    assert planned(planner) == {"a": (0, 2)}


def test_a_compression_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """Its bytes would be taken for text; a pattern leaves the file out."""
    write(tmp_path / "a.xz", "?")
    write(tmp_path / "b", "1\n")
    with pytest.raises(UnsupportedError, match=r"a[.]xz"):
        planning(text_source(tmp_path)).list_splits()
    without = planning(text_source(tmp_path, {"source.path.regex-pattern": ".*/b"}))

    assert list(planned(without)) == ["b"]


def test_a_file_that_grows_keeps_the_end_that_it_had(
    tmp_path: Path, one_file: FileMetadataClient
) -> None:
    """It is never read on (as in Flink), however often it is listed."""
    write(tmp_path / "a", "x\ny\nz\n", modified_s=MODIFIED_S + 9)
    one_file.list_splits()

    assert one_file.extents(["a"]) == {"a": SplitOffsets(first=0, end=4)}
    assert one_file.stop_positions(["a"]) == {"a": 4}
    assert one_file.split("a", 0, 4).size == 4


def test_a_file_removed_before_it_was_read_is_lost(
    tmp_path: Path, one_file: FileMetadataClient
) -> None:
    """Its first position is past any that was read, which the coordinator takes for lost records."""
    (tmp_path / "a").unlink()
    extent = one_file.extents(["a"])["a"]
    error = one_file.lost("a", 0, extent)

    assert extent.first > 4
    assert isinstance(error, DataLossError)
    assert f"{tmp_path}/a was removed" in error.message


@pytest.mark.parametrize(
    ("content", "message"),
    [("z\n", "had 4 bytes when it was planned and now has 2"), ("z\nz\n", "was modified")],
)
def test_a_file_written_anew_is_lost(
    tmp_path: Path, one_file: FileMetadataClient, content: str, message: str
) -> None:
    """Shorter, or of the same size and another time: what was planned is not what it holds."""
    write(tmp_path / "a", content, modified_s=MODIFIED_S + 9)
    extent = one_file.extents(["a"])["a"]

    assert extent.first > 4
    assert message in str(one_file.lost("a", 2, extent))


def test_a_file_made_again_is_not_the_one_that_was_listed(
    tmp_path: Path, one_file: FileMetadataClient
) -> None:
    """Also where a listing came while it was away."""
    (tmp_path / "a").unlink()
    one_file.list_splits()
    write(tmp_path / "a", "z\n")
    one_file.list_splits()

    assert one_file.extents(["a"])["a"].first > 4


def test_a_finished_file_may_be_removed(tmp_path: Path, one_file: FileMetadataClient) -> None:
    """Nothing of it is left to read, so its extent claims no more."""
    (tmp_path / "a").unlink()

    assert one_file.list_splits().owners == {}
    assert one_file.extents(["a"])["a"].end == 0


def test_a_start_from_a_checkpoint_knows_files_without_a_listing(tmp_path: Path) -> None:
    """A batch is planned again by ids and positions alone."""
    write(tmp_path / "a", "x\ny\n")
    split = planning(text_source(tmp_path)).split("a", 2, 4)

    assert (split.start, split.stop, split.size, split.modified_ms) == (2, 4, 4, MODIFIED_S * 1000)
    assert planning(text_source(tmp_path)).extents(["a"]) == {"a": SplitOffsets(first=0, end=4)}
    with pytest.raises(DataLossError, match="/b was removed"):
        planning(text_source(tmp_path)).split("b", 0, 4)
    with pytest.raises(DataLossError, match="had 6 bytes when it was planned and now has 4"):
        planning(text_source(tmp_path)).split("a", 0, 6)


def test_a_compressed_split_is_made_of_planned_positions_and_of_a_readers(tmp_path: Path) -> None:
    """[0, 1) is the whole file; a reader's checkpoint inside of it comes back as it was."""
    write(tmp_path / "a.gz", "x\ny\n")
    planner = planning(text_source(tmp_path))
    whole, rest = planner.split("a.gz", 0, 1), planner.split("a.gz", 2, COMPRESSED_STOP)

    assert (whole.start, whole.stop) == (0, COMPRESSED_STOP)
    assert (rest.start, rest.stop) == (2, COMPRESSED_STOP)


def test_progress_is_published_nowhere(one_file: FileMetadataClient) -> None:
    """Files stay as they are."""
    one_file.commit({"a": 4})
    one_file.close()

    assert one_file.extents(["a"]) == {"a": SplitOffsets(first=0, end=4)}
    assert isinstance(one_file.changed("folder", "known", None), DataLossError)


def test_a_single_file_is_a_table_of_one_split(tmp_path: Path) -> None:
    """Its id is its name."""
    path = write(tmp_path / "a", "x\ny\n")
    planner = planning(file_source(path))

    assert planned(planner) == {"a": (0, 4)}
    assert planner.split("a", 0, 4).path == str(path)


# --- the last decodable line of a range, found at planning with bounded effort ---


def peeked(
    path: Path, ranges: dict[str, tuple[int, int]] | None = None, **options: str
) -> dict[str, Any]:
    """The last `id` of each range, of whole files unless ranges are given."""
    planner = planning(file_source(path, options), "id")
    ranges = planned(planner) if ranges is None else ranges
    return {i: batch["id"].to_pylist() for i, batch in planner.peek(ranges).items()}


@given(texts, st.integers(0, 40), st.integers(0, 40), st.integers(1, 9))
def test_lines_come_from_the_last_to_the_first(data: bytes, a: int, b: int, window: int) -> None:
    """Those that begin in the range, in windows of any size."""
    start, stop = min(a, b, len(data)), min(max(a, b), len(data))
    split = FileSplit(split_id="a", start=start, stop=stop, path="a", size=len(data), modified_ms=0)
    inside = [(at, line) for at, line in expected(data) if start <= at < stop]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peek_module, "FIRST_WINDOW_BYTES", window)
        found = list(last_lines(pa.BufferReader(data), split))

    assert found == inside[::-1]


def test_the_last_line_of_each_range_is_peeked(tmp_path: Path) -> None:
    """By its first byte; a range in which none begins has no answer."""
    write(tmp_path / "a", '{"id":1}\n{"id":2}\n{"id":3}')
    write(tmp_path / "b", '{"id":4}\n')

    assert peeked(tmp_path) == {"a": [3], "b": [4]}
    assert peeked(tmp_path, {"a": (0, 18), "b": (0, 1)}) == {"a": [2], "b": [4]}
    assert peeked(tmp_path, {"a": (19, 26), "b": (0, 9)}) == {"b": [4]}


def test_lines_that_cannot_be_decoded_are_stepped_over(tmp_path: Path) -> None:
    """One file's bad lines do not cost another its answer, and a file of nothing else has none."""
    write(tmp_path / "a", '{"id":1}\nbad\n\n[]\n{"id"\n')
    write(tmp_path / "b", '{"id":2}\n')
    write(tmp_path / "c", "bad\n" * 3)

    assert peeked(tmp_path) == {"a": [1], "b": [2]}


def test_the_effort_for_bad_lines_is_bounded(tmp_path: Path) -> None:
    """Past so many the watermark waits for the next batch."""
    bad = "bad\n" * peek_module.MOST_BAD_LINES
    write(tmp_path / "a", '{"id":1}\n' + bad)

    assert peeked(tmp_path) == {}


def test_the_effort_for_a_long_line_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line without an end in sight has no answer, on either side."""
    monkeypatch.setattr(peek_module, "MOST_BYTES", 1000)
    monkeypatch.setattr(peek_module, "FIRST_WINDOW_BYTES", 10)
    write(tmp_path / "a", '{"id":1}\n' + " " * 5000)

    assert peeked(tmp_path) == {}
    assert peeked(tmp_path, {"a": (0, 10)}) == {}
    assert peeked(tmp_path, {"a": (0, 9)}) == {"a": [1]}


def test_a_compressed_file_is_peeked_at_its_end(tmp_path: Path) -> None:
    """Its one position holds all of its lines."""
    write(tmp_path / "a.gz", '{"id":1}\n{"id":2}\nbad')

    assert peeked(tmp_path) == {"a.gz": [2]}


def test_of_a_long_compressed_file_a_line_before_the_end_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any line that is read is a lower bound of the watermark; planning must not decompress for minutes."""
    monkeypatch.setattr(peek_module, "MOST_STREAM_BYTES", 1)
    write(tmp_path / "a.gz", '{"id":1}\n' + " " * (8 << 20) + '\n{"id":2}\n')

    assert peeked(tmp_path) == {"a.gz": [1]}


def test_more_files_than_are_open_at_a_time_are_peeked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several rounds."""
    monkeypatch.setattr(peek_module, "MOST_OPEN_FILES", 2)
    for number in range(5):
        write(tmp_path / str(number), f'{{"id":{number}}}\n')

    assert peeked(tmp_path) == {str(number): [number] for number in range(5)}


def test_partition_and_metadata_columns_are_peeked_too(tmp_path: Path) -> None:
    """The rowtime may be one of them."""
    write(tmp_path / "day=7" / "a", '{"id":1}\n')
    source = file_source(
        tmp_path,
        columns={"id": "BIGINT", "day": "INT"},
        metadata={"at": ("file.modification-time", "TIMESTAMP_LTZ(3)")},
        partitions=["day"],
    )
    planner = planning(source, "day", "at")
    (batch,) = planner.peek(planned(planner)).values()

    assert batch["day"].to_pylist() == [7]
    assert batch["at"].cast("int64").to_pylist() == [1_700_000_000_000_000]


def small_ids(rows: Mapping[str, pa.RecordBatch]) -> list[str]:
    """Accepts ids below 100."""
    return [split_id for split_id, row in rows.items() if row["id"][0].as_py() < 100]


def accepted(path: Path) -> dict[str, int]:
    """The id that is found in each file when large ones are not accepted."""
    planner = planning(file_source(path), "id")
    found = planner.peek(planned(planner), small_ids)
    return {split_id: row["id"][0].as_py() for split_id, row in found.items()}


def test_lines_that_are_not_accepted_are_stepped_over(tmp_path: Path) -> None:
    """As bad lines are; one file's do not cost another its answer, and a file of nothing else has none."""
    write(tmp_path / "a", '{"id":1}\n{"id":2}\n' + '{"id":900}\nbad\n' * 3)
    write(tmp_path / "b", '{"id":3}\n')
    write(tmp_path / "c", '{"id":900}\n' * 3)

    assert accepted(tmp_path) == {"a": 2, "b": 3}


@pytest.mark.parametrize("count", [7, 8, 9, 100, 20_000])
def test_any_number_of_lines_that_are_not_accepted_is_stepped_over(
    tmp_path: Path, count: int
) -> None:
    """In strides that grow, so that what is found may lie further back than it has to: a lower bound is safe."""
    write(tmp_path / "a", '{"id":1}\n' * count + '{"id":900}\n' * count)

    assert accepted(tmp_path) == {"a": 1}


def test_the_first_line_is_looked_at_in_any_case(tmp_path: Path) -> None:
    """A short file is searched to its beginning."""
    for count in range(60):
        write(tmp_path / str(count), '{"id":1}\n' + '{"id":900}\n' * count)

    assert accepted(tmp_path) == dict.fromkeys(map(str, range(60)), 1)
