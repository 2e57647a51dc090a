"""Files of reading tasks: whole, of bounded row groups, by the name of one attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.catalog.errors import SinkError
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_type
from penstock.connector.expression import Constant, FieldValue, FunctionCall
from penstock.connector.file_output import (
    FileColumn,
    FileOutput,
    output_from_json,
    output_to_json,
    stored_type,
)
from penstock.connector.spark.source import parquet_file
from penstock.connector.spark.source.parquet_file import ParquetFile

KINDS = {"id": "BIGINT", "name": "STRING"}


def output_into(folder: Path, *, required: bool = False, **more: Any) -> FileOutput:
    columns = tuple(
        FileColumn(
            name=f"Table{name}",
            type=stored_type(parse_type(kind)),
            source=FieldValue(path=(name,), type=parse_type(kind)),
            required=required and name == "id",
        )
        for name, kind in KINDS.items()
    )
    unfilled = FileColumn(name="later", type=parse_type("DATE"), source=None)
    return FileOutput(
        folder=str(folder),
        shown="the Delta table at orders",
        columns=(*columns, unfilled),
        **more,
    )


def opened(output: FileOutput, synced: list[Path] | None = None) -> ParquetFile:
    done: list[Path] = [] if synced is None else synced
    return ParquetFile(output, 7, sync=done.extend, mode=0o640)


def rows(first: int, last: int) -> pa.RecordBatch:
    ids = list(range(first, last))
    return pa.RecordBatch.from_pydict(
        {"other": ids, "name": [f"n{each}" for each in ids], "id": ids}
    )


def test_a_file_has_the_columns_of_the_table_by_their_names(tmp_path: Path) -> None:
    """What the query does not fill is NULL; what it reads besides is left out. It is durable, with the rights given."""
    synced: list[Path] = []
    file = opened(output_into(tmp_path), synced)
    file.write(rows(0, 2))
    file.write(rows(2, 2))
    file.write(rows(2, 3))
    written = file.finish()

    assert written is not None
    path = tmp_path / written.path
    assert pq.read_table(path).to_pylist() == [
        {"Tableid": each, "Tablename": f"n{each}", "later": None} for each in range(3)
    ]
    assert (written.rows, written.size_bytes) == (3, path.stat().st_size)
    assert synced == [path, tmp_path]
    assert path.stat().st_mode & 0o777 == 0o640
    assert written.path.startswith("part-00007-")
    assert written.path.endswith("-c000.snappy.parquet")


def test_without_rows_there_is_no_file(tmp_path: Path) -> None:
    """Also where a batch came that was empty."""
    file = opened(output_into(tmp_path))
    file.write(rows(0, 0))

    assert file.finish() is None
    assert list(tmp_path.iterdir()) == []


def test_each_attempt_has_a_file_of_its_own_and_one_that_fails_leaves_none(tmp_path: Path) -> None:
    """The task is the same, the names are not."""
    one, other, failed = (opened(output_into(tmp_path)) for _ in range(3))
    for file in (one, other, failed):
        file.write(rows(0, parquet_file.ROW_GROUP_ROWS))
    names = {written.path for file in (one, other) if (written := file.finish()) is not None}
    failed.discard()

    assert len(names) == 2
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.parametrize(
    ("bound", "value"), [("ROW_GROUP_ROWS", 100), ("ROW_GROUP_BYTES", 100 * 32)]
)
def test_row_groups_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    """In rows and in bytes; what is held is no more than that and a batch."""
    monkeypatch.setattr(parquet_file, bound, value)
    file = opened(output_into(tmp_path))
    for first in range(0, 1_000, 50):
        file.write(rows(first, first + 50))
    written = file.finish()

    assert written is not None
    metadata = pq.read_metadata(tmp_path / written.path)
    groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    assert sum(groups) == 1_000
    assert max(groups) <= 200
    assert len(groups) >= 5


def test_a_null_in_a_required_column_is_refused_by_its_name(tmp_path: Path) -> None:
    """In the words of Delta's own writer."""
    file = opened(output_into(tmp_path, required=True))
    file.write(rows(0, 2))
    with pytest.raises(SinkError, match=r"does not take a row: NOT NULL .* column: Tableid\.$"):
        file.write(pa.RecordBatch.from_pydict({"id": [None], "name": ["x"]}))


