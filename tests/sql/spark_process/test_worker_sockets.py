"""By what Spark's Java process and its Python processes talk."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.sql.spark_process.worker_sockets import (
    DIRECTORY,
    ENABLED,
    LONGEST_PATH,
    SWITCH,
    socket_settings,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has them")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the user have said nothing of sockets."""
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def test_sockets_are_in_a_folder_of_this_user_alone() -> None:
    """Whoever reaches a socket is trusted: by Unix sockets, Spark asks for no secret."""
    settings = socket_settings({}, in_process=True)
    folder = Path(settings[DIRECTORY])

    assert settings[ENABLED] == "true"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.geteuid()
    assert len(str(folder)) <= LONGEST_PATH
    assert socket_settings({}, in_process=True) == settings, "one folder for all sessions"


def test_a_folder_that_was_removed_is_made_again() -> None:
    """As temporary ones are, while nothing runs in them."""
    folder = Path(socket_settings({}, in_process=True)[DIRECTORY])
    away = folder.rename(folder.with_name(f"moved-{folder.name}"))
    try:
        made = Path(socket_settings({}, in_process=True)[DIRECTORY])
    finally:
        if not folder.exists():
            away.rename(folder)

    assert made.is_dir()
    assert made != folder


@pytest.mark.parametrize("why", ["a cluster", "on", "a folder", "a variable", "Spark's file"])
def test_what_a_user_says_stays(why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And executors of other machines have no such folder."""
    conf = {"on": {ENABLED: "true"}, "a folder": {DIRECTORY: "/run/user/1"}}.get(why, {})
    if why == "a variable":
        monkeypatch.setenv(SWITCH, "false")
    if why == "Spark's file":
        (tmp_path / "spark-defaults.conf").write_text(f"{ENABLED} false\n", encoding="utf-8")

    assert socket_settings(conf, in_process=why != "a cluster") == {}


def test_a_temporary_folder_with_a_long_path_has_no_sockets(
    tmp_path: Path,
) -> None:
    """Spark would refuse to start; another process has a folder of its own."""
    long = tmp_path / ("long" * 20)
    long.mkdir()

    assert _settings_below(str(long)) == {}
    assert _settings_below(tempfile.gettempdir())[ENABLED] == "true"


def _settings_below(folder: str) -> dict[str, str]:
    code = (
        "import json; from penstock.sql.spark_process.worker_sockets import socket_settings; "
        "print(json.dumps(socket_settings({}, in_process=True)))"
    )
    environment = os.environ | {"TMPDIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    assert not any(Path(path).exists() for path in found.values()), "it goes with the process"
    return found


@pytest.mark.spark
def test_python_processes_of_spark_talk_by_unix_sockets(spark: SparkSession) -> None:
    """Their rows, and the accumulators that come back to this process."""
    folder = Path(spark.conf.get(DIRECTORY) or "")
    counted = spark.sparkContext.accumulator(0)

    def sockets(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counted.add(1)
        lines = Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
        inodes = {line.split()[6] for line in lines[1:]}
        held = [str(f.readlink()) for f in Path("/proc/self/fd").iterdir() if f.is_symlink()]
        mine = [name for name in held if name.removeprefix("socket:[").removesuffix("]") in inodes]
        tcp = [name for name in held if name.startswith("socket:") and name not in mine]
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"unix": [len(mine)], "tcp": [len(tcp)]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(sockets, "unix BIGINT, tcp BIGINT").collect()

    assert row.unix > 0
    assert row.tcp == 0
    assert counted.value == 1
    assert any(stat.S_ISSOCK(file.lstat().st_mode) for file in folder.iterdir())
