"""SET keys that Spark acts upon reach its session, and leave it as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog.errors import OptionError
from penstock.catalog.options.option import resolve
from penstock.connector.spark.session import configured
from penstock.sql.convert.statement import parse_statement
from penstock.sql.execution.ddl import set_option
from penstock.sql.script.splitter import split
from penstock.sql.settings import (
    BUCKETS,
    CARRIED,
    SETTINGS,
    SUBSTITUTION,
    TIME_ZONE,
    ExponentialDelay,
    Failures,
    FixedDelay,
    NoRestart,
    after_failure,
    check_settings,
    counted_failures,
    engine_conf,
    restart_limit,
    restart_strategy,
    split_limit,
)
from penstock.sql.statements.statement import ResetOption, SetOption
from tests.sql.sql_objects import new_namespace

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


def test_buckets_of_keyed_state() -> None:
    assert conf_of(penstock__keyed__buckets="64") == {BUCKETS: "64"}
    assert conf_of(penstock__keyed__buckets="0") == {BUCKETS: "0"}


@pytest.mark.parametrize("count", ["-1", "4097", "many"])
def test_impossible_buckets_are_refused(count: str) -> None:
    with pytest.raises(OptionError, match="whole number from 0 to 4096"):
        conf_of(penstock__keyed__buckets=count)


def test_spark_is_left_as_it_was_found(spark: SparkSession) -> None:
    before = {key: spark.conf.get(key, None) for key in CARRIED}
    with configured(spark, {TIME_ZONE: "Asia/Tokyo", PARTITIONS: "5"}):
        assert spark.conf.get(TIME_ZONE) == "Asia/Tokyo"
        assert spark.conf.get(PARTITIONS) == "5"
    assert {key: spark.conf.get(key, None) for key in CARRIED} == before


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


# --- the restart strategies: when a failed query starts again ---


def delays(strategy, ran_ms=0, failures=20):
    """The delays of a job that fails again and again after `ran_ms`."""
    state, found = Failures(), []
    for _ in range(failures):
        decision = after_failure(strategy, state, ran_ms=ran_ms)
        if decision is None:
            return found
        state = decision
        found.append(decision.delay_ms)
    return found


def test_the_delay_doubles_up_to_its_maximum_and_ends_after_ten():
    """Ten failures in a row are ridden out over five minutes, the eleventh is final."""
    seconds = [delay // 1000 for delay in delays(ExponentialDelay())]

    assert seconds == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_failures_count_until_a_run_was_long():
    """By the exponential delay; the other one counts those of all its life."""
    twice = Failures(count=2, delay_ms=2_000)
    growing, fixed = ExponentialDelay(attempts=3, reset_after_ms=1_000), FixedDelay(attempts=4)

    assert counted_failures(growing, twice, ran_ms=999) == twice
    assert counted_failures(growing, twice, ran_ms=1_000) == Failures()
    assert counted_failures(fixed, twice, ran_ms=1_000_000) == twice
    assert [restart_limit(each) for each in (growing, fixed, NoRestart())] == [3, 4, 0]


def test_a_long_run_without_failure_makes_the_delay_new():
    """A job that runs well for the threshold and then fails starts counting at one."""
    strategy = ExponentialDelay(attempts=2, reset_after_ms=1_000)

    assert delays(strategy, ran_ms=999) == [1_000, 2_000]
    assert delays(strategy, ran_ms=1_000, failures=4) == [1_000] * 4


def test_fixed_delay_counts_over_the_life_of_the_job():
    """Flink's fixed-delay never forgets a failure."""
    strategy = FixedDelay(attempts=3, delay_ms=500)

    assert delays(strategy, ran_ms=10**9) == [500, 500, 500]


def test_without_a_strategy_the_first_failure_is_final():
    """`none` gives up at once."""
    assert delays(NoRestart()) == []


# --- the SET keys of restarts, and which keys a file may set ---


