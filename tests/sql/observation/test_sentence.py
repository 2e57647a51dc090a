"""The sentence of a pipeline: each rule, its bounds, and which of two comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.connector.source.state import MAX_WATERMARK_MS, SourceState, SplitState
from penstock.sql.observation.batch_metrics import BatchMetrics, OperatorMetrics, SourceMetrics
from penstock.sql.observation.pipeline import (
    JobStatus,
    LagSample,
    PipelineObservation,
    StateRows,
    state_rows,
)
from penstock.sql.observation.sentence import SentenceRule, sentence_of
from tests.sql.metrics.metered import NOON_MS, job, read_batch, source_of, split

MINUTE_MS = 60_000
NOW_MS = NOON_MS + MINUTE_MS


def table(*splits: SplitState, end: int = 100, watermark_ms: int | None = NOON_MS) -> SourceMetrics:
    """A table whose splits all end at `end`."""
    ends = {each.split_id: end for each in splits}
    return SourceMetrics(state=SourceState(splits=splits, watermark_ms=watermark_ms), ends=ends)


def seen(*sources: SourceMetrics, **more: object) -> PipelineObservation:
    """A pipeline that runs, and whose last batch gave rows."""
    names = ("orders", "customers", "rates")
    made = PipelineObservation(
        status=JobStatus.RUNNING,
        batch_id=7,
        last_commit_ms=NOON_MS,
        batches=(read_batch(7),),
        sources=tuple(zip(names, sources, strict=False)),
        ends_known=True,
        rows_read={0: 30, 1: 30, 2: 30},
    )
    return replace(made, **more)  # type: ignore[arg-type]


def said(observation: PipelineObservation, now_ms: int = NOW_MS) -> tuple[SentenceRule, str]:
    """The rule and the sentence."""
    sentence = sentence_of(observation, now_ms)
    return sentence.rule, str(sentence)


def silent(*counts: tuple[int, int], dropped: int = 0) -> tuple[BatchMetrics, ...]:
    """Batches that read rows, and gave none."""
    return tuple(
        read_batch(number, rows_out=0, rows_dropped=rows if dropped else 0, watermark_ms=NOON_MS)
        for number, rows in counts
    )


READ = split(0, 100, NOON_MS)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"status": JobStatus.FAILED, "error": "no such topic\nmore"}, "failed: no such topic"),
        ({"status": JobStatus.FAILED}, "failed"),
        (
            {"status": JobStatus.RESTARTING, "error": "gone", "restarts": 3},
            "restarts (restart 3) after: gone",
        ),
        ({"status": JobStatus.STOPPED}, "stopped after batch 7, 1 min ago"),
        ({"status": JobStatus.FINISHED, "last_commit_ms": None}, "finished after batch 7"),
        (
            {"outage": "the brokers nowhere:1 (refused)"},
            "waits for the brokers nowhere:1 (refused)",
        ),
        ({}, "caught up"),
        ({"batches": (), "batch_id": None}, "starts: no batch of this run is committed yet"),
        ({"batches": ()}, "caught up"),
        (
            {"batches": (), "running_since_ms": NOW_MS},
            "reads: batch 8 is the first one of this run",
        ),
        ({"ends_known": False}, "runs: batch 7 is the last one"),
    ],
)
def test_the_status_comes_first(change: dict[str, object], expected: str) -> None:
    """Whatever else holds; a pipeline that runs and hides nothing is caught up."""
    assert said(seen(table(READ), **change))[1] == expected


def test_a_failure_goes_before_what_the_splits_say() -> None:
    """A pipeline that failed does not wait for a split."""
    far = table(split(0, 100, NOON_MS - 86_400_000), READ)

    assert said(seen(far, status=JobStatus.FAILED))[0] is SentenceRule.FAILED


@pytest.mark.parametrize(("runs_ms", "is_long"), [(10_000, False), (10_001, True)])
def test_a_batch_is_long_by_the_ones_before(runs_ms: int, is_long: bool) -> None:
    """Ten times their median of half a second is no long time yet: ten seconds are."""
    rule, text = said(seen(table(READ), running_since_ms=NOW_MS - runs_ms))

    assert (rule is SentenceRule.LONG_BATCH) is is_long
    assert (text == "batch 8 runs for 10 s (median 500 ms)") is is_long


def test_records_that_were_lost_are_said_for_a_while() -> None:
    """With the table; what goes on now, such as a long batch, comes first."""
    lost = read_batch(7, lost_of={1: 1_200}, committed_at_ms=NOON_MS)
    observed = seen(table(READ), table(READ), batches=(lost, read_batch(8)))

    assert said(observed) == (
        SentenceRule.RECORDS_LOST,
        "lost 1,200 records of customers within 15 min: deleted before they were read; "
        "keep records longer than the pipeline is behind",
    )
    assert said(observed, NOON_MS + 15 * MINUTE_MS)[1] == "caught up"
    long = replace(observed, running_since_ms=NOW_MS - 20_000)
    assert said(long)[0] is SentenceRule.LONG_BATCH


def test_a_batch_of_slow_ones_is_not_long() -> None:
    """A minute is nothing where they all take half of one."""
    slow = (read_batch(7, duration_ms=30_000),)

    rule, _ = said(seen(table(READ), batches=slow, running_since_ms=NOW_MS - MINUTE_MS))
    assert rule is SentenceRule.READING


@pytest.mark.parametrize(("behind_ms", "holds"), [(600_000, False), (600_001, True)])
def test_a_split_that_is_far_behind_holds_the_watermark(behind_ms: int, holds: bool) -> None:
    """By more than ten minutes behind the next one."""
    late = split(1, 100, NOON_MS - behind_ms)

    assert (said(seen(table(READ, late)))[0] is SentenceRule.SPLIT_BEHIND) is holds


def test_a_silent_split_is_named_with_the_option_that_lets_others_go_on() -> None:
    """Caught up, and since when: an idle-timeout would help."""
    late = split(1, 100, NOON_MS - 4 * 3_600_000, quiet_since_ms=NOW_MS - 20 * MINUTE_MS - 30_000)

    assert said(seen(table(READ, late)))[1] == (
        "waits: split orders-1 holds the watermark at 2026-01-01 08:00:00Z, 4 h behind the next; "
        "caught up, silent for 20 min; set scan.watermark.idle-timeout"
    )


def test_a_split_with_records_left_is_only_slow() -> None:
    """No option helps: they have to be read."""
    late = split(1, 40, NOON_MS - 86_400_000)

    text = said(seen(table(READ, late)))[1]
    assert text.endswith("1 d behind the next; 60 of its records are not read yet")


def test_splits_that_fell_silent_at_about_the_same_time_hold_it_together() -> None:
    """The widest gap tells them from the others: between the two is one of five minutes."""
    silent_since = NOW_MS - 20 * MINUTE_MS
    going = [split(number, 100, NOON_MS - number * 1_000) for number in range(2, 8)]
    late = [
        split(0, 100, NOON_MS - 4 * 3_600_000, quiet_since_ms=silent_since - MINUTE_MS),
        split(1, 100, NOON_MS - 4 * 3_600_000 + 5 * MINUTE_MS, quiet_since_ms=silent_since),
    ]

    assert said(seen(table(*going, *late))) == (
        SentenceRule.SPLIT_BEHIND,
        "waits: splits orders-0, orders-1 hold the watermark at 2026-01-01 08:00:00Z, 3 h 54 min behind the next; "
        "caught up, silent for 20 min; set scan.watermark.idle-timeout",
    )


def test_of_many_splits_that_hold_it_three_are_named_and_their_records_counted() -> None:
    """Half of the eight have sixty records each."""
    going = [split(number, 100, NOON_MS) for number in range(4, 8)]
    late = [split(number, 40, NOON_MS - 86_400_000) for number in range(4)]

    text = said(seen(table(*going, *late)))[1]
    assert text.startswith(
        "waits: splits orders-0, orders-1, orders-2 and 1 more hold the watermark"
    )
    assert text.endswith("1 d behind the next; 240 of their records are not read yet")


@pytest.mark.parametrize(("quiet", "waits"), [(None, False), (NOW_MS - 20 * MINUTE_MS, True)])
def test_a_split_that_is_ahead_of_all_others_is_not_waited_for(
    quiet: int | None, waits: bool
) -> None:
    """A record of the future moves one ahead: the others hold the watermark only where they stand still."""
    others = [split(number, 100, NOON_MS, quiet_since_ms=quiet) for number in range(1, 4)]
    ahead = split(0, 100, NOON_MS + 86_400_000)
    observed = seen(table(ahead, *others), last_commit_ms=NOW_MS - 1_000)

    assert (said(observed)[0] is SentenceRule.SPLIT_BEHIND) is waits


WAITING = StateRows(rows=12, waiting=12, waits=True)


def at(watermark_ms: int, **more: object) -> SourceMetrics:
    """A table of one split with this watermark."""
    return table(split(0, 100, watermark_ms, **more), watermark_ms=watermark_ms)


@pytest.mark.parametrize(("behind_ms", "holds"), [(600_000, False), (600_001, True)])
def test_a_table_that_is_far_behind_holds_the_watermark(behind_ms: int, holds: bool) -> None:
    """By more than ten minutes behind the next one, where rows wait for it."""
    batches = silent((7, 30))
    observed = seen(at(NOON_MS), at(NOON_MS - behind_ms), state=WAITING, batches=batches)

    assert (said(observed)[0] is SentenceRule.TABLE_BEHIND) is holds
    assert said(replace(observed, state=StateRows()))[0] is SentenceRule.NO_OUTPUT
    unknown = replace(observed, state=StateRows(may_wait=True))
    assert (said(unknown)[0] is SentenceRule.TABLE_BEHIND) is holds


@pytest.mark.parametrize("state", [WAITING, StateRows(may_wait=True)])
def test_a_pipeline_that_gives_rows_waits_for_no_table(state: StateRows) -> None:
    """Two tables go on, and a third had one record of 73 years ahead; or one is behind, and rows come all the same."""
    ahead = seen(at(NOON_MS), at(NOON_MS - 1), at(NOON_MS + 73 * 365 * 86_400_000), state=state)
    behind = seen(at(NOON_MS), at(NOON_MS - 86_400_000), state=state)

    assert said(ahead) == said(behind) == (SentenceRule.READING, "caught up")


@pytest.mark.parametrize(("quiet", "waits"), [(None, False), (NOW_MS - 20 * MINUTE_MS, True)])
def test_a_table_that_is_ahead_of_all_others_is_not_waited_for(
    quiet: int | None, waits: bool
) -> None:
    """Before the first row of a window, and of two tables, too: the others hold it only where they stand still."""
    ahead = at(NOON_MS + 73 * 365 * 86_400_000)
    others = [at(NOON_MS - number, quiet_since_ms=quiet) for number in range(2)]
    for going in (others, others[:1]):
        observed = seen(
            *going,
            ahead,
            state=WAITING,
            batches=silent((7, 30)),
            last_commit_ms=NOW_MS - 1_000,
        )
        assert (said(observed)[0] is SentenceRule.TABLE_BEHIND) is waits


@pytest.mark.parametrize("idle", [False, True])
def test_a_table_that_stopped_having_records_is_named(idle: bool) -> None:
    """No option lets the other table go on, idle splits or not."""
    since = NOW_MS - 4 * 3_600_000
    stopped = at(NOON_MS - 4 * 3_600_000, quiet_since_ms=since, idle=idle)

    assert said(seen(at(NOON_MS), stopped, state=WAITING, batches=silent((7, 30)))) == (
        SentenceRule.TABLE_BEHIND,
        "waits: table customers holds the watermark at 2026-01-01 08:00:00Z, 4 h behind the next; "
        "caught up, silent for 4 h; only its records move it on",
    )


HELD = (
    "waits: tables rates, customers hold the watermark at 2026-01-01 09:59:00Z, 2 h behind the next"
)


def behind_together(
    customers: SourceMetrics, rates: SourceMetrics, **more: object
) -> PipelineObservation:
    """Two tables far behind a third, in a state where rows wait."""
    return seen(at(NOON_MS), customers, rates, state=WAITING, batches=silent((7, 30)), **more)


def test_tables_that_are_behind_together_are_named_together() -> None:
    """Without a checkpoint's ends for how long; one read to its end does not count."""
    quiet = [NOW_MS - minutes * MINUTE_MS for minutes in (20, 30)]
    two = [
        at(at_ms, quiet_since_ms=since)
        for at_ms, since in zip((NOON_MS - 7_200_000, NOON_MS - 7_260_000), quiet, strict=True)
    ]
    stored = seen(at(NOON_MS), *two, batches=(), ends_known=False)

    assert said(stored)[1] == f"{HELD}; silent for 20 min; only their records move it on"
    ended = seen(at(MAX_WATERMARK_MS), at(NOON_MS), state=WAITING)
    assert said(ended)[0] is not SentenceRule.TABLE_BEHIND


