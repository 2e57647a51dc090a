"""The SET keys of restarts, and which keys a file may set."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import OptionError
from penstock.sql.convert.statement import parse_statement
from penstock.sql.execution.ddl import set_option
from penstock.sql.script.splitter import split
from penstock.sql.settings import (
    ExponentialDelay,
    FixedDelay,
    NoRestart,
    check_settings,
    restart_strategy,
)
from penstock.sql.statements.statement import ResetOption, SetOption
from tests.sql.sql_objects import new_namespace


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