def test_without_a_setting_restarts_grow_apart():
    """The default is ours: ten restarts in some five minutes."""
    assert restart_strategy({}) == ExponentialDelay()


@pytest.mark.parametrize(
    ("settings", "strategy"),
    [
        ({"restart-strategy.type": "none"}, NoRestart()),
        ({"restart-strategy": "off"}, NoRestart()),
        (
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "3",
                "restart-strategy.fixed-delay.delay": "10 s",
            },
            FixedDelay(attempts=3, delay_ms=10_000),
        ),
        (
            {
                "restart-strategy.exponential-delay.initial-backoff": "500 ms",
                "restart-strategy.exponential-delay.max-backoff": "2 min",
                "restart-strategy.exponential-delay.backoff-multiplier": "1.5",
                "restart-strategy.exponential-delay.attempts-before-reset-backoff": "4",
                "restart-strategy.exponential-delay.reset-backoff-threshold": "1 h",
            },
            ExponentialDelay(
                initial_ms=500, max_ms=120_000, multiplier=1.5, attempts=4, reset_after_ms=3_600_000
            ),
        ),
    ],
)
def test_flinks_keys_choose_the_strategy(settings, strategy):
    """Keys and values are spelled as in Flink's configuration."""
    check_settings(settings)

    assert restart_strategy(settings) == strategy


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("restart-strategy.type", "sometimes", "is not one of"),
        ("restart-strategy.exponential-delay.max-backoff", "soon", "is not a duration"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "0.5", "is not a number"),
        ("execution.checkpointing.interval", "x", "is not a duration"),
        ("zebra", "1", "unknown key 'zebra'"),
    ],
)
def test_wrong_keys_and_values_are_refused(key, value, message):
    """A key nobody knows is an error, as is a value that cannot be read."""
    with pytest.raises(OptionError, match=message):
        check_settings({key: value})


def test_a_slip_of_the_pen_is_refused_even_in_flinks_families():
    """`pipline.name` would otherwise be ignored in silence."""
    with pytest.raises(OptionError) as raised:
        check_settings({"pipelin.name": "x"})

    assert "did you mean 'pipeline.name'?" in raised.value.hint


def test_flinks_other_keys_are_kept_without_effect():
    """A file written for Flink runs, as far as its keys look like none of ours."""
    check_settings({"table.exec.mini-batch.enabled": "true", "pipeline.name": "x"})

    with pytest.raises(OptionError, match="unknown key"):
        check_settings({"mini-batch.enabled": "true"})


def test_the_target_of_a_run_is_given_by_the_project_alone() -> None:
    """SET does not change whose checkpoints are gone on from; RESET leaves it, and nothing else."""
    settings = {"penstock.target": "prod", "pipeline.name": "p"}
    reset, named, chosen = (
        parse_statement(text, new_namespace())
        for text in split("RESET; RESET 'penstock.target'; SET 'penstock.target' = '';", "a.sql")
    )

    for statement in (named, chosen):
        assert isinstance(statement, SetOption | ResetOption)
        with pytest.raises(OptionError, match=r"given by penstock\.toml"):
            set_option(statement, settings)
    assert isinstance(reset, ResetOption)
    set_option(reset, settings)
    assert settings == {"penstock.target": "prod"}


@pytest.mark.parametrize(
    ("value", "splits"), [(None, 100), ("auto", 100), ("TRUE", 10_000), ("false", 0)]
)
def test_series_of_splits_are_bounded(value: str | None, splits: int) -> None:
    """Also where they are asked for: a table may have any number of splits."""
    settings = {} if value is None else {"metrics.per-split": value}

    assert split_limit(settings | {"pipeline.name": "p"}) == splits


def test_a_choice_of_series_that_is_none_is_refused() -> None:
    """By SET, before anything starts."""
    with pytest.raises(OptionError, match="per-split"):
        check_settings({"metrics.per-split": "always"})
