"""The last decodable line of a range, found at planning with bounded effort."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.filesystem.source import metadata_client as peek_module
from penstock.connector.filesystem.source.metadata_client import last_lines
from penstock.connector.filesystem.table.split import FileSplit
from tests.connector.filesystem.source.test_lines import expected, texts
from tests.connector.filesystem.tables import file_source, planned, planning, write


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
