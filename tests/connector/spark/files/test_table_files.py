"""Files of reading tasks: whole, of bounded row groups, by the name of one attempt, in folders by partition."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
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
from penstock.connector.spark.durable_files import sync_below
from penstock.connector.spark.files import table_files
from penstock.connector.spark.files.table_files import TableFiles

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


def opened(output: FileOutput, synced: list[Path] | None = None) -> TableFiles:
    def sync(folder: Path, names: list[str]) -> None:
        sync_below(folder, names)
        if synced is not None:
            synced.extend(folder / name for name in names)

    return TableFiles(output, 7, sync=sync, umask=0o027)


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
    (written,) = file.finish()

    path = tmp_path / written.path
    assert pq.read_table(path).to_pylist() == [
        {"Tableid": each, "Tablename": f"n{each}", "later": None} for each in range(3)
    ]
    assert (written.rows, written.size_bytes) == (3, path.stat().st_size)
    assert synced == [path]
    assert path.stat().st_mode & 0o777 == 0o640
    assert written.path.startswith("part-00007-")
    assert written.path.endswith("-c000.snappy.parquet")


def test_without_rows_there_is_no_file(tmp_path: Path) -> None:
    """Also where a batch came that was empty."""
    file = opened(output_into(tmp_path))
    file.write(rows(0, 0))

    assert file.finish() == []
    assert list(tmp_path.iterdir()) == []


def test_each_attempt_has_a_file_of_its_own_and_one_that_fails_leaves_none(tmp_path: Path) -> None:
    """The task is the same, the names are not."""
    one, other, failed = (opened(output_into(tmp_path)) for _ in range(3))
    for file in (one, other, failed):
        file.write(rows(0, table_files.HELD_ROWS))
    names = {written.path for file in (one, other) for written in file.finish()}
    failed.discard()

    assert len(names) == 2
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.parametrize(("bound", "value"), [("HELD_ROWS", 100), ("HELD_BYTES", 100 * 32)])
def test_row_groups_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    """In rows and in bytes; what is held is no more than that and a batch."""
    monkeypatch.setattr(table_files, bound, value)
    file = opened(output_into(tmp_path))
    for first in range(0, 1_000, 50):
        file.write(rows(first, first + 50))
    (written,) = file.finish()

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
    (written,) = file.finish()

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
    output = FileOutput(
        folder=output.folder,
        shown=output.shown,
        columns=(*output.columns, nested),
        partitions=("later",),
    )

    assert output_from_json(output_to_json(output)) == output
    assert str(nested.type) == "ROW<`a` ARRAY<STRING>, `m` MAP<STRING, INT>>"


# --- partitions ---


def column_of(name: str, kind: str) -> FileColumn:
    source = FieldValue(path=(name,), type=parse_type(kind))
    return FileColumn(name=name, type=stored_type(source.type), source=source)


def partitioned(folder: Path, *partitions: tuple[str, str]) -> FileOutput:
    """A table of v and columns by which it is partitioned."""
    columns = (column_of("v", "BIGINT"), *(column_of(*each) for each in partitions))
    names = tuple(name for name, _ in partitions)
    return FileOutput(folder=str(folder), shown="t", columns=columns, partitions=names)


def batch_of(output: FileOutput, *values: tuple[Any, ...]) -> pa.RecordBatch:
    """Rows whose v is their number."""
    columns = [pa.array(range(len(values)), pa.int64())]
    for at, column in enumerate(output.columns[1:]):
        columns.append(pa.array([row[at] for row in values], arrow_type(column.type)))
    return pa.RecordBatch.from_arrays(columns, names=[c.name for c in output.columns])


def rows_of(folder: Path, path: str) -> list[dict[str, Any]]:
    with pq.ParquetFile(folder / path) as file:
        return file.read().to_pylist()


def test_each_partition_has_files_of_its_own_in_a_folder_of_its_name(tmp_path: Path) -> None:
    """Its rows are in the order in which they came, without the columns of the folders. NULL is a partition, too."""
    output = partitioned(tmp_path, ("day", "DATE"), ("kind", "STRING"))
    one, other = date(2026, 11, 23), date(1500, 3, 1)
    values = [
        (one, "a"),
        (other, "a"),
        (one, "b"),
        (one, "a"),
        (None, None),
        (None, "a"),
        (one, ""),
    ]
    synced: list[Path] = []
    files = opened(output, synced)
    files.write(batch_of(output, *values))
    files.write(batch_of(output, (one, "a")))
    written = files.finish()
    null = "__HIVE_DEFAULT_PARTITION__"

    assert {
        (file.path.rpartition("/")[0], file.partition): [
            row["v"] for row in rows_of(tmp_path, file.path)
        ]
        for file in written
    } == {
        ("day=2026-11-23/kind=a", ("2026-11-23", "a")): [0, 3, 0],
        ("day=1500-03-01/kind=a", ("1500-03-01", "a")): [1],
        ("day=2026-11-23/kind=b", ("2026-11-23", "b")): [2],
        (f"day={null}/kind={null}", (None, None)): [4],
        (f"day={null}/kind=a", (None, "a")): [5],
        (f"day=2026-11-23/kind={null}", ("2026-11-23", None)): [6],
    }
    assert list(rows_of(tmp_path, written[0].path)[0]) == ["v"]
    assert [file.rows for file in written] == [
        len(rows_of(tmp_path, file.path)) for file in written
    ]
    assert sorted(synced) == sorted(tmp_path / file.path for file in written)
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o750}
    assert set(json.loads(written[0].statistics)["minValues"]) == {"v"}


@pytest.mark.parametrize(
    ("kind", "value", "text", "folder"),
    [
        ("BOOLEAN", True, "true", "true"),
        ("TINYINT", -128, "-128", "-128"),
        ("BIGINT", 2**63 - 1, "9223372036854775807", "9223372036854775807"),
        ("DECIMAL(38, 18)", Decimal("1E-18"), "0.000000000000000001", "0.000000000000000001"),
        ("DECIMAL(5, 0)", Decimal(100), "100", "100"),
        ("DECIMAL(9, 2)", Decimal("-1.5"), "-1.50", "-1.50"),
        ("STRING", "a/b:c%d", "a/b:c%d", "a%2Fb%3Ac%25d"),
        ("STRING", "\n\x01\x7f\"'#*=?\\{[]^", None, "%0A%01%7F%22%27%23%2A%3D%3F%5C%7B%5B%5D%5E"),
        ("STRING", " ä🙂~`<>|}", " ä🙂~`<>|}", " ä🙂~`<>|}"),
        ("DATE", date(9999, 12, 31), "9999-12-31", "9999-12-31"),
        (
            "TIMESTAMP(6)",
            datetime(1, 1, 1, 0, 0, 0, 120_000),
            "0001-01-01 00:00:00.12",
            "0001-01-01 00%3A00%3A00.12",
        ),
        (
            "TIMESTAMP_LTZ(6)",
            datetime(2026, 11, 23, 10, 0, tzinfo=timezone(timedelta(hours=2))),
            "2026-11-23T08:00:00.000000Z",
            "2026-11-23 08%3A00%3A00",
        ),
    ],
)
def test_values_of_partitions_are_written_as_delta_and_hive_do(
    tmp_path: Path, kind: str, value: Any, text: str | None, folder: str
) -> None:
    """A text for the log, and one for the name of the folder."""
    output = partitioned(tmp_path, ("a:b", kind))
    files = opened(output)
    files.write(batch_of(output, (value,)))
    (written,) = files.finish()

    assert written.partition == (value if text is None else text,)
    assert written.path.rpartition("/")[0] == f"a%3Ab={folder}"
    assert (tmp_path / written.path).exists()


def test_few_files_are_open_and_no_row_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more partitions than that some have several files; what is held is bounded by its bytes."""
    monkeypatch.setattr(table_files, "MOST_OPEN_FILES", 3)
    monkeypatch.setattr(table_files, "HELD_BYTES", 2_000)
    draw = random.Random(20261123)
    output = partitioned(tmp_path, ("a", "INT"), ("b", "STRING"), ("c", "BOOLEAN"))
    files = opened(output)
    expected: Counter[tuple[Any, ...]] = Counter()
    most = 0
    for _ in range(30):
        values = [
            (draw.choice([None, 1, 2]), draw.choice("xyz"), draw.choice([True, False, None]))
            for _ in range(draw.randint(0, 20))
        ]
        files.write(batch_of(output, *values))
        most = max(most, len(files._open))
        expected.update(
            (number, *("true" if x is True else "false" if x is False else x for x in row))
            for number, row in enumerate(values)
        )
    written = files.finish()
    found = Counter(
        (row["v"], None if a is None else int(a), b, c)
        for file in written
        for (a, b, c) in [file.partition]
        for row in rows_of(tmp_path, file.path)
    )

    assert found == expected
    assert most == 3
    assert len({file.partition for file in written}) < len(written)
    assert {tmp_path / file.path for file in written} == set(tmp_path.rglob("*.parquet"))