def test_what_is_said_of_several_tables_holds_for_all_of_them() -> None:
    """The records of both are counted, and it is the shorter silence: the first alone is caught up for an hour."""
    first = at(NOON_MS - 7_260_000, quiet_since_ms=NOW_MS - 60 * MINUTE_MS)
    slow = table(split(1, 40, NOON_MS - 7_200_000), watermark_ms=NOON_MS - 7_200_000)
    slower = table(split(0, 90, NOON_MS - 7_260_000), watermark_ms=NOON_MS - 7_260_000)
    quiet = at(NOON_MS - 7_200_000, quiet_since_ms=NOW_MS - 5 * MINUTE_MS)

    lag = said(behind_together(slow, first))[1]
    assert lag == f"{HELD}; 60 of their records are not read yet"
    assert said(behind_together(slow, slower))[1].startswith(f"{HELD}; 70 of their records")
    assert said(behind_together(quiet, first))[1] == (
        f"{HELD}; caught up, silent for 5 min; only their records move it on"
    )


def test_the_records_of_one_table_are_its_own() -> None:
    """However many splits it has."""
    at_ms = NOON_MS - 7_200_000
    behind = table(split(0, 90, at_ms), split(1, 90, at_ms), watermark_ms=at_ms)

    text = said(seen(at(NOON_MS), behind, state=WAITING, batches=silent((7, 30))))[1]
    assert text.endswith("2 h behind the next; 20 of its records are not read yet")


