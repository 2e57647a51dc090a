"""Where a Delta table stands, read from its log without an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.catalog.errors import StateMismatchError
from penstock.connector.delta.log import LogHead, LogStanding, read_head, read_standing
from penstock.connector.storage import open_folder

SCHEMA = json.dumps({"fields": [{"name": "id", "type": "long"}, {"name": "v", "type": "variant"}]})


def logs(table: Path) -> Path:
    """The folder of a table's log, made."""
    folder = table / "_delta_log"
    folder.mkdir()
    return folder


def test_the_head_is_the_newest_version_with_columns_of_any_type(tmp_path: Path) -> None:
    """A type that no table of ours can have does not hide what is there."""
    folder = logs(tmp_path)
    (folder / f"{0:020d}.json").write_text(json.dumps({"metaData": {"schemaString": SCHEMA}}))
    (folder / f"{1:020d}.json").write_text(json.dumps({"add": {"path": "x"}}))

    assert read_head(open_folder(str(tmp_path))) == LogHead(version=1, columns=("id", "v"))


def test_the_head_may_be_a_checkpoint(tmp_path: Path) -> None:
    """The commits before it, and its own, may be gone."""
    rows = pa.table({"metaData": [None, {"schemaString": SCHEMA}]})
    parquet.write_table(rows, logs(tmp_path) / f"{10:020d}.checkpoint.parquet")

    assert read_head(open_folder(str(tmp_path))) == LogHead(version=10, columns=("id", "v"))


def test_no_log_has_no_head_and_one_without_a_schema_is_broken(tmp_path: Path) -> None:
    """A folder may be anything; a log that begins in the middle cannot be read."""
    folder = open_folder(str(tmp_path))

    assert read_head(folder) is None
    (logs(tmp_path) / f"{7:020d}.json").write_text(json.dumps({"add": {"path": "x"}}))
    with pytest.raises(StateMismatchError, match="no checkpoint has its schema"):
        read_head(folder)


def test_the_last_batch_of_each_query_is_in_the_log(tmp_path: Path) -> None:
    """What a checkpoint has is overtaken by the commits behind it; those before it no longer count."""
    folder, log = open_folder(str(tmp_path)), logs(tmp_path)

    assert read_standing(folder) is None
    rows = pa.table(
        {
            "metaData": [{"id": "t", "schemaString": SCHEMA}, None, None],
            "txn": [None, {"appId": "q", "version": 4}, {"appId": "r", "version": 9}],
        }
    )
    parquet.write_table(rows, log / f"{10:020d}.checkpoint.parquet")
    for version, batch in ((9, 3), (11, 5)):
        took = {"txn": {"appId": "q", "version": batch}}
        (log / f"{version:020d}.json").write_text(json.dumps(took))
    assert read_standing(folder) == LogStanding(id="t", version=11, transactions={"q": 5, "r": 9})
