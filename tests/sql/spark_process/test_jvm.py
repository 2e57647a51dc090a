"""Logs of Spark's Java process, and its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.commands import run_scripts
from penstock.sql.spark_process import jvm
from penstock.sql.spark_process.jvm import MAX_LOGS, end_jvm, launch_jvm, log_files, make_room
from tests.sql.cli.live_tables import commands


def test_spark_that_ran_before_a_command_goes_on(spark: SparkSession) -> None:
    """A command ends the process that it launched, and no other."""
    end_jvm()

    assert spark.range(3).count() == 3


def test_a_run_ends_no_spark_that_ran_before_it(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever calls `penstock run` in a process of his own, and has launched Spark as commands do, goes on with it."""
    ends: list[str] = []
    monkeypatch.setattr(run_scripts, "end_jvm", lambda: ends.append("ended"))
    (project / "penstock.toml").touch()
    (project / "one.sql").write_text(
        "CREATE TABLE gone (a BIGINT) WITH ('connector' = 'blackhole');"
        "INSERT INTO gone VALUES (CAST(1 AS BIGINT));",
        encoding="utf-8",
    )
    done = commands()("run", "one.sql")

    assert done.exit_code == 0, done.stderr
    assert ends == []
    assert spark.range(3).count() == 3


def test_logs_of_runs_that_go_on_stay_and_of_others_the_last_ones(tmp_path: Path) -> None:
    """A project may have more pipelines at a time than logs of ended runs are kept."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    pids = [os.getpid()] * 3 + [ended.pid] * (MAX_LOGS + 3)
    for number, pid in enumerate(pids):
        for kind in ("out", "log", "log4j2.properties"):
            (tmp_path / f"spark-2026010{number // 10}T{number:06}-{pid}.{kind}").touch()

    make_room(tmp_path)

    left = sorted(tmp_path.glob("*.log"))
    assert [int(file.stem.rpartition("-")[2]) for file in left] == pids[:3] + [ended.pid] * (
        MAX_LOGS - 1
    )
    assert len(list(tmp_path.iterdir())) == 3 * len(left)


def test_java_that_does_not_start_may_do_so_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the machine is short of memory: `penstock up` tries again."""

    def refuse(*_: object) -> object:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(jvm, "launch_gateway", refuse)
    with pytest.raises(ConfigError, match="did not start") as caught:
        launch_jvm({}, log_files(tmp_path), java_options=())

    assert caught.value.may_pass
