"""INSERT .. VALUES and INSERT OVERWRITE into files beside other processes. Without Spark: files are moved by Python."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.catalog.definitions.leases import this_process
from penstock.catalog.errors import PipelineLockedError, SinkError
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.filesystem.sink import sink as sink_module
from penstock.connector.filesystem.sink.manifest import Manifest, manifest_of
from penstock.connector.filesystem.sink.sink import FilesystemSink
from penstock.connector.spark import hadoop_files
from penstock.connector.spark.sink.last_batch import LastBatch
from tests.connector.filesystem.tables import file_table

SPARK = SimpleNamespace()
FRAME = SimpleNamespace(sparkSession=SPARK)
STAGING = "0-ab"


class LocalFiles:
    """The functions of `hadoop_files`, for local paths."""

    def read_text(self, _spark: object, path: str) -> str | None:
        return Path(path).read_text() if Path(path).exists() else None

    def write_text(self, _spark: object, path: str, text: str) -> bool:
        if Path(path).exists():
            return False
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
        return True

    def list_names(self, _spark: object, path: str) -> list[str]:
        return sorted(each.name for each in Path(path).iterdir()) if Path(path).exists() else []

    def list_files(self, _spark: object, path: str) -> dict[str, int]:
        files = (each for each in Path(path).rglob("*") if each.is_file())
        return {str(each.relative_to(path)): each.stat().st_size for each in files}

    def size_of(self, _spark: object, path: str) -> int | None:
        return Path(path).stat().st_size if Path(path).exists() else None

    def rename(self, _spark: object, path: str, target: str) -> bool:
        if Path(target).exists() or not Path(path).exists():
            return False
        Path(path).rename(target)
        return True

    def delete(self, _spark: object, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)

    def make_directory(self, _spark: object, path: str) -> bool:
        Path(path).mkdir(parents=True, exist_ok=True)
        return True

    def sync(self, _spark: object, _folder: str, names: Iterable[str]) -> None:
        list(names)


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> LocalFiles:
    """What the sink takes for Hadoop's file system; and rows are staged by Python."""
    made = LocalFiles()
    for name in vars(LocalFiles):
        if not name.startswith("_"):
            monkeypatch.setattr(hadoop_files, name, getattr(made, name))
    monkeypatch.setattr(FilesystemSink, "_stage", staged)
    return made


def staged(sink: FilesystemSink, _frame: object, batch: LastBatch, writer: str) -> Manifest:
    """Stage a file with the name of its writer in it."""
    folder = Path(sink.target.root) / "_penstock" / writer / STAGING
    folder.mkdir(parents=True)
    (folder / "part-0.json").write_text(writer)
    sizes = {"part-0.json": len(writer)}
    return manifest_of(sizes, batch, writer=writer, staging=STAGING, default_partition="NONE")


def sink_of(folder: Path) -> FilesystemSink:
    made = FilesystemConnector(project=Path("/")).sink(file_table(folder))
    assert isinstance(made, FilesystemSink)
    return made


def written(folder: Path) -> list[str]:
    """What is in the files that readers see."""
    return sorted(path.read_text() for path in folder.glob("part-*"))


def ledger(folder: Path) -> list[str]:
    return [path.name for path in (folder / "_penstock").iterdir()]


def test_a_manifest_that_another_process_removes_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: LocalFiles
) -> None:
    """A pipeline starts while an INSERT .. VALUES ends: its manifest is listed, and gone before it is read."""
    sink, real = sink_of(tmp_path), files.read_text
    manifest = staged(sink, FRAME, LastBatch(batch_id=0, digest=""), "insert-t")
    path = tmp_path / "_penstock" / "insert-t" / manifest.name
    path.write_text(replace(manifest, owner=this_process()).encode())

    def gone(spark: object, name: str) -> str | None:
        shutil.rmtree(path.parent)
        return real(spark, name)

    monkeypatch.setattr(hadoop_files, "read_text", gone)
    sink._finish_inserts(SPARK, alone=False)  # type: ignore[arg-type]

    assert (written(tmp_path), ledger(tmp_path)) == ([], [])


def test_an_insert_whose_manifest_another_process_has_carried_out_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: LocalFiles
) -> None:
    """It was paused behind its manifest; the files are there, once."""
    sink, real = sink_of(tmp_path), files.write_text

    def meanwhile(spark: object, path: str, text: str) -> bool:
        done = real(spark, path, text)
        if path.endswith(".json"):
            with monkeypatch.context() as patched:
                patched.setattr(sink_module, "_is_over", lambda *_, **__: True)
                patched.setattr(hadoop_files, "write_text", real)
                sink._finish_inserts(SPARK, alone=True)  # type: ignore[arg-type]
        return done

    monkeypatch.setattr(hadoop_files, "write_text", meanwhile)
    sink.write(FRAME)  # type: ignore[arg-type]

    assert len(written(tmp_path)) == 1
    assert ledger(tmp_path) == []


