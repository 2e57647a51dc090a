"""The pipelines of a project on the screen and in a log."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

from penstock.sql.cli.output.overview import OverviewLog, json_lines, overview_line, overview_table
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.processes.supervisor import ProcessView

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


@pytest.mark.parametrize("field", ["name", "sentence", "status"])
def test_a_text_does_nothing_to_the_terminal(field: str) -> None:
    """Names and messages are others': a title, a cleared screen, a hidden text, a line of its own."""
    odd = "a\x1b]0;owned\x07b\x1b[2Jc\x1b[8md\ne\x9b2Kf\u202eg"
    screen = io.StringIO()
    terminal = Console(file=screen, width=160, force_terminal=True)
    terminal.print(overview_table([RUNNING | {field: odd}], height=24))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
    assert "\x1b[8m" not in screen.getvalue()
    assert len(shown.splitlines()) == 2
    assert "a\\x1b]0;owned" in shown


def test_a_text_without_end_is_cut() -> None:
    """It is drawn four times a second."""
    screen = io.StringIO()
    long = RUNNING | {"sentence": "x" * 1_000_000}
    Console(file=screen, width=160, force_terminal=True).print(overview_table([long], height=24))

    assert len(screen.getvalue()) < 10_000


def test_many_pipelines_fit_the_screen_and_none_that_failed_is_left_out() -> None:
    """Those that are left out are counted by state; each has one line, however long its sentence."""
    many = [
        RUNNING | {"name": f"shop/p{number:02}", "sentence": "reads " * 40} for number in range(30)
    ]
    many[29] = FAILED
    many[3] = many[3] | {"status": "finished"}
    screen = io.StringIO()
    Console(file=screen, width=100).print(overview_table(many, height=24))
    lines = screen.getvalue().splitlines()

    assert len(lines) == 24
    assert [line.split()[0] for line in lines[1:4]] == ["shop/p00", "shop/p01", "shop/p02"]
    assert "shop/b" in lines[22]
    assert "shop/p03" not in screen.getvalue()
    assert lines[23].split() == ["8", "more", "7", "running,", "1", "finished"]
    assert all(line.rstrip().endswith("…") for line in lines[1:22])


def test_few_pipelines_have_their_whole_sentences() -> None:
    """Which are folded."""
    screen = io.StringIO()
    long = RUNNING | {"sentence": "reads " * 40 + "the end"}
    Console(file=screen, width=100).print(overview_table([long, FAILED], height=24))

    assert "the end" in " ".join(screen.getvalue().split())


def test_a_line_says_the_same() -> None:
    """For a log."""
    assert overview_line(RUNNING) == (
        "shop/totals: running, 1,234 rows/s, 5,678 behind, 1 restart: "
        "split [orders-3] holds the watermark"
    )
    assert overview_line(FAILED) == "shop/b: failed: no such topic"
    counted = RUNNING | {"restarts": 3, "restarts_counted": 2, "restart_limit": 10}
    assert ", 3 (2 of 10) restarts: " in overview_line(counted)


def test_a_log_has_what_changed_and_the_rest_once_in_a_while() -> None:
    """The time alone is no change."""
    written: list[str] = []
    log = OverviewLog(
        written.extend, lambda each, now_ms: f"{now_ms} {overview_line(each)}", unchanged_ms=60_000
    )
    log.write([FAILED], 1_000, 1_000)
    log.write([FAILED], 6_000, 6_000)
    log.write([FAILED | {"restarts": 2}], 11_000, 11_000)
    log.write([FAILED | {"restarts": 2}], 71_000, 71_000)

    assert [line.split()[0] for line in written] == ["1000", "11000", "71000"]


def test_a_log_of_many_pipelines_has_their_figures_less_often() -> None:
    """A second for each, so that 30 write no 30 lines every five seconds; another state is told at once."""
    written: list[str] = []
    log = OverviewLog(
        written.extend,
        lambda each, now_ms: f"{now_ms} {overview_line(each)}",
        unchanged_ms=60_000,
        figures_ms=1_000,
    )
    for second in range(0, 35, 5):
        many = [RUNNING | {"name": f"p{n}", "lag_records": second} for n in range(30)]
        many[7]["status"] = "failed" if second >= 10 else "running"
        log.write(many, second * 1_000, second * 1_000)

    times = [int(line.split()[0]) for line in written]
    assert [times.count(at) for at in (0, 5_000, 10_000, 15_000, 30_000)] == [30, 0, 1, 0, 29]


def test_a_clock_that_is_set_back_silences_no_log() -> None:
    """Lines show the time of the wall, and are a minute apart by one that nobody sets."""
    written: list[str] = []
    log = OverviewLog(
        written.extend, lambda each, now_ms: f"{now_ms} {overview_line(each)}", unchanged_ms=60_000
    )
    log.write([FAILED], 9_000_000, 1_000)
    log.write([FAILED], 1_000, 61_000)

    assert [line.split()[0] for line in written] == ["9000000", "1000"]


def test_a_line_of_json_has_no_trend() -> None:
    """It changes while nothing happens, and each change is a line."""
    found = ProcessView(
        name="a.sql",
        state=ProcessState.RUNNING,
        pipelines=("shop/totals",),
        documents={"shop/totals": RUNNING | {"lag_records_trend": [1, 2]}},
    )
    (line,) = json_lines([found])

    assert json.loads(line) == RUNNING