def test_a_split_goes_before_its_table_and_a_pause_before_both_tables() -> None:
    """The more particular reason is said."""
    late = split(1, 100, NOON_MS - 86_400_000)
    behind = table(READ, late, watermark_ms=NOON_MS - 86_400_000)
    paused = at(NOON_MS, paused="customers is behind")

    nothing: dict[str, object] = {"state": WAITING, "batches": silent((7, 30))}

    assert said(seen(at(NOON_MS), behind, **nothing))[0] is SentenceRule.SPLIT_BEHIND
    assert said(seen(paused, at(NOON_MS - 86_400_000), **nothing))[0] is SentenceRule.PAUSED


@pytest.mark.parametrize(
    "other", [{"idle": True}, {"stop": 100}, {"watermark_ms": MAX_WATERMARK_MS}]
)
def test_splits_that_hold_nothing_do_not_count(other: dict[str, object]) -> None:
    """Idle ones, and those that are read to their end."""
    late = split(1, 100, NOON_MS - 86_400_000)

    assert said(seen(table(READ, replace(late, **other))))[0] is SentenceRule.READING  # type: ignore[arg-type]


def test_a_checkpoint_tells_who_holds_the_watermark() -> None:
    """Without the ends: whether the split is silent, and nothing of records."""
    late = split(1, 40, NOON_MS - 86_400_000)
    stored = seen(table(READ, late), ends_known=False)

    assert said(stored)[1].endswith("1 d behind the next")


