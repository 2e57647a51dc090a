"""A Parquet file as Spark and Delta read it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.catalog.model.type_parser import parse_type
from penstock.connector.arrow import arrow_type
from penstock.connector.file_output import FileColumn, stored_type
from penstock.connector.spark.files.parquet_file import DICTIONARY_BYTES, SUFFIXES, ParquetFile


def opened(folder: Path, column: FileColumn, *, compression: str = "snappy") -> ParquetFile:
    return ParquetFile(folder, "part.parquet", (column,), compression=compression, mode=0o640)


@pytest.mark.parametrize("compression", sorted(SUFFIXES))
def test_every_compression_is_written_by_its_name(tmp_path: Path, compression: str) -> None:
    """As Spark names it in a file's name."""
    column = FileColumn(name="v", type=parse_type("BIGINT"), source=None)
    file = opened(tmp_path, column, compression=compression)
    file.write(pa.table({"v": [1, 2, 3]}))
    written = file.finish()

    chunk = pq.read_metadata(tmp_path / written.path).row_group(0).column(0)
    assert chunk.compression.lower() in {compression, "uncompressed"}
    assert (compression == "none") == (chunk.compression == "UNCOMPRESSED")


def test_floats_have_no_dictionary_and_other_leaves_do(tmp_path: Path) -> None:
    """Wherever they are: of a dictionary Spark's reader takes -0.0 for another number than 0."""
    kind = "ROW<x DOUBLE, s STRING, a ARRAY<FLOAT>, m MAP<STRING, ROW<f FLOAT, n INT>>>"
    column = FileColumn(name="v", type=stored_type(parse_type(kind)), source=None)
    file = opened(tmp_path, column)
    row = {"x": 0.5, "s": "a", "a": [0.5], "m": [("k", {"f": 0.5, "n": 1})]}
    file.write(pa.table({"v": pa.array([row] * 9, arrow_type(column.type))}))
    written = file.finish()

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


def test_columns_without_equal_values_get_no_large_dictionary(tmp_path: Path) -> None:
    """It is given up early, and the values are there all the same."""
    column = FileColumn(name="v", type=parse_type("BIGINT"), source=None)
    file = opened(tmp_path, column, compression="none")
    values = pa.table({"v": range(100_000)})
    assert values.nbytes > 2 * DICTIONARY_BYTES
    file.write(values)
    written = file.finish()

    chunk = pq.read_metadata(tmp_path / written.path).row_group(0).column(0)
    # the bound is looked at after some values, not after each
    assert 0 < chunk.data_page_offset - chunk.dictionary_page_offset < 2 * DICTIONARY_BYTES
    assert pq.read_table(tmp_path / written.path).equals(values)
