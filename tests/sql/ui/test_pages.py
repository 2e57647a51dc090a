"""How values are written for people: sizes, ages, counts of states, and what charts say beside their bars."""

from __future__ import annotations

import pytest

from penstock.sql.ui.charts import batch_chart, watermark_chart
from penstock.sql.ui.pages import age, pipeline_page, pipelines_page, size, status_counts

NOW_MS = 1_767_268_800_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (21_774, "21.8 kB"),
        (12_345_678, "12.3 MB"),
        (5_000_000_000_000, "5,000.0 GB"),
    ],
)
def test_bytes_have_a_unit(value: int | None, text: str) -> None:
    """The largest of which there is one."""
    assert size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2026-01-01T11:59:48.400Z", "11 s ago"),
        ("2026-01-01T09:57:00.000Z", "2 h 3 min ago"),
        ("2026-01-01T12:00:00.900Z", "0 s ago"),  # a clock that is ahead
    ],
)
def test_an_age_has_its_time_with_it(value: str, text: str) -> None:
    """For the page's script, and for whoever points at it; with the zone."""
    written = str(age(value, NOW_MS))
    assert f">{text}</time>" in written
    assert f'datetime="{value}"' in written
    assert f'title="{value[:10]} {value[11:19]}Z"' in written
    assert str(age(None, NOW_MS)) == "-"


def test_pipelines_are_counted_by_state_those_that_need_a_look_first() -> None:
    """So that one that has failed among thirty is seen."""
    documents = [{"name": f"p{n}", "status": "running"} for n in range(28)]
    documents += [{"name": "broken", "status": "failed"}, {"name": "alone"}]
    counts = status_counts(documents)

    assert counts == [("failed", 1), ("running", 28), ("not known", 1)]
    page = pipelines_page(documents)
    assert page.index("1 failed") < page.index("28 running") < page.index("1 not known")


def test_a_failure_is_said_once() -> None:
    """It is the status, the reason and the sentence."""
    failed = {"name": "p", "status": "failed", "reason": "no topic", "sentence": "failed: no topic"}

    for page in (pipelines_page([failed]), pipeline_page(failed)):
        assert page.count("no topic") == 1
        assert "failed: " not in page


def test_charts_say_what_their_ends_and_heights_are() -> None:
    """A bar without a unit says nothing."""
    splits = [
        {"id": "a-0", "watermark": "2026-01-01T10:00:00.000Z", "state": "paused", "holds": False},
        {"id": "a-1", "watermark": "2026-01-01T09:00:00.000Z", "holds": True},
    ]
    splits = [{"position": 1} | each for each in splits]
    table = {"name": "a", "splits": splits, "limit": "2026-01-01T10:30:00.000Z"}
    batches = [
        {"id": number, "duration_ms": 900, "phases_ms": {"add_batch": 700 + number}}
        for number in (7, 8)
    ]
    watermarks, phases = watermark_chart(table), batch_chart(batches)
    assert watermarks is not None
    assert phases is not None

    assert (watermarks.first, watermarks.last) == (
        "2026-01-01T09:00:00.000Z",
        "2026-01-01T10:30:00.000Z",
    )
    assert watermarks.kinds == ("holds", "paused")
    assert {bar.kind for bar in phases.bars} == {"add_batch", "other"}
    assert [bar.height for bar in phases.bars if bar.kind == "other"] == [34.3, 34.1]
    assert (phases.first, phases.last, phases.longest_ms) == ("7", "8", 900)
    page = pipeline_page({"name": "p", "tables": [table], "batches_recent": batches})
    assert "<span>2026-01-01 10:30:00Z</span>" in page
    assert "batch 7 to 8; the longest took 900 ms" in page