def test_a_split_without_a_record_is_waited_for() -> None:
    """Its watermark is none, and so is that of the table."""
    timeless = split(1, 0, None)
    rule, text = said(seen(table(READ, timeless, end=0, watermark_ms=None)))

    assert rule is SentenceRule.NO_WATERMARK
    assert "split orders-1 had no record with a time" in text
    assert text.endswith("set scan.watermark.idle-timeout")


def test_paused_splits_are_counted_with_the_reason() -> None:
    """The alignment group's, as the split says it."""
    paused = split(1, 90, NOON_MS + 1, paused="customers is behind")

    assert said(seen(table(READ, paused))) == (
        SentenceRule.PAUSED,
        "waits: 1 of 2 splits of orders are paused: customers is behind",
    )


def test_rows_wait_for_the_watermark_where_all_is_read() -> None:
    """With the split on which the next record must come; not where records are left, or rows came out."""
    twelve = StateRows(rows=12, waiting=12, waits=True)
    waiting = seen(table(READ), batches=silent((7, 30)), state=twelve)
    rule, text = said(waiting)

    assert rule is SentenceRule.WAITING_ROWS
    assert text.startswith("caught up: 12 rows of its state wait for the watermark, which is at")
    assert text.endswith("must come on split orders-0")
    assert said(replace(waiting, batches=(read_batch(7),)))[0] is SentenceRule.READING
    ahead = table(split(7, 100, NOON_MS + MINUTE_MS), watermark_ms=NOON_MS + MINUTE_MS)
    two = seen(table(READ), ahead, batches=silent((7, 30)), state=twelve)
    assert said(two)[1].endswith("must come on split orders-0")
    uncounted = said(replace(waiting, state=StateRows(waits=True)))
    assert uncounted[1].startswith("caught up: rows of its state wait for the watermark, which is")
    assert said(replace(waiting, state=StateRows()))[0] is SentenceRule.NO_OUTPUT
    assert said(seen(table(READ, end=200), batches=silent((7, 30)), state=twelve)) == (
        SentenceRule.NO_OUTPUT,
        "30 rows of the last batch are read, and the query let none through; 12 rows are in its state",
    )