def test_an_overwrite_that_lost_the_tables_lease_changes_nothing(tmp_path: Path) -> None:
    """It was paused behind the list of files that give way: another statement has replaced them meanwhile."""
    (tmp_path / "part-old.json").write_text("old")
    lost = PipelineLockedError("run by process 7")
    sink = sink_of(tmp_path)
    with pytest.raises(PipelineLockedError):
        sink.under_lease(lambda: lost).overwrite(FRAME, {})  # type: ignore[arg-type]
    sink._finish_inserts(SPARK, alone=True)  # type: ignore[arg-type]

    assert written(tmp_path) == ["old"]


def test_an_overwrite_that_loses_the_lease_behind_its_manifest_leaves_the_rest_to_others(
    tmp_path: Path,
) -> None:
    """Its rows are decided on: the next statement moves them."""
    (tmp_path / "part-old.json").write_text("old")
    answers = iter([None, None, PipelineLockedError("run by process 7")])
    sink = sink_of(tmp_path).under_lease(lambda: next(answers))
    with pytest.raises(PipelineLockedError) as caught:
        sink.overwrite(FRAME, {})  # type: ignore[arg-type]
    before = written(tmp_path)
    sink_of(tmp_path)._finish_inserts(SPARK, alone=True)  # type: ignore[arg-type]

    assert "do not repeat" in (caught.value.hint or "")
    assert before == ["old"]
    assert [text.startswith("insert-") for text in written(tmp_path)] == [True]


def failing_renames(monkeypatch: pytest.MonkeyPatch, files: LocalFiles, *, times: int) -> None:
    """Let a number of renames fail, as those of a file system that is away."""
    calls: list[str] = []

    def rename(spark: object, path: str, target: str) -> bool:
        calls.append(path)
        if len(calls) <= times:
            raise OSError("away")
        return files.rename(spark, path, target)

    monkeypatch.setattr(hadoop_files, "rename", rename)
    monkeypatch.setattr(sink_module, "RETRY_S", 0)


def test_an_insert_whose_files_cannot_be_moved_at_once_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: LocalFiles
) -> None:
    """Its rows are decided on: to fail would say that they are not there."""
    failing_renames(monkeypatch, files, times=sink_module.ATTEMPTS - 1)
    sink_of(tmp_path).write(FRAME)  # type: ignore[arg-type]

    assert len(written(tmp_path)) == 1
    assert ledger(tmp_path) == []


def test_an_insert_that_fails_behind_its_manifest_says_not_to_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: LocalFiles
) -> None:
    """The next statement brings its rows, so that a repeated one would bring them twice."""
    failing_renames(monkeypatch, files, times=sink_module.ATTEMPTS)
    with pytest.raises(SinkError, match="away") as caught:
        sink_of(tmp_path).write(FRAME)  # type: ignore[arg-type]
    before = written(tmp_path)
    sink_of(tmp_path).write(FRAME)  # type: ignore[arg-type]

    assert "do not repeat" in (caught.value.hint or "")
    assert (len(before), len(written(tmp_path))) == (0, 2)


def test_an_overwrite_that_was_paused_before_its_manifest_leaves_later_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: LocalFiles
) -> None:
    """Between the look at its lease and the manifest another statement has overwritten the table."""
    (tmp_path / "part-old.json").write_text("old")
    lost: list[PipelineLockedError] = []
    real = files.write_text

    def paused(spark: object, path: str, text: str) -> bool:
        if path.endswith(".json") and not lost:
            (tmp_path / "part-old.json").unlink()
            (tmp_path / "part-other.json").write_text("the other's")
            lost.append(PipelineLockedError("run by process 7"))
        return real(spark, path, text)

    monkeypatch.setattr(hadoop_files, "write_text", paused)
    with pytest.raises(PipelineLockedError) as caught:
        sink_of(tmp_path).under_lease(lambda: lost[0] if lost else None).overwrite(FRAME, {})  # type: ignore[arg-type]
    sink_of(tmp_path)._finish_inserts(SPARK, alone=True)  # type: ignore[arg-type]

    assert "do not repeat" not in (caught.value.hint or "")
    assert written(tmp_path) == ["the other's"]


def test_rows_that_were_decided_on_before_truncate_do_not_come_back(tmp_path: Path) -> None:
    """An INSERT .. VALUES was cut off behind its manifest: the next statement would have moved its files."""
    (tmp_path / "part-old.json").write_text("old")
    answers = iter([None, PipelineLockedError("run by process 7")])
    with pytest.raises(PipelineLockedError):
        sink_of(tmp_path).under_lease(lambda: next(answers)).write(FRAME)  # type: ignore[arg-type]
    sink_of(tmp_path).truncate(SPARK)  # type: ignore[arg-type]
    sink_of(tmp_path)._finish_inserts(SPARK, alone=True)  # type: ignore[arg-type]

    assert (written(tmp_path), ledger(tmp_path)) == ([], [])
