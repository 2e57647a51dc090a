"""What the progress display says of a job."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from penstock.connector.source.state import MAX_WATERMARK_MS, SourceState, SplitState
from penstock.connector.spark.source.retry import Outage
from penstock.sql.cli.output.progress import (
    JobBoard,
    ProgressLog,
    json_line,
    log_line,
    progress_table,
    summary_lines,
)
from penstock.sql.jobs.batch_counters import JobBatches
from penstock.sql.jobs.observation import ObservedJob
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.observation.batch_metrics import LateSplit, SourceMetrics, TimelessSplit
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.runner.summary import StatementResult
from tests.sql.metrics.metered import read_batch

NOW = 1_767_225_720_000  # 2026-01-01 00:02:00


def progress(*, batches_here=None, **changes):
    """A job in the middle of its work."""
    values = {
        "name": "quickstart/revenue",
        "sink": "revenue",
        "status": JobStatus.RUNNING,
        "activity": "Processing new data",
        "started_ms": NOW - 60_000,
        "seconds": 60.0,
        "batches": 13,
        "batch_id": 12,
        "rows_in": 1_200_000,
        "rows_out": 3_456,
        "rows_per_second": 45_210.4,
        "watermark_ms": NOW - 65_000,
        "lag_records": 340_000,
        "last_commit_ms": NOW - 2_000,
    }
    return ObservedJob(progress=JobProgress(**(values | changes)), batches=batches_here)


def reading(*splits, watermark_ms=None):
    """A last batch that read a table of these splits to its end."""
    state = SourceState(splits=splits, watermark_ms=watermark_ms, clock_ms=NOW)
    source = SourceMetrics(state=state, ends={each.split_id: each.end for each in splits})
    last = read_batch(12, source, watermark_ms=watermark_ms)
    return JobBatches(sources=("payments",), last=last, recent=(last,))


def split(name, **values):
    """A split that is read to position 4."""
    return SplitState(**({"split_id": name, "owner": name, "start": 0, "end": 4} | values))


def drawn(*jobs, width=140):
    """The live display as text."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(progress_table(list(jobs), NOW))
    return console.file.getvalue()


def test_a_line_has_every_figure_that_matters():
    """Batch, speed, output, watermark with its lag, records behind, rows dropped, bad records, last commit."""
    header, line = drawn(progress(rows_dropped=7, bad_records=4)).splitlines()

    assert header.split("  ")[0] == "query"
    for column in (
        "batch",
        "rows/s in",
        "rows out",
        "watermark",
        "lag",
        "behind",
        "dropped",
        "bad",
    ):
        assert column in header
    figures = "revenue 12 45,210 3,456 2026-01-01 00:00:55 1 min 5 s 340,000 7 4 2 s ago"
    assert " ".join(line.split()) == figures


@pytest.mark.parametrize("field", ["sink", "activity"])
def test_a_text_does_nothing_to_the_terminal(field):
    """The table's name and an error are others'."""
    odd = "a\x1b]0;owned\x07b\x1b[2Jc\x1b[8md\x9b2Ke"
    console = Console(file=io.StringIO(), width=300, force_terminal=True)
    silent = {"batches": 0, "batch_id": None, "status": JobStatus.RESTARTING}
    console.print(progress_table([progress(**({field: odd} | silent))], NOW))
    drawn = console.file.getvalue()

    assert not re.search(r"\x1b(?!\[[0-9;]*m)|[\x07\x9b]", drawn)
    assert "\x1b[8m" not in drawn


def test_a_broker_that_is_away_is_named_with_since_when():
    """In the place of figures of a time that is over: it is unknown how far behind the query is."""
    outage = Outage(
        what="Kafka at 127.0.0.1:29092", since_ms=NOW - 80_000, reason="Connection refused"
    )
    waiting = progress(outage=outage, lag_records=None)
    said = "waiting for Kafka at 127.0.0.1:29092 since 1 min 20 s (Connection refused)"

    assert log_line(waiting, NOW) == f"revenue: {said}"
    assert said in drawn(waiting, width=220)
    assert "behind" not in log_line(waiting, NOW)


def test_the_sentence_says_what_holds_the_watermark():
    """At the end of a line of the log, and in the live display: for how long it is silent, and what to do."""
    silent = split("pay-1", watermark_ms=None, quiet_since_ms=NOW - 1_200_000)
    waits = progress(watermark_ms=None, batches_here=reading(silent))
    said = (
        "waits: split pay-1 had no record with a time, and the watermark waits for it; caught up, "
        "silent for 20 min; set scan.watermark.idle-timeout"
    )

    assert log_line(waits, NOW).endswith(f"last commit 2 s ago; {said}")
    assert said in drawn(waits, width=300)


