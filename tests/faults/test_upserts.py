"""Upserts into Delta by position: processes that die between the files of a batch and what follows its commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.delta_tables import read_delta
from tests.faults.faulty import REACHED_S, FaultyPipeline

Make = Callable[..., FaultyPipeline]

pytestmark = pytest.mark.timeout(900)

KEYS, FILES, EACH = 200, 12, 150
LATEST = """
CREATE TABLE IF NOT EXISTS changes (id BIGINT, number BIGINT) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s',
  'source.max-bytes-per-batch' = '8 kb');
CREATE TABLE IF NOT EXISTS latest (id BIGINT, number BIGINT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'latest');
INSERT INTO latest SELECT id, number FROM changes;
"""


def write_changes(folder: Path, files: Iterable[int] = range(FILES)) -> dict[int, int]:
    """Write files that name each key again and again; returns the last number of each key."""
    folder.mkdir(exist_ok=True)
    latest: dict[int, int] = {}
    for file in files:
        changes = {(file * 61 + each * 7) % KEYS: file * 1_000 + each for each in range(EACH)}
        lines = "".join(json.dumps({"id": k, "number": v}) + "\n" for k, v in changes.items())
        (folder / f"{file:03}.json").write_text(lines, encoding="utf-8")
        latest |= changes
    return latest


def write_new_keys(folder: Path, files: Iterable[int]) -> dict[int, int]:
    """Write files of keys that are new, so that small files stay; the end of each file replaces its first keys.

    Files are read side by side: a key of two files could end with the row of either.
    """
    folder.mkdir(exist_ok=True)
    latest: dict[int, int] = {}
    for file in files:
        new = range(file * EACH, (file + 1) * EACH)
        changes = [*((id_, 0) for id_ in new), *((id_, file) for id_ in new[:5])]
        lines = "".join(json.dumps({"id": id_, "number": n}) + "\n" for id_, n in changes)
        (folder / f"{file:03}.json").write_text(lines, encoding="utf-8")
        latest |= dict(changes)
    return latest


def found(table: Path) -> dict[int, int]:
    """The rows of the table, each key once."""
    rows = read_delta(table).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), "a key has one row"
    return {row["id"]: row["number"] for row in rows}


@pytest.mark.faults
def test_an_upsert_is_killed_at_every_step(pipeline: Make, project: Path) -> None:
    """A task with its file, the driver with all files, with the positions, with the commit."""
    latest = write_changes(project / "in")
    job, table = pipeline(LATEST, "--available-now"), project / "latest"
    for name, visit in (
        ("file-written", 1),
        ("files-written", 2),
        ("positions-known", 2),
        ("written", 1),
    ):
        job.hold_at(name, visit=visit)
        before = found(table) if (table / "_delta_log").exists() else {}
        job.kill()
        assert (found(table) if before else {}) == before, name
    job.catch_up()

    assert found(table) == latest
    features = DeltaTable(table).protocol().reader_features
    assert features == ["deletionVectors"]
    assert "MERGE" not in {each["operation"] for each in DeltaTable(table).history()}


@pytest.mark.faults
def test_a_compaction_of_upserts_is_killed_at_every_step(pipeline: Make, project: Path) -> None:
    """With the new file, with its vector, with the commit: no row is lost or doubled."""
    latest: dict[int, int] = {}
    few = ("--conf", "spark.databricks.delta.autoCompact.minNumFiles=3")
    script = LATEST.replace("8 kb", "4 kb")
    job, table = pipeline(script, *few), project / "latest"
    for number, name in enumerate(("put-together", "carried-over", "replaced")):
        latest |= write_new_keys(project / "in", range(6 * number, 6 * number + 6))
        job.hold_at(name)
        found(table)
        job.kill()
        found(table)
    job.start_clean()
    job.until(lambda: found(table) == latest, "all changes are there", REACHED_S)
    job.kill()

    operations = [each["operation"] for each in DeltaTable(table).history()]
    assert "OPTIMIZE" in operations
    assert "MERGE" not in operations
