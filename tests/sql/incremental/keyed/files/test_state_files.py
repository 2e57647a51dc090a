"""Files of keyed state: what they say of their columns, and that no others are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.spark.storage_access import store_of
from penstock.connector.storage import StorageAccess
from penstock.sql.incremental.keyed.files import file_content
from penstock.sql.incremental.keyed.files.file_content import FileContent
from penstock.sql.incremental.keyed.files.manifest import BucketId, StateFile
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedLayout
from penstock.sql.incremental.keyed.tables import positional
from penstock.sql.incremental.stages import COUNT

if TYPE_CHECKING:
    from tests.s3_server import S3Server

BUCKET = BucketId(stage="group_1", input="feed_0", bucket=0)
COUNTED = pa.field(COUNT, pa.int64())
LAYOUT = KeyedLayout(
    dims=(pa.field("k", pa.int32()), pa.field("at", pa.timestamp("us", "UTC"))),
    values=(pa.field("low", pa.int64()), pa.field("high", pa.int64()), COUNTED),
    key=("k",),
)


def rows(schema: pa.Schema) -> pa.Table:
    """One row of small numbers."""
    columns = [pa.array([n], pa.int64()).cast(of.type) for n, of in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)


def written(files: StateFiles, schema: pa.Schema) -> StateFile:
    """Write a file of one row."""
    return files.write(BUCKET, 0, 0, rows(schema))


def read(files: StateFiles, file: StateFile, layout: KeyedLayout) -> pa.Table:
    """Read a file as the state of a layout."""
    return pa.concat_tables(files.read(BUCKET, file, positional(layout)))


@pytest.fixture
def files(tmp_path: Path) -> StateFiles:
    """A folder of files."""
    return StateFiles(location=str(tmp_path))


def test_rows_come_as_they_were_written(files: StateFiles) -> None:
    schema = positional(LAYOUT)
    assert read(files, written(files, schema), LAYOUT).equals(rows(schema))


def test_sums_in_another_order_are_refused(files: StateFiles) -> None:
    """Their number and types are the same: by position one would be taken for the other."""
    low, high, count = LAYOUT.values
    file = written(files, positional(LAYOUT))
    with pytest.raises(StateMismatchError) as caught:
        read(files, file, replace(LAYOUT, values=(high, low, count)))

    said = str(caught.value)
    assert "the operator group_1" in said
    assert "column 3 of the rows that it keeps of feed_0 is low BIGINT" in said
    assert "and high BIGINT here" in said
    assert "run the version of Penstock that wrote it" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(LAYOUT, dims=LAYOUT.dims[:1]), "column 2 .* is at TIMESTAMP .*, and low BIGINT"),
        (
            replace(LAYOUT, dims=(LAYOUT.dims[0], pa.field("at", pa.string()))),
            "column 2 .* is at TIMESTAMP .*, and at VARCHAR here",
        ),
        (
            replace(LAYOUT, values=(*LAYOUT.values[:2], pa.field("sum", pa.int64()), COUNTED)),
            "column 5 .* is __\\w+ BIGINT .*, and sum BIGINT here",
        ),
    ],
    ids=["one less", "another type", "one more"],
)
def test_other_columns_are_named(files: StateFiles, other: KeyedLayout, said: str) -> None:
    file = written(files, positional(LAYOUT))
    with pytest.raises(StateMismatchError, match=said):
        read(files, file, other)


def test_whole_numbers_may_have_become_wider(files: StateFiles) -> None:
    file = written(files, positional(LAYOUT))
    wider = replace(LAYOUT, dims=(pa.field("k", pa.int64()), LAYOUT.dims[1]))
    assert read(files, file, wider).column(0).to_pylist() == [0]
    assert read(files, file, wider).schema == positional(wider)


def test_files_of_earlier_versions_are_read_by_position(files: StateFiles) -> None:
    """They say nothing of their columns; a wrong number of them is refused."""
    file = written(files, positional(LAYOUT).remove_metadata())
    low, high, count = LAYOUT.values
    turned = replace(LAYOUT, values=(high, low, count))
    assert read(files, file, turned).column(2).to_pylist() == [2]
    with pytest.raises(StateMismatchError, match="columns of another query"):
        read(files, file, replace(LAYOUT, values=LAYOUT.values[1:]))


@pytest.fixture
def stored(s3: S3Server) -> StateFiles:
    """Files in a store that speaks S3, whose keys stand in Hadoop's configuration alone."""
    location = "s3a://penstock/job/keyed"
    store = store_of(location, s3.settings)
    assert store is not None
    return StateFiles(location=location, access=StorageAccess(stores=(store,)))


def test_files_are_in_a_store_that_has_neither_folders_nor_renames(
    stored: StateFiles, s3: S3Server
) -> None:
    """Each is written whole, under its name, by one request; read, listed and removed."""
    schema = positional(LAYOUT)
    file = written(stored, schema)
    requests = [each for each in s3.requests if each.startswith(("PUT", "POST"))]
    found = read(stored, file, LAYOUT)
    names, keys = stored.names(BUCKET), s3.keys()
    for _ in range(2):  # the second process that removes it finds none
        stored.delete(BUCKET, file.name)

    assert found.equals(rows(schema))
    assert requests == [f"PUT penstock/job/keyed/group_1-feed_0/0/{file.name}"]
    assert keys == [f"job/keyed/group_1-feed_0/0/{file.name}"]
    assert names == (file.name,)
    assert stored.names(BUCKET) == ()
    assert not s3.refused


def test_no_part_of_a_large_file_gets_its_name(
    stored: StateFiles, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that ends half-way, as one whose local file cannot be read; then one that does not."""
    schema, copy_to = positional(LAYOUT), FileContent.copy_to

    def fail(content: FileContent, target: BinaryIO) -> None:
        copy_to(content, target)
        raise OSError("Input/output error")

    monkeypatch.setattr(file_content, "MOST_BYTES", 100)
    with monkeypatch.context() as failing:
        failing.setattr(FileContent, "copy_to", fail)
        with pytest.raises(OSError, match="Input/output error"):
            written(stored, schema)
    left = s3.keys()
    file = written(stored, schema)
    keys = s3.keys()

    assert left == []
    assert [key.rpartition("/")[2] for key in keys] == [file.name]
    assert read(stored, file, LAYOUT).equals(rows(schema))


def test_a_file_that_a_store_lost_or_changed_is_named(stored: StateFiles, s3: S3Server) -> None:
    """As on a disk."""
    schema = positional(LAYOUT)
    file = written(stored, schema)
    (key,) = s3.keys()
    s3.objects[key] = s3.objects[key][:-1]
    with pytest.raises(StateMismatchError, match=f"{file.name} is not as it was written"):
        read(stored, file, LAYOUT)
    del s3.objects[key]
    with pytest.raises(StateMismatchError, match=f"{file.name} is missing"):
        read(stored, file, LAYOUT)


def test_no_key_is_shown_with_files(stored: StateFiles, s3: S3Server) -> None:
    """They are parts of jobs, whose values stand in messages."""
    assert "s3a://penstock/job/keyed" in repr(stored)
    assert not [key for key in (s3.access_key, s3.secret_key) if key in repr(stored)]
