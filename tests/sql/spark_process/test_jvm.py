"""The end of Spark's Java process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.sql.cli.commands import run_scripts
from penstock.sql.spark_process.jvm import end_jvm
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