def test_what_goes_on_as_it_should_has_no_sentence():
    """Its figures say all."""
    fine = progress(batches_here=reading(split("pay-1", watermark_ms=NOW), watermark_ms=NOW))

    assert log_line(fine, NOW).endswith("last commit 2 s ago")


def test_a_document_has_the_figures_and_the_sentence():
    """One to a line, as the JSON API has it; the last one says how the job ended."""
    lines = []
    silent = split("pay-1", watermark_ms=None, quiet_since_ms=NOW - 1_200_000)
    log = ProgressLog(lines.append, line=json_line, ends=frozenset(JobStatus))
    log.write([progress(watermark_ms=None, batches_here=reading(silent))], NOW, NOW)
    log.write([progress(status=JobStatus.FINISHED, activity="finished")], NOW + 1_000, NOW + 1_000)
    first, last = map(json.loads, lines)

    assert first["time"] == "2026-01-01T00:02:00.000Z"
    assert (first["name"], first["rows_in"], first["lag_records"]) == (
        "quickstart/revenue",
        1_200_000,
        340_000,
    )
    assert first["sentence"].startswith("waits: split pay-1 had no record with a time")
    assert (last["status"], last["sentence"]) == ("finished", "finished after batch 12, 3 s ago")


def test_a_query_that_fails_while_others_go_on_is_told_at_once_and_once():
    """The summary comes when all have ended, which may be never; one that is done waits for it."""
    lines = []
    log = ProgressLog(lines.append)
    failed = progress(status=JobStatus.FAILED, name="a", sink="a", last_error="no such topic")
    done = progress(status=JobStatus.FINISHED, name="b", sink="b")
    for minute in range(3):
        log.write([failed, done, progress()], NOW + minute * 60_000, NOW + minute * 60_000)

    assert [line.split()[2] for line in lines] == ["a:", "revenue:", "revenue:", "revenue:"]
    assert "failed: no such topic" in lines[0]


def test_a_batch_that_begins_to_take_long_is_a_change():
    """Though nothing but time has passed since the line before."""
    lines = []
    fine = reading(split("pay-1", watermark_ms=NOW), watermark_ms=NOW)
    job = progress(batches_here=replace(fine, running_since_ms=NOW))
    log = ProgressLog(lines.append)
    for seconds in (1, 5, 11, 20):
        log.write([job], NOW + seconds * 1000, NOW + seconds * 1000)

    assert len(lines) == 2
    assert lines[1].endswith("batch 13 runs for 11 s (median 500 ms)")


def test_late_rows_of_a_partition_that_was_found_late_are_told_with_the_reason():
    """Else nobody knows why they were dropped."""
    late = LateSplit(split_id="events-3", rows=21_844, found_ms=NOW)

    assert (
        "21,844 rows of events-3 were late: found at 2026-01-01 00:02:00Z, after its first rows"
        in log_line(progress(late_splits=(late,)), NOW)
    )


def test_each_query_has_one_line_at_any_width():
    """Narrow terminals cut, they do not wrap."""
    assert len(drawn(progress(), progress(sink="orders"), width=80).splitlines()) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"batches": 0, "batch_id": None, "last_commit_ms": None, "activity": "starting"},
            "starting",
        ),
        (
            {
                "batches": 0,
                "batch_id": None,
                "last_commit_ms": None,
                "started_ms": NOW - 12_000,
            },
            "first batch running for 12 s",
        ),
        ({"last_commit_ms": NOW - 75_000}, "batch 13 running for 1 min 15 s"),
        (
            {"status": JobStatus.RESTARTING, "activity": "restarting in 8 s: [/x] is gone"},
            "restarting in 8 s: [/x] is gone",
        ),
        ({"activity": "stopping after the batch in flight"}, "stopping after the batch in flight"),
        (
            {
                "batches": 0,
                "last_commit_ms": None,
                "lag_records": 0,
                "activity": "Waiting",
                "batches_here": replace(reading(), recent=()),
            },
            "caught up",
        ),
    ],
)
def test_what_is_out_of_the_ordinary_is_said_in_words(changes, words):
    """A start, a long batch, a restart and a stop, live as in a log."""
    job = progress(**changes)

    assert words in drawn(job, width=200)
    if not job.progress.batches or job.progress.status is JobStatus.RESTARTING:
        assert log_line(job, NOW) == f"revenue: {words}"


@pytest.mark.parametrize("activity", ["Waiting for next trigger", "Getting offsets from topic"])
def test_a_query_that_waits_says_so_whatever_spark_does_meanwhile(activity):
    """It looks for data many times a second; a batch that runs is told from that, however long ago the last one was."""
    read = reading()
    waits = {"lag_records": 0, "activity": activity, "last_commit_ms": NOW - 3_600_000}
    runs = replace(read, running_since_ms=NOW - 1_000)

    assert "waiting for data" in drawn(progress(batches_here=read, **waits), width=200)
    text = drawn(progress(batches_here=runs, **waits | {"activity": "Processing new data"}))
    assert "running for" not in text
    assert "waiting for data" not in text


