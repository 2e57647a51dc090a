"""What state tables of stages take, read from their folders without an engine."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.sql.checkpoint.reader import LocalFiles
from penstock.sql.incremental.state.folder_sizes import FILES, stage_bytes


def folder(root: Path, table: str, name: str, *sizes: int) -> None:
    """A folder of a state table with files of these sizes."""
    made = root / "maintained" / table / name
    made.mkdir(parents=True)
    (made / FILES).write_text(json.dumps({f"part-{n}": size for n, size in enumerate(sizes)}))


def told(root: Path, stage: str) -> int | None:
    return stage_bytes(LocalFiles(location=str(root)), "maintained", stage)


def test_a_table_takes_its_newest_base_and_the_batches_since(tmp_path: Path) -> None:
    """Batches that are in the base, and older bases, are about to be removed; each input counts."""
    for number, size in enumerate((10, 20, 30, 40)):
        folder(tmp_path, "s1-orders", f"batch={number}", size)
    folder(tmp_path, "s1-orders", "base=1", 25)
    folder(tmp_path, "s1-orders", "base=2", 50, 5)
    folder(tmp_path, "s1-names", "batch=0", 7)
    folder(tmp_path, "s11-other", "batch=0", 1_000)

    assert told(tmp_path, "s1") == 55 + 40 + 7


def test_a_base_that_is_being_written_does_not_count_yet(tmp_path: Path) -> None:
    """The batches are there until it is whole."""
    folder(tmp_path, "s1-orders", "batch=0", 10)
    folder(tmp_path, "s1-orders", "batch=1", 20)
    (tmp_path / "maintained/s1-orders/base=1").mkdir()

    assert told(tmp_path, "s1") == 30


def test_what_is_not_there_is_not_known(tmp_path: Path) -> None:
    """It is not 0: no stage, no whole folder, files that are being replaced."""
    assert told(tmp_path, "s1") is None
    broken = tmp_path / "maintained/s1-orders/batch=0"
    broken.mkdir(parents=True)
    assert told(tmp_path, "s1") is None
    (broken / FILES).write_text('{"part')
    assert told(tmp_path, "s1") is None
