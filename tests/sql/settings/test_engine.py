"""SET keys that Spark acts upon reach its session, and leave it as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import OptionError
from penstock.catalog.options.option import resolve
from penstock.connector.spark.session import configured
from penstock.sql.settings import CARRIED, SETTINGS, SUBSTITUTION, TIME_ZONE, engine_conf

PARTITIONS = "spark.sql.shuffle.partitions"


def conf_of(**settings: str) -> dict[str, str]:
    """What a session with these settings asks of Spark, but for what every session asks."""
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    conf = dict(engine_conf(resolve(keys, SETTINGS, owner="SET")))
    assert conf.pop(SUBSTITUTION) == "false"
    return conf


def test_only_what_is_set_is_carried() -> None:
    assert conf_of() == {}
    assert conf_of(table__local_time_zone="Europe/Berlin", parallelism__default="7") == {
        TIME_ZONE: "Europe/Berlin",
        PARTITIONS: "7",
    }


@pytest.mark.parametrize("zone", ["UTC", "Z", "+02:00", "GMT-08:00", "UTC+2", "Asia/Kolkata"])
def test_time_zones(zone: str) -> None:
    assert conf_of(table__local_time_zone=zone) == {TIME_ZONE: zone}


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../x", "+25:00", "Europe"])
def test_unknown_time_zones_are_refused(zone: str) -> None:
    with pytest.raises(OptionError, match="is not a time zone such as"):
        conf_of(table__local_time_zone=zone)


@pytest.mark.parametrize("count", ["0", "-1", "many", "100000"])
def test_impossible_parallelism_is_refused(count: str) -> None:
    with pytest.raises(OptionError, match="whole number above 0"):
        conf_of(parallelism__default=count)


def test_spark_is_left_as_it_was_found(spark: SparkSession) -> None:
    before = {key: spark.conf.get(key) for key in CARRIED}
    with configured(spark, {TIME_ZONE: "Asia/Tokyo", PARTITIONS: "5"}):
        assert spark.conf.get(TIME_ZONE) == "Asia/Tokyo"
        assert spark.conf.get(PARTITIONS) == "5"
    assert {key: spark.conf.get(key) for key in CARRIED} == before


def test_a_session_reads_instants_in_its_time_zone(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAST to and from local time, and DATE_FORMAT, follow SET; RESET brings Spark's own zone back."""
    monkeypatch.chdir(project)
    query = "SELECT CAST(TO_TIMESTAMP_LTZ(0, 3) AS STRING) AS a, HOUR(TO_TIMESTAMP_LTZ(0, 3)) AS b"
    with penstock.connect(spark) as session:
        session.sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
        frame = session.sql(query)
        assert tuple(frame.first()) == ("1970-01-01 09:00:00.000", 9)
        session.sql("RESET 'table.local-time-zone'")
        assert tuple(session.sql(query).first()) == ("1970-01-01 00:00:00.000", 0)
        session.sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    assert spark.conf.get(TIME_ZONE) == "UTC"