def test_rows_of_state_that_wait_for_no_watermark_are_not_said_to() -> None:
    """A group that HAVING leaves out stays in the state; of others it is not known whether they come out."""
    kept = seen(table(READ), batches=silent((7, 30)), state=StateRows(rows=12))
    unknown = replace(kept, state=StateRows(may_wait=True))

    assert said(kept) == (
        SentenceRule.NO_OUTPUT,
        "30 rows of the last batch are read, and the query let none through; 12 rows are in its state",
    )
    assert said(unknown) == (
        SentenceRule.NO_OUTPUT,
        "30 rows of the last batch are read, and none came out: the query let none through, or they wait in its state",
    )


@pytest.mark.parametrize(
    ("operators", "kept"),
    [
        ([{"rows": 3}], StateRows(rows=3)),
        ([{"rows": 3, "waits": True}], StateRows(rows=3, waiting=3, waits=True)),
        ([{"rows": 0, "waits": True}], StateRows()),
        ([{"rows": 3, "waits": None}], StateRows(rows=3, may_wait=True)),
        ([{"updated": 2, "waits": True}], StateRows(waits=True, may_wait=True)),
        ([{"updated": 2, "removed": 1, "waits": True}], StateRows(may_wait=True)),
        ([{"updated": 2, "waits": None}], StateRows(may_wait=True)),
        ([{"updated": 2}], StateRows()),
        ([{"waits": True}], StateRows()),
        ([{"updated": None, "waits": True}], StateRows(may_wait=True)),
        ([{"rows": 3}, {"rows": 4, "waits": True}], StateRows(rows=7, waiting=4, waits=True)),
    ],
)
def test_what_operators_keep_is_waiting_only_where_it_is_known_to(
    operators: list[dict[str, Any]], kept: StateRows
) -> None:
    """Of counted rows by what the operator does; of others by what the batches wrote and ended."""
    made = tuple(
        OperatorMetrics(**{"name": "one", "rows": None, "size_bytes": 9, "commit_ms": 1} | each)
        for each in operators
    )

    assert state_rows(made, [read_batch(7, operators=made)]) == kept


