"""Runs the cases of test files one after the other, on one Spark and in one temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.catalog.errors import InputError, InputErrors
from penstock.catalog.store import SqlCatalog
from penstock.sql.config import Project
from penstock.sql.testing.case_run import CaseResult, CaseRunner, check_case
from penstock.sql.testing.cases import Case, TestFile

__all__ = ["SPARK_CONF", "check_suite", "run_suite"]

SPARK_CONF = {
    # a few rows each: more partitions only cost time, and one keeps the order of changes
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings that make short runs quick; those of the project win."""


def check_suite(cases: Sequence[tuple[TestFile, Case]], project: Project, *, lenient: bool) -> None:
    """Look for mistakes in all cases, before Spark is started. Raises InputErrors."""
    errors: list[InputError] = []
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as folder:
        catalog = SqlCatalog("sqlite://")
        for number, (_, case) in enumerate(cases, start=1):
            try:
                check_case(case, catalog, project, Path(folder) / str(number), lenient=lenient)
            except InputError as error:
                errors.append(error)
    if errors:
        raise InputErrors(errors) if len(errors) > 1 else errors[0]


def run_suite(
    cases: Sequence[tuple[TestFile, Case]],
    spark: SparkSession,
    project: Project,
    *,
    lenient: bool,
    ended: Callable[[TestFile, CaseResult], None],
) -> Iterator[CaseResult]:
    """Run cases and give their results; `ended` is called with each. `lenient`: see CaseRunner.

    Raises InputError for a mistake in a case.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-test-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        runner = CaseRunner(
            spark=spark,
            catalog=SqlCatalog(f"sqlite:///{(place / 'catalog.db').as_posix()}"),
            project=project,
            folder=place,
            lenient=lenient,
        )
        for number, (file, case) in enumerate(cases, start=1):
            result = runner.run(case, number)
            ended(file, result)
            yield result
