"""Since when records are unread, and how long splits were in a state, over batches."""

from __future__ import annotations

from penstock.connector.source.state import SourceState
from penstock.sql.jobs.batch_history import MOST_ENDS, BatchHistory
from penstock.sql.observation.batch_metrics import BatchMetrics, SourceMetrics
from penstock.sql.observation.split_states import SplitPhase
from tests.sql.metrics.metered import NOON_MS, read_batch, split


def read_to(number: int, position: int, end: int, **of_split: object) -> BatchMetrics:
    """A batch of a second, each a minute after the one before, that reads `orders-0` up to a position."""
    state = SourceState(splits=(split(0, position, NOON_MS, **of_split),))
    source = SourceMetrics(state=state, ends={"orders-0": end})
    at_ms = NOON_MS + number * 60_000
    return read_batch(number, source, committed_at_ms=at_ms, duration_ms=1_000)


def after(*batches: BatchMetrics) -> BatchHistory:
    """The history of batches."""
    history = BatchHistory()
    for batch in batches:
        history = history.add(batch)
    return history


def seen_in(number: int) -> int:
    """When the ends of a batch were seen: at its planning."""
    return NOON_MS + number * 60_000 - 1_000


def test_the_oldest_unread_record_was_seen_with_the_first_end_beyond_it() -> None:
    """Ends that are read drop out; one that stands still keeps its time."""
    assert after(read_to(0, 10, 10)).oldest_unread_ms(0) is None
    assert after(read_to(0, 10, 50)).oldest_unread_ms(0) == seen_in(0)
    assert after(read_to(0, 10, 50), read_to(1, 40, 90)).oldest_unread_ms(0) == seen_in(0)
    assert after(read_to(0, 10, 50), read_to(1, 60, 90)).oldest_unread_ms(0) == seen_in(1)
    assert after(read_to(0, 10, 50), read_to(1, 20, 50)).oldest_unread_ms(0) == seen_in(0)
    assert after(read_to(0, 10, 50), read_to(1, 50, 50)).oldest_unread_ms(0) is None
    assert after(read_to(0, 10, 50)).oldest_unread_ms(1) is None


def test_the_oldest_unread_record_of_all_sources_is_asked_for_at_once() -> None:
    """Whichever has it; a source in which all is read has none."""
    read, behind, later = (
        SourceMetrics(state=SourceState(splits=(split(0, 10, NOON_MS),)), ends={"orders-0": end})
        for end in (10, 50, 10)
    )
    history = after(read_batch(0, read, behind, later, committed_at_ms=NOON_MS, duration_ms=1_000))

    assert [history.oldest_unread_ms(n) for n in range(3)] == [None, seen_in(0), None]
    assert history.oldest_unread_ms() == seen_in(0)
    assert BatchHistory().oldest_unread_ms() is None


def test_a_split_that_falls_behind_for_long_keeps_a_bounded_history() -> None:
    """The oldest time is never lost; others become older than they are, never younger."""
    count = 10 * MOST_ENDS
    history = after(*(read_to(n, n, 1_000 + n) for n in range(count)))
    (ends,) = history.ends.values()

    assert len(ends) <= MOST_ENDS
    assert history.oldest_unread_ms(0) == seen_in(0)
    later = history.add(read_to(count, 1_300, 1_000 + count))
    oldest_ms = later.oldest_unread_ms(0)
    assert oldest_ms is not None
    assert oldest_ms <= seen_in(301)


def test_the_lag_is_sampled_over_a_longer_time_than_batches_are_kept() -> None:
    """Twenty batches a second are a sample every five; the newest is that of the last batch."""
    history = BatchHistory()
    for n in range(1_000):
        batch = read_batch(n, committed_at_ms=NOON_MS + n * 50, lag_records=n)
        history = history.add(batch)
    times = [sample.at_ms - NOON_MS for sample in history.lags]

    assert times[:3] == [0, 4_950, 9_900]
    assert times[-1] == 999 * 50
    assert len(times) == 12
    assert history.lags[-1].lag_records == 999
    assert history.lags[-1].rows_in == 30 * 1_000
    hour = after(*(read_batch(n, committed_at_ms=NOON_MS + n * 10_000) for n in range(360)))
    assert hour.lags[-1].at_ms - hour.lags[0].at_ms > 900_000


def test_the_time_of_a_state_counts_from_the_batch_that_tells_it() -> None:
    """To the next batch, or until now; other states have none."""
    history = after(read_to(0, 10, 50, paused="b is behind"), read_to(1, 50, 50))
    paused = after(read_to(0, 10, 50, paused="b is behind"))
    now_ms = NOON_MS + 90_000

    was_paused = ((0, "orders-0"), SplitPhase.PAUSED)
    assert history.spent_ms(now_ms) == {was_paused: 60_000}
    assert paused.spent_ms(now_ms) == {was_paused: 90_000}
    assert BatchHistory().spent_ms(now_ms) == {}
