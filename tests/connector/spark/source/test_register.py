"""A data source is registered also where Spark's look-up of its name fails for once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource

from penstock.connector.spark.source.data_source import ScanDataSource, register_data_source

TAKEN = "DATA_SOURCE_ALREADY_EXISTS"


class RefusedError(AnalysisException):
    """What Spark's Java says, whose condition has no template in Python."""

    def __init__(self, condition: str) -> None:
        super().__init__(condition)
        self.condition = condition

    def getCondition(self) -> str:  # noqa: N802
        return self.condition


class Registration:
    """Spark's registration, which refuses as it is told to."""

    def __init__(self, *refusals: str) -> None:
        self.refusals = list(refusals)
        self.registered: list[type[DataSource]] = []

    def register(self, source: type[DataSource]) -> None:
        if self.refusals:
            raise RefusedError(self.refusals.pop(0))
        self.registered.append(source)


def session_with(registration: Registration) -> Any:
    return SimpleNamespace(dataSource=registration)


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_failed_look_up_is_tried_again(failures: int) -> None:
    registration = Registration(*[TAKEN] * failures)
    register_data_source(session_with(registration), ScanDataSource)
    assert registration.registered == [ScanDataSource]


@pytest.mark.parametrize(
    "refusals", [[TAKEN] * 3, ["UNSUPPORTED_FEATURE"]], ids=["lasts", "another"]
)
def test_a_refusal_that_lasts_is_raised(refusals: list[str]) -> None:
    registration = Registration(*refusals)
    with pytest.raises(AnalysisException):
        register_data_source(session_with(registration), ScanDataSource)
    assert registration.registered == []
    assert registration.refusals == []
