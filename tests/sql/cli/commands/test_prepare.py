"""`penstock prepare` as a user types it: an archive is recorded, and the next `penstock run` starts with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.connector.jvm.jars import cache_directory

PENSTOCK = str(Path(sys.executable).with_name("penstock"))

COPY = """
CREATE TABLE orders (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
CREATE TABLE copies (id BIGINT) WITH ('connector' = 'delta', 'path' = 'copies');
INSERT INTO copies SELECT id FROM orders;
"""


def penstock(folder: Path, *arguments: str, **environment: str) -> str:
    """Run a command in a folder with a cache of its own; return what it prints on stdout."""
    done = subprocess.run(
        [PENSTOCK, *arguments],
        cwd=folder,
        check=False,
        env={**os.environ, "PENSTOCK_CACHE": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.nightly
def test_a_run_after_prepare_takes_the_classes_of_spark_from_the_archive(tmp_path: Path) -> None:
    """Spark's, Delta's and Scala's; a second `prepare` records nothing, and the doctor names the archive."""
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "jars").symlink_to(cache_directory() / "jars")
    (tmp_path / "copy.sql").write_text(COPY)
    said = penstock(tmp_path, "prepare")
    (archive,) = (tmp_path / "cache" / "class-data").glob("*.jsa")
    logs = tmp_path / "logs"
    logs.mkdir()
    penstock(
        tmp_path,
        "run",
        "copy.sql",
        "--available-now",
        JAVA_TOOL_OPTIONS=f"-Xlog:class+load:file={logs}/%p.log",
    )
    shared = {
        line.split(" source: ")[0].split()[-1]
        for log in logs.iterdir()
        for line in log.read_text().splitlines()
        if line.endswith("source: shared objects file (top)")
    }

    assert f"{archive}" in said
    assert said.rstrip().endswith("recorded")
    assert {"org.apache.spark.SparkContext", "org.apache.spark.sql.delta.DeltaLog"} <= shared
    assert penstock(tmp_path, "prepare").rstrip().endswith("there already")
    assert f"Spark starts with {archive}" in penstock(tmp_path, "doctor")