def test_a_log_line_says_the_same_in_a_sentence():
    """For files and build logs."""
    assert log_line(progress(bad_records=2), NOW) == (
        "revenue: batch 12, 45,210 rows/s in, 1,200,000 in, 3,456 out, watermark 2026-01-01 00:00:55, "
        "lag 1 min 5 s, 340,000 behind, 0 dropped, last commit 2 s ago, 2 bad records"
    )
    assert log_line(progress(records_lost=1200), NOW).endswith(
        ", last commit 2 s ago, 1,200 records lost (deleted before they were read)"
    )


def test_the_end_of_a_bounded_table_has_no_lag():
    """Its watermark is the end of time."""
    line = log_line(progress(watermark_ms=MAX_WATERMARK_MS, last_commit_ms=NOW), NOW)

    assert "watermark end, 340,000 behind" in line
    assert line.endswith("last commit now")


def test_the_board_shows_only_what_runs():
    """An ended job leaves the display; its summary comes later."""

    class Ended:
        observed = progress(status=JobStatus.FINISHED)

    class Running:
        observed = progress()

    board = JobBoard()
    board.add(Ended())
    board.add(Running())

    assert board.running() == [Running.observed]


def test_log_lines_begin_with_the_time():
    """In UTC, as watermarks are."""
    lines = []
    ProgressLog(lines.append).write([progress()], NOW, 0)

    assert lines == [f"2026-01-01 00:02:00Z {log_line(progress(), NOW)}"]


def test_a_query_of_which_nothing_changed_has_a_log_line_a_minute():
    """Time that passes is no change, a batch is; each query has its own minute."""
    lines = []
    log = ProgressLog(lines.append)
    still, other = progress(rows_per_second=9.0), progress(name="quickstart/b", sink="b")
    log.write([still], NOW, NOW)
    for seconds in range(5, 60, 5):
        log.write(
            [progress(rows_per_second=8.0), other], NOW + seconds * 1000, NOW + seconds * 1000
        )
    assert [line.split()[2] for line in lines] == ["revenue:", "b:"]

    log.write([still, other], NOW + 60_000, NOW + 60_000)
    log.write([progress(batch_id=13, batches=14), other], NOW + 61_000, NOW + 61_000)
    assert [line.split()[2] for line in lines] == ["revenue:", "b:", "revenue:", "revenue:"]


def test_a_clock_that_is_set_back_silences_no_log():
    """Lines show the time of the wall, and are a minute apart by one that nobody sets."""
    lines = []
    log = ProgressLog(lines.append)
    log.write([progress()], NOW, 1_000)
    log.write([progress()], NOW - 3_600_000, 61_000)

    assert [line.split()[1] for line in lines] == ["00:02:00Z", "23:02:00Z"]


# --- the closing summary names what held a watermark back and what came late ---


ENDED = StatementResult(
    kind="INSERT",
    subject="per_10s",
    rows_in=3000,
    rows_out=0,
    rows_dropped=7,
    batches=1,
    seconds=2.0,
)


def test_a_select_says_what_it_left_out() -> None:
    """Where it left out nothing, it says nothing."""
    select = StatementResult(kind="SELECT", rows_dropped=0, bad_records=0, seconds=2.0)
    lossy = replace(select, rows_dropped=1200, bad_records=3)
    gone = replace(select, records_lost=4)
    none, some, lost = summary_lines([select, lossy, gone])

    assert none.split("  ")[-1] == "2 s"
    assert some.endswith("1,200 dropped as late, 3 bad records left out, 2 s")
    assert lost.endswith("4 records lost (deleted before they were read), 2 s")


def test_a_run_says_what_its_tables_lost() -> None:
    (line,) = summary_lines([replace(ENDED, records_lost=1200)])

    assert "1,200 records lost (deleted before they were read)" in line


def test_a_run_without_a_watermark_says_which_split_has_no_event_time() -> None:
    """Windows stay open for it, and nothing else says why no row came out."""
    timeless = (TimelessSplit(split_id="orders-0", silent_since_ms=None),)
    (line,) = summary_lines([replace(ENDED, timeless=timeless)])

    assert "7 dropped as late, no watermark: orders-0 has no event time yet, 1 batch" in line


def test_late_rows_of_a_partition_that_was_found_late_are_summed_up_with_the_reason() -> None:
    """Beside the count of all late rows."""
    late = (LateSplit(split_id="orders-3", rows=7, found_ms=1_767_225_720_000),)
    (line,) = summary_lines([replace(ENDED, late_splits=late, watermark_ms=0)])

    wanted = "7 rows of orders-3 were late: found at 2026-01-01 00:02:00Z, after its first rows"
    assert f"watermark 1970-01-01 00:00:00, {wanted}" in line
