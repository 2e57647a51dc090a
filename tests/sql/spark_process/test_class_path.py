"""Spark's class path, and the archive of its classes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from penstock.connector.delta.connector import delta_jars
from penstock.connector.jvm.class_data import SWITCH
from penstock.connector.jvm.java import find_java
from penstock.sql.spark_process.class_path import (
    CLASS_PATH,
    COMPILED_LATER,
    JARS,
    JAVA_OPTIONS,
    archive_for,
    class_path_settings,
    with_archive,
    with_compiler,
    with_java_options,
)

JAR = Path("/jars/delta.jar")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no variable add to the class path."""
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", SWITCH):
        monkeypatch.delenv(name, raising=False)


def test_jars_are_on_the_class_path_of_a_spark_in_one_process() -> None:
    """Executors in other processes get them as `spark.jars`."""
    assert class_path_settings([JAR], {}, in_process=True) == {CLASS_PATH: str(JAR)}
    assert class_path_settings([JAR], {}, in_process=False) == {JARS: str(JAR)}


@pytest.mark.parametrize("key", [CLASS_PATH, JARS])
def test_a_class_path_of_the_user_is_not_replaced(key: str) -> None:
    """Ours are `spark.jars` then, as far as he has none."""
    assert class_path_settings([JAR], {key: "his.jar"}, in_process=True) == {JARS: str(JAR)}


def test_a_class_path_in_sparks_defaults_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads `spark-defaults.conf`, over which our settings win."""
    (tmp_path / "spark-defaults.conf").write_text(f"{CLASS_PATH} his.jar\n", encoding="utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    assert class_path_settings([JAR], {}, in_process=True) == {JARS: str(JAR)}


def test_options_of_the_user_come_last() -> None:
    """Of two that contradict each other Java takes the last."""
    settings = with_java_options(
        {JAVA_OPTIONS: "-Xss4m"}, ["-XX:SharedArchiveFile=/my cache/a.jsa"]
    )

    assert settings == {JAVA_OPTIONS: "'-XX:SharedArchiveFile=/my cache/a.jsa' -Xss4m"}
    assert with_java_options({"a": "b"}, ()) == {"a": "b"}


def test_java_knows_the_options_of_its_compiler() -> None:
    """Java refuses to start with an option that it does not know; those of the user come last."""
    settings = with_compiler({JAVA_OPTIONS: "-XX:Tier4InvocationThreshold=5000"})
    *ours, last = settings[JAVA_OPTIONS].split()
    shown = subprocess.run(
        [find_java().executable, *ours, last, "-XX:+PrintFlagsFinal", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    values = dict(re.findall(r" (Tier\d\w+) += (\d+)", shown))

    assert len(ours) == len(COMPILED_LATER)
    assert values["Tier4MinInvocationThreshold"] == "12000"
    assert values["Tier3DelayOn"] == "0"
    assert values["Tier4InvocationThreshold"] == "5000"


@pytest.mark.slow
def test_the_archive_is_of_the_class_path_that_sparks_launcher_builds() -> None:
    """Java takes classes from it only where all jars are in the same order."""
    settings = class_path_settings(delta_jars(), {}, in_process=True)
    archive = archive_for(settings)
    assert archive is not None
    home = archive.class_path[-1].parent.parent
    java = find_java()
    setting = f"{CLASS_PATH}={settings[CLASS_PATH]}"
    launcher = [java.executable, "-cp", home / "jars" / "*", "org.apache.spark.launcher.Main"]
    command = subprocess.run(
        [*launcher, "org.apache.spark.deploy.SparkSubmit", "--conf", setting, "pyspark-shell"],
        env={
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": "2.13",  # as Spark's scripts set it
            "JAVA_HOME": str(java.path),
        },
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    class_path = command[command.index("-cp") + 1].split(os.pathsep)
    expanded = subprocess.run(
        [
            java.executable,
            "-XshowSettings:properties",
            "-cp",
            os.pathsep.join(class_path),
            "-version",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    _, _, listed = expanded.partition("java.class.path = ")
    seen = [line.strip() for line in listed.partition("java.class.version")[0].splitlines()]

    assert [Path(entry) for entry in seen if entry and Path(entry).exists()] == list(
        archive.class_path
    )


def test_a_start_without_an_archive_has_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before there was one."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))

    assert with_archive({"a": "b"}) == {"a": "b"}