@pytest.mark.parametrize("compression", sorted(parquet_file.COMPRESSIONS))
def test_every_compression_is_written_by_its_name(tmp_path: Path, compression: str) -> None:
    """As Spark names it in a file's name."""
    file = opened(output_into(tmp_path, compression=compression))
    file.write(rows(0, 10))
    written = file.finish()

    assert written is not None
    column = pq.read_metadata(tmp_path / written.path).row_group(0).column(0)
    assert column.compression.lower() in {compression, "uncompressed"}
    assert (compression == "none") == (column.compression == "UNCOMPRESSED")


def test_floats_have_no_dictionary_and_other_leaves_do(tmp_path: Path) -> None:
    """Wherever they are: of a dictionary Spark's reader takes -0.0 for another number than 0."""
    kind = "ROW<x DOUBLE, s STRING, a ARRAY<FLOAT>, m MAP<STRING, ROW<f FLOAT, n INT>>>"
    source = FieldValue(path=("v",), type=stored_type(parse_type(kind)))
    column = FileColumn(name="v", type=source.type, source=source)
    file = opened(FileOutput(folder=str(tmp_path), shown="t", columns=(column,)))
    row = {"x": 0.5, "s": "a", "a": [0.5], "m": [("k", {"f": 0.5, "n": 1})]}
    file.write(pa.RecordBatch.from_arrays([pa.array([row] * 9, arrow_type(column.type))], ["v"]))
    written = file.finish()

    assert written is not None
    group = pq.read_metadata(tmp_path / written.path).row_group(0)
    leaves = [group.column(at) for at in range(group.num_columns)]
    assert {leaf.path_in_schema: "RLE_DICTIONARY" in leaf.encodings for leaf in leaves} == {
        "v.x": False,
        "v.s": True,
        "v.a.list.element": False,
        "v.m.key_value.key": True,
        "v.m.key_value.value.f": False,
        "v.m.key_value.value.n": True,
    }


def test_a_column_is_what_its_expression_gives(tmp_path: Path) -> None:
    """A value that cannot be computed fails the task, with the name of the column."""
    number = FieldValue(path=("id",), type=parse_type("BIGINT"))
    one = Constant(value=1, type=number.type)
    more = FunctionCall(function="add", arguments=(number, one), type=number.type)
    column = FileColumn(name="next", type=number.type, source=more)
    output = FileOutput(folder=str(tmp_path), shown="the Delta table at t", columns=(column,))
    file = opened(output)
    file.write(pa.RecordBatch.from_pydict({"id": [1, None, 3]}))
    with pytest.raises(SinkError, match=r"Delta table at t .* column next cannot be computed"):
        file.write(pa.RecordBatch.from_pydict({"id": [2**63 - 1]}))
    written = file.finish()

    assert written is not None
    assert pq.read_table(tmp_path / written.path).to_pydict() == {"next": [2, None, 4]}


def test_an_output_travels_as_json(tmp_path: Path) -> None:
    """With nested types and all that is said of a column."""
    kind = parse_type("ROW<a ARRAY<CHAR(3) NOT NULL>, m MULTISET<STRING>> NOT NULL")
    nested = FileColumn(
        name="r",
        type=stored_type(kind),
        source=FieldValue(path=("r",), type=kind),
        statistics=False,
    )
    output = output_into(tmp_path, required=True)
    output = FileOutput(folder=output.folder, shown=output.shown, columns=(*output.columns, nested))

    assert output_from_json(output_to_json(output)) == output
    assert str(nested.type) == "ROW<`a` ARRAY<STRING>, `m` MAP<STRING, INT>>"