def test_a_task_that_fails_leaves_no_file_of_any_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are complete already, too."""
    monkeypatch.setattr(table_files, "MOST_OPEN_FILES", 1)
    monkeypatch.setattr(table_files, "HELD_BYTES", 1)
    output = partitioned(tmp_path, ("a", "INT"))
    files = opened(output)
    files.write(batch_of(output, (1,), (2,), (3,)))
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    files.discard()

    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("STRING", "x" * 300, "no folder can have the name of its partition 'x{300}'"),
        ("STRING", "a\0b", "no folder can have the name of its partition"),
        ("DATE", 2_932_897, "column p, by which it is partitioned, is outside of the years 1 to"),
        ("TIMESTAMP(6)", -(2**62), "column p, by which it is partitioned, is outside of the years"),
    ],
)
def test_a_value_that_is_no_partition_is_refused(
    tmp_path: Path, kind: str, value: Any, why: str
) -> None:
    """By its column or its text, before a row is lost."""
    output = partitioned(tmp_path, ("p", kind))
    files = opened(output)
    files.write(batch_of(output, (value,)))
    with pytest.raises(SinkError, match=f"t does not take a row: {why}"):
        files.finish()
    files.discard()

    assert list(tmp_path.rglob("*.parquet")) == []


def test_the_empty_text_is_null_also_where_that_is_refused(tmp_path: Path) -> None:
    """As of Spark's own writer."""
    output = partitioned(tmp_path, ("p", "STRING"))
    plain, named = output.columns
    output = replace(output, columns=(plain, replace(named, required=True)))
    files = opened(output)
    with pytest.raises(SinkError, match=r"NOT NULL constraint violated for column: p\."):
        files.write(batch_of(output, ("",)))


@pytest.mark.parametrize("partitions", [(), ("Tablename",)])
def test_a_file_is_complete_with_its_most_rows(
    tmp_path: Path, partitions: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many come at once; of a partition each file has so many but the last."""
    monkeypatch.setattr(table_files, "HELD_ROWS", 5)
    file = opened(output_into(tmp_path, partitions=partitions, max_rows_per_file=4))
    read = rows(0, 21)
    read = read.set_column(1, "name", pa.repeat(pa.scalar("a"), 21))
    for first in range(0, 21, 7):
        file.write(read.slice(first, 7))
    written = file.finish()
    found = [
        each
        for one in written
        for each in pq.ParquetFile(tmp_path / one.path).read()["Tableid"].to_pylist()
    ]

    assert [one.rows for one in written] == [4, 4, 4, 4, 4, 1]
    assert sorted(found) == list(range(21))
