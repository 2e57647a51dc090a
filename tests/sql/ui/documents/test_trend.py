"""The course of speed and lag, and its small drawing in the list of pipelines."""

from __future__ import annotations

import pytest

from penstock.sql.observation.pipeline import LagSample
from penstock.sql.ui.charts import SPARK_HEIGHT, SPARK_WIDTH, sparkline
from penstock.sql.ui.documents.trend import (
    LAG_TREND,
    MOST_STEPS,
    SPEED_TREND,
    STEP_MS,
    aged_trend,
    trend_fields,
)
from penstock.sql.ui.pages import pipelines_page

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