def test_a_table_that_had_no_record_is_named() -> None:
    """Where there is another one, with which it may be joined: not where its rows come out all the same."""
    empty = table(split(0, 0, None), end=0, watermark_ms=None)

    rule, text = said(seen(table(READ), empty, rows_read={0: 30}, batches=silent((7, 30))))
    assert rule is SentenceRule.NEVER_READ
    assert text == "table customers had no record since the start: a join with it gives nothing"
    assert said(seen(table(READ), empty))[0] is SentenceRule.READING
    assert said(seen(table(READ), empty, rows_read={0: 30}, batches=(read_batch(7),)))[0] is (
        SentenceRule.READING
    )
    assert said(seen(empty, rows_read={}))[0] is SentenceRule.READING
    resumed = seen(table(READ), empty, rows_read={}, batches=())
    assert said(resumed) == (SentenceRule.READING, "caught up")


def test_late_rows_are_the_reason_where_all_are() -> None:
    """One that is not late is let through, or is not."""
    rule, text = said(seen(table(READ), batches=silent((6, 30), (7, 30), dropped=1)))

    assert rule is SentenceRule.ALL_LATE
    assert text.startswith("all 60 rows of the last 2 batches were late: the watermark")
    assert "scan.watermark.max-future" in text
    assert said(seen(table(READ), batches=silent((7, 30))))[0] is SentenceRule.NO_OUTPUT


def lagging(*lags: int, every_ms: int = 60_000) -> tuple[LagSample, ...]:
    """Samples of these lags; between two of them, sixty thousand rows are read."""
    return tuple(
        LagSample(at_ms=NOON_MS + n * every_ms, lag_records=lag, rows_in=60_000 * n)
        for n, lag in enumerate(lags)
    )


@pytest.mark.parametrize(
    ("lags", "falls"),
    [
        (lagging(10, 20, 30), True),
        (lagging(10, 20, 20), False),
        (lagging(10, 40, 30), False),
        (lagging(10, 20, 30, every_ms=29_000), False),
        # before the last quarter of an hour
        (lagging(1, *range(50, 66), 50), False),
    ],
)
def test_a_lag_that_grows_is_told_with_the_slowest_phase(
    lags: tuple[LagSample, ...], falls: bool
) -> None:
    """Over a minute at least."""
    rule, text = said(seen(table(READ, end=200), lags=lags))

    assert (rule is SentenceRule.FALLS_BEHIND) is falls
    if falls:
        assert "from 10 to 30 records in 2 min, at 1,000 rows/s read" in text
        assert text.endswith("addBatch takes 60 % of a batch")
    else:
        assert text == "reads: 100 records behind"


def test_a_job_of_this_process_is_observed() -> None:
    """Its splits by table, and its messages without secrets."""
    paused = split(0, 90, NOON_MS, paused="customers is behind")
    observed = job(read_batch(7, source_of(paused))).observed.observation()

    assert said(observed)[0] is SentenceRule.PAUSED
    assert observed.sources[0][0] == "orders"
    assert observed.state == StateRows(rows=12, waiting=12, waits=True)
