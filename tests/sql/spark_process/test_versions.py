"""Releases of Spark and Delta that were not tested are refused by name."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError
from penstock.sql.spark_process.spark_session import (
    OVERRIDE,
    TESTED_DELTA,
    TESTED_SPARK,
    check_releases,
    check_spark,
    check_versions,
)

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment lets nothing pass."""
    monkeypatch.delenv(OVERRIDE, raising=False)


@pytest.mark.parametrize(
    ("spark", "delta", "named"),
    [
        ("4.2.1", "4.4.0", "Spark 4.2.1"),
        ("4.1.0", "4.4.0", "Spark 4.1.0"),
        ("4.2.0", "4.4.1", "Delta 4.4.1"),
        ("4.2.0", None, "Delta of an unknown version"),
        ("4.2.0-SNAPSHOT", "5.0.0", "Spark 4.2.0-SNAPSHOT .* and Delta 5.0.0"),
    ],
)
def test_an_untested_release_is_refused_by_name(spark: str, delta: str | None, named: str) -> None:
    """A patch release too: guards go by what is inside of Spark."""
    with pytest.raises(ConfigError, match=named) as caught:
        check_releases(spark, delta)
    assert f"{OVERRIDE}=1" in (caught.value.hint or "")


def test_an_untested_release_runs_when_told_to_and_each_start_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With 1 alone, so that an empty or forgotten variable lets nothing pass."""
    monkeypatch.setenv(OVERRIDE, "0")
    with pytest.raises(ConfigError):
        check_releases("4.2.1", "4.4.0")

    monkeypatch.setenv(OVERRIDE, "1")
    with caplog.at_level(logging.WARNING):
        check_releases("4.2.1", "4.4.0")
        check_releases("4.2.1", "4.4.0")
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "Spark 4.2.1" in caplog.text
    assert OVERRIDE in caplog.text


def test_the_releases_that_are_installed_are_the_tested_ones() -> None:
    """The pins and the list are changed together."""
    pins = dict(
        re.findall(
            r'"(pyspark|delta-spark)==([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8")
        )
    )

    assert pins == {"pyspark": TESTED_SPARK[-1], "delta-spark": TESTED_DELTA[-1]}


def test_a_given_session_is_asked_for_its_releases(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both tell the truth here; a session of another release is refused by `connect`."""
    check_versions(spark)
    monkeypatch.setitem(spark.__dict__, "version", "4.2.9")  # PySpark asks once
    with pytest.raises(ConfigError, match=r"Spark 4\.2\.9"):
        check_spark(spark)
