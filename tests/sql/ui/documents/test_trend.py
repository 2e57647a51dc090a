"""The course of speed and lag, and its small drawing in the list of pipelines."""

from __future__ import annotations

import pytest

from penstock.sql.jobs.batch_history import BatchHistory
from penstock.sql.observation.pipeline import STEP_MS, LagSample
from penstock.sql.ui.charts import SPARK_HEIGHT, SPARK_WIDTH, sparkline
from penstock.sql.ui.documents.trend import (
    LAG_TREND,
    MOST_STEPS,
    SPEED_TREND,
    aged_trend,
    trend_fields,
)
from penstock.sql.ui.pages import pipelines_page
from tests.sql.metrics.metered import NOON_MS, read_batch

BEGAN_MS = 1_000 * STEP_MS


def sample(seconds: int, rows_in: int, lag_records: int) -> LagSample:
    """A sample so long after the first half minute began."""
    at_ms = BEGAN_MS + seconds * 1_000
    return LagSample(at_ms=at_ms, lag_records=lag_records, rows_in=rows_in)


SAMPLES = (sample(10, 300, 40), sample(20, 600, 50), sample(45, 900, 5))


def test_each_half_minute_has_its_speed_and_the_lag_at_its_end() -> None:
    """From the one with the first batch on; where no batch comes, nothing is read, and the lag stays."""
    assert trend_fields(SAMPLES, BEGAN_MS + 3 * STEP_MS + 1) == {
        SPEED_TREND: [20.0, 10.0, 0.0],
        LAG_TREND: [50, 5, 5],
    }


def test_a_half_minute_counts_once_it_is_over() -> None:
    """An open page is told of each change."""
    assert trend_fields(SAMPLES, BEGAN_MS + STEP_MS - 1) == {}
    assert trend_fields((), BEGAN_MS) == {}
    assert trend_fields(SAMPLES, 0) == {}  # a clock that was set back


def test_a_quarter_of_an_hour_is_kept() -> None:
    """However long the pipeline runs: what was read before is no peak."""
    found = trend_fields(SAMPLES, BEGAN_MS + 99 * STEP_MS)

    assert found == {SPEED_TREND: [0.0] * MOST_STEPS, LAG_TREND: [5] * MOST_STEPS}


def after_hour(every_ms: int) -> BatchHistory:
    """The history of an hour of batches that are so far apart, each of 30 rows."""
    history = BatchHistory()
    for at_ms in range(NOON_MS, NOON_MS + 3_600_001, every_ms):
        history = history.add(read_batch(at_ms, committed_at_ms=at_ms))
    return history


@pytest.mark.parametrize("every_ms", [50, 1_000, 2_500, 7_000, 40_000, 600_000])
def test_an_hour_of_batches_has_no_peak_that_was_none(every_ms: int) -> None:
    """Samples of the first three quarters are gone, and so are the rows read with them."""
    history = after_hour(every_ms)
    found = trend_fields(history.lags, NOON_MS + 3_600_000)
    # a half minute has one batch more than others where they do not divide it
    most = -(-STEP_MS // every_ms) * 30 * 1_000 / STEP_MS

    assert len(found[SPEED_TREND]) == len(found[LAG_TREND]) == MOST_STEPS
    assert max(found[SPEED_TREND]) == most
    if STEP_MS % every_ms == 0:
        assert set(found[SPEED_TREND]) == {most}
    assert len(history.lags) <= 400


def test_a_half_minute_that_is_over_keeps_its_speed() -> None:
    """Whatever comes after it: an open page is told of each change."""
    history, seen = BatchHistory(), dict[int, float]()
    for at_ms in range(NOON_MS, NOON_MS + 300_000, 700):
        history = history.add(read_batch(at_ms, committed_at_ms=at_ms))
        ends = range(NOON_MS + STEP_MS, at_ms + 1, STEP_MS)
        speeds = trend_fields(history.lags, at_ms).get(SPEED_TREND, ())
        for end_ms, speed in zip(ends, speeds, strict=True):
            assert seen.setdefault(end_ms, speed) == speed
    assert len(seen) == 9


def test_a_clock_that_was_set_back_makes_no_peak_and_no_hole() -> None:
    """Not before the next batch, nor with it, nor for as long as it had been ahead."""
    history, true = after_hour(1_000), 30.0
    newest_ms = history.lags[-1].at_ms

    early = trend_fields(history.lags, newest_ms - 300_000)
    assert max(early[SPEED_TREND]) <= 1.2 * true
    for at_ms in range(newest_ms - 1_800_000, newest_ms, 1_000):
        history = history.add(read_batch(at_ms, committed_at_ms=at_ms))
        found = trend_fields(history.lags, at_ms)
        assert len(found[SPEED_TREND]) == MOST_STEPS
        assert 0.8 * true <= min(found[SPEED_TREND])
        assert max(found[SPEED_TREND]) <= 1.2 * true
        assert len(history.lags) <= 400
    assert set(found[SPEED_TREND]) == {true}


@pytest.mark.parametrize(("age_ms", "added"), [(STEP_MS - 1, 0), (STEP_MS, 1), (70_000, 2)])
def test_a_report_that_is_old_goes_on_without_rows(age_ms: int, added: int) -> None:
    """A process reports at most once a minute while nothing comes."""
    reported = {SPEED_TREND: [3.0] * (MOST_STEPS - 1), LAG_TREND: [7] * (MOST_STEPS - 1)}
    found = reported | aged_trend(reported, age_ms)

    assert found[SPEED_TREND].count(0.0) == added
    assert set(found[LAG_TREND]) == {7}
    assert len(found[SPEED_TREND]) == len(found[LAG_TREND]) == min(29 + added, MOST_STEPS)
    assert aged_trend({"name": "p"}, age_ms) == {}


def test_a_line_is_drawn_from_zero_to_the_highest_value() -> None:
    """Its title says so in numbers; of one value there is none."""
    line = sparkline([0.0, 1_000.0, 500.0], "rows/s")
    assert line is not None

    assert line.points == (
        f"1.0,{SPARK_HEIGHT - 1}.0 {SPARK_WIDTH / 2},1.0 {SPARK_WIDTH - 1}.0,{SPARK_HEIGHT / 2}"
    )
    assert line.area == f"1.0,{SPARK_HEIGHT - 1} {line.points} {SPARK_WIDTH - 1},{SPARK_HEIGHT - 1}"
    assert line.title == "rows/s over the last 1.5 min: 0.0 to 1,000.0, now 500.0"
    assert sparkline([1.0], "rows/s") is None
    assert sparkline([0, 0], "lag") is not None


def test_the_list_draws_both_where_they_are_known() -> None:
    """One of another process has no course."""
    page = pipelines_page(
        [{"name": "a", "status": "running"} | trend_fields(SAMPLES, BEGAN_MS + 9 * STEP_MS)]
    )

    assert page.count('<svg class="spark"') == 2
    assert 'aria-label="lag over the last 4.5 min: 5 to 50, now 5"' in page
    assert "spark" not in pipelines_page([{"name": "a", "status": "running"}])
