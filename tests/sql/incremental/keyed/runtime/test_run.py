"""Runs by keyed operators on Spark: the number of buckets, which is fixed as a state begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.connector.changelog import RowKind
from penstock.connector.spark.session import configured
from penstock.sql.incremental.keyed.files.manifest_folder import Manifests
from penstock.sql.incremental.keyed.runtime import run as keyed_run
from penstock.sql.incremental.keyed.runtime.run import KeyedRun
from penstock.sql.incremental.stages import Measure, StageInput
from penstock.sql.settings import BUCKETS
from tests.sql.maintain.maintaining import (
    Pipeline,
    feeds,
    maintained,
    open_run,
    parsed,
    recomputed,
    tagged,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.s3_server import S3Server

INSERT = int(RowKind.INSERT)
QUERY = maintained(
    feeds("a"),
    recomputed(
        "g",
        "SELECT k, __m0 AS v, __n AS n FROM a",
        StageInput(
            name="a",
            key=("k",),
            measures=(Measure(name="__m0", value=parsed("SELECT v").selects[0]),),
        ),
        key=("k",),
    ),
    columns="k v n",
    key=("k",),
)


def started(spark: SparkSession, folder: Path | str) -> tuple[Pipeline, KeyedRun]:
    """Start, or start again, from a folder of state."""
    run = open_run(tagged(spark, QUERY, {}, 0), QUERY, str(folder), keyed=True)
    assert isinstance(run, KeyedRun)
    return Pipeline(spark, QUERY, run), run


def manifest(folder: Path, batch: int) -> dict[str, object]:
    """Read what a batch has written."""
    found: dict[str, object] = json.loads((folder / "manifests" / f"{batch}.json").read_text())
    return found


@pytest.mark.spark
@pytest.mark.parametrize("asked_first", [True, False], ids=["read by bucket", "by Spark"])
def test_buckets_are_those_of_the_first_start(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, asked_first: bool
) -> None:
    """Another number later changes nothing, and the log says so, once."""
    folder = tmp_path / "keyed"
    with configured(spark, {BUCKETS: "3"}):
        pipeline, run = started(spark, folder)
        pipeline.give(a=[(key, 1, INSERT) for key in range(20)])
        assert run.buckets(spark) == 3
    assert manifest(folder, 0)["buckets"] == 3
    assert not caplog.text

    with configured(spark, {BUCKETS: "5"}):
        again, run = started(spark, folder)
        if asked_first:
            assert run.buckets(spark) == 3
        again.batches, again.rows = 1, pipeline.rows
        for _ in range(2):
            again.give(a=[(key, 1, INSERT) for key in range(20)])
    assert manifest(folder, 2)["buckets"] == 3
    assert dict(again.rows) == {(key, 3, 3): 1 for key in range(20)}
    assert caplog.text.count("has 3 buckets since its first start") == 1
    assert "SET 'penstock.keyed.buckets' = '5'" in caplog.text


@pytest.mark.spark
@pytest.mark.parametrize("said", ["", "0"])
def test_unless_they_are_set_there_are_two_a_core(
    spark: SparkSession, tmp_path: Path, said: str
) -> None:
    with configured(spark, {BUCKETS: said}):
        _, run = started(spark, tmp_path / "keyed")
        assert run.buckets(spark) == 2 * spark.sparkContext.defaultParallelism


@pytest.mark.spark
def test_tasks_reach_a_store_by_the_keys_of_hadoops_configuration(
    spark: SparkSession, tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files of the state are there, and a later start reads them; manifests are Spark's Hadoop's to write."""

    def local(spark: SparkSession, folder: str) -> Manifests:
        assert folder == "s3a://penstock/job/keyed"
        return Manifests(spark, str(tmp_path / "keyed"))

    monkeypatch.setattr(keyed_run, "Manifests", local)
    with configured(spark, {**s3.settings, BUCKETS: "2"}):
        pipeline, _ = started(spark, "s3a://penstock/job/keyed")
        pipeline.give(a=[(key, 1, INSERT) for key in range(9)])
        again, _ = started(spark, "s3a://penstock/job/keyed")
        again.batches, again.rows = 1, pipeline.rows
        again.give(a=[(key, 1, INSERT) for key in range(9)])

    assert dict(again.rows) == {(key, 2, 2): 1 for key in range(9)}
    assert len(s3.keys("job/keyed/")) == 4
    assert not s3.refused
