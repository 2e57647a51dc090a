"""What a file that others were put together in has of them as of a later version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.delta.files.deletion_vector import VectorFolder
from penstock.connector.delta.files.replacing import (
    ChangedSourcesError,
    RewrittenFile,
    RewrittenFiles,
    with_deleted_rows,
)
from penstock.connector.delta.files.small_files import SmallFile
from penstock.connector.storage import open_folder

POSITIONS = st.sets(st.integers(0, 11))


def positions(numbers: set[int] | Sequence[int]) -> Any:
    """Positions, in order."""
    return np.array(sorted(numbers), np.int64)


def source(
    path: str, rows: int, start: int, deleted: set[int] | Sequence[int] = ()
) -> RewrittenFile:
    """A file whose rows are in the new one."""
    file = SmallFile(path=path, size_bytes=1, partition={})
    return RewrittenFile(file=file, rows=rows, start=start, deleted=positions(deleted))


@given(before=POSITIONS, later=POSITIONS, start=st.integers(0, 100))
def test_a_row_is_found_where_it_was_written(before: set[int], later: set[int], start: int) -> None:
    """Rows that were deleted before have no place in the new file."""
    written = [number for number in range(12) if number not in before]
    found = source("a", 12, start, before).carried(positions(before | later))

    assert found.tolist() == [start + written.index(row) for row in sorted(later - before)]


@given(before=POSITIONS)
def test_all_rows_of_a_file_that_is_gone_are(before: set[int]) -> None:
    """Those that were deleted before are not in the new file."""
    found = source("a", 12, 3, before).carried(None)

    assert found.tolist() == list(range(3, 15 - len(before)))


def test_a_row_that_is_there_again_is_not_in_the_new_file() -> None:
    """So that may not take the place of the other."""
    with pytest.raises(ChangedSourcesError, match="there again"):
        source("a", 12, 0, {1, 2}).carried(positions({2, 3}))


def commit(table: Path, version: int, *actions: dict[str, Any]) -> None:
    """Write a commit of the log."""
    (table / "_delta_log").mkdir(exist_ok=True)
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (table / "_delta_log" / f"{version:020}.json").write_text(text, encoding="utf-8")


def test_a_later_version_says_what_is_deleted(tmp_path: Path) -> None:
    """A file is gone, one has a vector, one is as it was; others' files do not count."""
    vectors = VectorFolder(folder=tmp_path)
    vector = vectors.write({"b": positions([0, 3])})["b"]
    sources = RewrittenFiles(
        files=[source("a", 4, 0, [1]), source("b", 5, 3, [3]), source("c", 2, 7)], version=4
    )
    add = {"path": "b", "size": 1, "partitionValues": {}, "deletionVector": vector}
    commit(tmp_path, 5, {"remove": {"path": "a"}}, {"add": {"path": "other", "size": 9}})
    commit(tmp_path, 6, {"remove": {"path": "b"}}, {"add": add})
    live = sources.at(open_folder(str(tmp_path)), 6)
    removed = [action["remove"] for action in sources.removed(live, 1)]

    assert live.paths >= {"b", "c"}
    assert sources.deleted(live, vectors).tolist() == [0, 1, 2, 3]
    assert [(one["path"], one["dataChange"]) for one in removed] == [("b", False), ("c", False)]
    assert removed[0]["deletionVector"] == vector
    with pytest.raises(ChangedSourcesError, match="version 7 is not there"):
        sources.at(open_folder(str(tmp_path)), 7)


def test_a_new_file_without_deleted_rows_has_no_vector(tmp_path: Path) -> None:
    """One with some has wide bounds, and is no change of rows either."""
    vectors = VectorFolder(folder=tmp_path)
    add = {"path": "new", "size": 9, "dataChange": False, "stats": '{"numRecords":7}'}

    assert with_deleted_rows(add, 7, positions([]), vectors) == {"add": add}
    assert list(tmp_path.iterdir()) == []
    found = with_deleted_rows(add, 7, positions([2, 5]), vectors)["add"]
    assert vectors.read(found["deletionVector"]).tolist() == [2, 5]
    assert json.loads(found["stats"]) == {"numRecords": 7, "tightBounds": False}
    assert found["dataChange"] is False
