"""The pipelines of a project on the screen and in a log."""

from __future__ import annotations

import io

from rich.console import Console

from penstock.sql.cli.output.overview import OverviewLog, overview_line, overview_table

RUNNING = {
    "name": "shop/totals",
    "status": "running",
    "rows_per_second": 1_234.0,
    "lag_records": 5_678,
    "restarts": 1,
    "sentence": "split [orders-3] holds the watermark",
}
FAILED = {"name": "shop/b", "status": "failed", "restarts": 0, "sentence": "failed: no such topic"}


def test_a_table_has_a_line_for_each() -> None:
    """What is not known is a dash; brackets are no markup."""
    screen = io.StringIO()
    Console(file=screen, width=120).print(overview_table([RUNNING, FAILED]))
    head, first, second = screen.getvalue().splitlines()

    assert head.split() == ["pipeline", "state", "rows/s", "behind", "restarts"]
    assert first.split()[:5] == ["shop/totals", "running", "1,234", "5,678", "1"]
    assert "split [orders-3] holds the watermark" in first
    assert second.split()[:5] == ["shop/b", "failed", "-", "-", "0"]


def test_a_line_says_the_same() -> None:
    """For a log."""
    assert overview_line(RUNNING) == (
        "shop/totals: running, 1,234 rows/s, 5,678 behind, 1 restart: "
        "split [orders-3] holds the watermark"
    )
    assert overview_line(FAILED) == "shop/b: failed: failed: no such topic"


def test_a_log_has_what_changed_and_the_rest_once_in_a_while() -> None:
    """The time alone is no change."""
    written: list[str] = []
    log = OverviewLog(
        written.extend, lambda each, now_ms: f"{now_ms} {overview_line(each)}", unchanged_ms=60_000
    )
    log.write([FAILED], 1_000)
    log.write([FAILED], 6_000)
    log.write([FAILED | {"restarts": 2}], 11_000)
    log.write([FAILED | {"restarts": 2}], 71_000)

    assert [line.split()[0] for line in written] == ["1000", "11000", "71000"]
