"""The source operator: watermarks of splits, idleness and alignment, the rules that Flink learned one bug at a time."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.source.reader.source_operator import (
    PauseOrResume,
    SourceOperator,
    SplitOutput,
)
from penstock.connector.source.state import MAX_WATERMARK_MS

TIMEOUT_MS = 1000


def operator(*split_ids: str, idle_timeout_ms: int | None = None) -> SourceOperator:
    """Make an operator that has splits since time 0."""
    made = SourceOperator(idle_timeout_ms=idle_timeout_ms)
    made.add_splits(split_ids, 0)
    return made


def paused_in(made: SourceOperator) -> set[str]:
    """The splits that wait for alignment."""
    return {split.split_id for split in made.splits if split.paused}


def idle_of(made: SourceOperator) -> set[str]:
    """Give the splits that are idle."""
    return {split.split_id for split in made.splits if split.idle}


def paused_of(made: SourceOperator) -> set[str]:
    """Give the splits that are paused."""
    return {split.split_id for split in made.splits if split.paused}


# --- watermarks ---


def test_the_watermark_is_the_lowest_of_the_splits() -> None:
    """SourceReaderBaseTest: A 100, 200, 300, then B 150, 250, 350 gives 150, 250, 300."""
    made = operator("a", "b")
    for watermark_ms in (100, 200, 300):
        made.emit("a", watermark_ms, 0)
    found = []
    for watermark_ms in (150, 250, 350):
        made.emit("b", watermark_ms, 0)
        found.append(made.watermark_ms)

    assert found == [150, 250, 300]


def test_a_split_without_a_record_holds_the_watermark() -> None:
    """It may still bring rows of any time."""
    made = operator("a", "b")
    made.emit("a", 500, 0)

    assert made.watermark_ms is None


def test_a_new_split_holds_the_watermark_where_it_is() -> None:
    """Progress stops until the split has a record; nothing goes back."""
    made = operator("a")
    made.emit("a", 500, 0)
    made.add_splits(["b"], 0)
    made.emit("a", 900, 0)

    assert made.watermark_ms == 500


def test_a_batch_with_older_records_does_not_lower_a_split() -> None:
    """A watermark is the highest seen; rows without one change nothing."""
    made = operator("a")
    for watermark_ms in (500, 300, None):
        made.emit("a", watermark_ms, 0)

    assert made.watermark_ms == 500


def test_a_finished_split_holds_nothing() -> None:
    """It leaves the table, and the others' minimum counts."""
    made = operator("a", "b")
    made.emit("a", 100, 0)
    made.emit("b", 700, 0)
    made.finish_splits(["a"], 0)

    assert made.watermark_ms == 700
    assert [split.split_id for split in made.splits] == ["b"]


def test_watermarks_of_a_checkpoint_are_taken_up() -> None:
    """Flink starts over from nothing; here neither a split's nor the operator's watermark goes back."""
    made = SourceOperator(watermark_ms=400)
    made.add_splits(["a", "b"], 0, {"a": 450})

    assert made.watermark_ms == 400
    made.emit("b", 430, 0)
    assert made.watermark_ms == 430


def test_a_restored_split_above_the_limit_is_paused_when_it_comes() -> None:
    """The limit holds for splits that are added with a watermark, too."""
    made = operator("a")
    made.align(300, 0)

    assert made.add_splits(["b"], 0, {"b": 301}) == PauseOrResume(pause=frozenset({"b"}))


# --- what is reported ---


def test_without_splits_nothing_is_reported() -> None:
    """FLINK-32414: a reader without splits reported an uninitialised minimum, and its group hung."""
    made = SourceOperator(idle_timeout_ms=TIMEOUT_MS)
    made.probe_idleness(10 * TIMEOUT_MS)

    assert made.report() is None
    made.add_splits(["a"], 10 * TIMEOUT_MS)
    assert made.report() is None
    made.emit("a", 70, 10 * TIMEOUT_MS)
    assert made.report() == 70


def test_a_slower_split_does_not_lower_the_report() -> None:
    """SourceOperatorAlignmentTest: the reported watermark does not decrease when a slower split arrives."""
    made = operator("a")
    made.emit("a", 500, 0)
    made.add_splits(["b"], 0)
    made.emit("b", 100, 0)

    assert made.report() == 500


def test_a_finished_reader_reports_the_maximum() -> None:
    """FLINK-35157: it kept reporting its last watermark, and the group was stuck at it."""
    made = operator("a")
    made.emit("a", 500, 0)
    made.no_more_splits(0)
    assert made.report() == 500
    made.finish_splits(["a"], 0)

    assert made.report() == MAX_WATERMARK_MS
    assert made.watermark_ms == MAX_WATERMARK_MS
    assert made.finished


def test_a_reader_that_will_never_have_a_split_reports_the_maximum() -> None:
    """With fewer splits than readers some have none, and no more to come."""
    made = SourceOperator()
    made.no_more_splits(0)

    assert made.report() == MAX_WATERMARK_MS


def test_an_idle_reader_reports_the_maximum_and_comes_back_at_its_old_value() -> None:
    """FLINK-32496: idle is a state of its own; a row without a watermark ends it at the previous watermark."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 0)
    made.probe_idleness(TIMEOUT_MS + 1)
    assert made.report() == MAX_WATERMARK_MS
    assert made.watermark_ms == 500
    made.emit("a", None, TIMEOUT_MS + 2)

    assert made.report() == 500


def test_a_reader_that_ran_out_of_splits_is_idle_after_the_timeout() -> None:
    """Files: between the last one and the next it must not hold the group for good."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 0)
    made.finish_splits(["a"], 0)
    made.probe_idleness(TIMEOUT_MS)
    assert made.report() == 500
    made.probe_idleness(TIMEOUT_MS + 1)

    assert made.report() == MAX_WATERMARK_MS
    made.add_splits(["b"], TIMEOUT_MS + 2)
    assert made.report() == 500


# --- idleness ---


def test_a_reader_restored_without_splits_is_idle_after_the_timeout() -> None:
    """It reports what its checkpoint held, and would hold its group there for good; the simulation found it."""
    made = SourceOperator(idle_timeout_ms=TIMEOUT_MS, watermark_ms=100)
    made.probe_idleness(0)
    before = made.report()
    made.probe_idleness(TIMEOUT_MS + 1)

    assert before == 100
    assert made.report() == MAX_WATERMARK_MS


def test_a_split_is_idle_strictly_after_the_timeout() -> None:
    """WatermarksWithIdleness fires after, not at, the timeout."""
    made = operator("a", "b", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 600)
    made.probe_idleness(TIMEOUT_MS)
    assert idle_of(made) == set()
    made.probe_idleness(TIMEOUT_MS + 1)

    assert idle_of(made) == {"b"}
    assert made.watermark_ms == 500


def test_without_a_timeout_nothing_is_ever_idle() -> None:
    """Idleness is off by default."""
    made = operator("a")
    made.probe_idleness(10**12)

    assert idle_of(made) == set()


def test_a_record_ends_idleness() -> None:
    """From then on the split counts again, and its quiet time starts over."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.probe_idleness(TIMEOUT_MS + 1)
    made.emit("a", 5, TIMEOUT_MS + 2)
    made.probe_idleness(2 * TIMEOUT_MS + 2)

    assert idle_of(made) == set()
    assert made.watermark_ms == 5


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_when_all_are_idle_the_watermark_stays_whatever_the_order(order: tuple[str, ...]) -> None:
    """FLINK-38454: the outcome depended on which split was looked at last."""
    made = operator(*order, idle_timeout_ms=TIMEOUT_MS)
    for split_id, watermark_ms in (("a", 100), ("b", 300), ("c", 200)):
        made.emit(split_id, watermark_ms, 0)
    made.probe_idleness(TIMEOUT_MS + 1)

    assert made.idle
    assert made.watermark_ms == 100


def test_backpressure_suppresses_idleness() -> None:
    """FLINK-35886, FLINK-40234: while a batch waits to be taken no split is silent by its own fault."""
    made = operator("a", "b", idle_timeout_ms=TIMEOUT_MS)
    made.hold(900)
    made.probe_idleness(50_000)
    assert idle_of(made) == set()
    made.release(50_000)
    made.probe_idleness(50_100)

    assert idle_of(made) == set()


def test_idleness_returns_after_backpressure() -> None:
    """The quiet time before and after is added up, what lies between does not count."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.hold(900)
    made.release(50_000)
    made.probe_idleness(50_101)

    assert idle_of(made) == {"a"}


def test_quiet_time_that_was_over_before_backpressure_waits_for_its_end() -> None:
    """A probe that comes late, during the backpressure, finds nothing idle."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.hold(5000)
    made.probe_idleness(5001)

    assert idle_of(made) == set()


def test_a_split_that_comes_during_backpressure_is_not_quiet() -> None:
    """Its clock starts when the batch is taken."""
    made = operator(idle_timeout_ms=TIMEOUT_MS)
    made.hold(0)
    made.add_splits(["a"], 0)
    made.probe_idleness(9000)
    assert idle_of(made) == set()
    made.release(9000)
    made.probe_idleness(9000 + TIMEOUT_MS + 1)

    assert idle_of(made) == {"a"}


def test_a_single_split_that_waits_for_alignment_is_never_idle() -> None:
    """FLINK-36751: the case of one split was forgotten, and idleness ran while it waited."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 0)
    made.align(400, 0)
    made.probe_idleness(100 * TIMEOUT_MS)

    assert idle_of(made) == set()
    assert paused_in(made) == {"a"}
    assert made.report() == 500


def test_a_paused_split_keeps_the_watermark_below_it() -> None:
    """A blocked split is not idle, so the combined watermark stays below it."""
    made = operator("a", "b", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 0)
    made.emit("b", 600, 0)
    made.align(400, 0)
    made.probe_idleness(100 * TIMEOUT_MS)

    assert made.watermark_ms == 500


def test_idleness_returns_after_alignment() -> None:
    """A resumed split that brings nothing is idle after the rest of the timeout."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 0)
    made.align(400, 0)
    made.align(500, 8000)
    made.probe_idleness(8000 + TIMEOUT_MS)
    assert idle_of(made) == set()
    made.probe_idleness(8000 + TIMEOUT_MS + 1)

    assert idle_of(made) == {"a"}


def test_a_resume_during_backpressure_does_not_start_the_clock() -> None:
    """Both reasons must be gone."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 0)
    made.align(400, 0)
    made.hold(0)
    made.align(900, 0)
    made.probe_idleness(5000)

    assert idle_of(made) == set()


def test_a_release_does_not_start_the_clock_of_a_paused_split() -> None:
    """The other way round."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 0)
    made.hold(0)
    made.align(400, 0)
    made.release(0)
    made.probe_idleness(5000)

    assert idle_of(made) == set()


# --- alignment ---


def test_splits_strictly_above_the_limit_are_paused() -> None:
    """FLIP-217: equality runs."""
    made = operator("a", "b", "c")
    for split_id, watermark_ms in (("a", 399), ("b", 400), ("c", 401)):
        made.emit(split_id, watermark_ms, 0)

    assert made.align(400, 0) == PauseOrResume(pause=frozenset({"c"}))
    assert paused_in(made) == {"c"}


def test_a_raised_limit_resumes() -> None:
    """At the limit the split goes on."""
    made = operator("a", "b")
    made.emit("a", 500, 0)
    made.emit("b", 900, 0)
    made.align(400, 0)

    assert made.align(500, 0) == PauseOrResume(resume=frozenset({"a"}))
    assert paused_of(made) == {"b"}


def test_a_limit_that_changes_nothing_asks_for_nothing() -> None:
    """Only changes are told to the reader."""
    made = operator("a", "b")
    made.emit("a", 500, 0)
    made.emit("b", 100, 0)
    made.align(400, 0)

    assert not made.align(450, 0)


def test_a_split_is_paused_by_its_own_progress() -> None:
    """The limit is compared at once with every new watermark, not at the next announcement."""
    made = operator("a", "b")
    made.align(400, 0)
    assert not made.emit("a", 400, 0)

    assert made.emit("a", 401, 0) == PauseOrResume(pause=frozenset({"a"}))
    assert made.splits[0] == SplitOutput(split_id="a", watermark_ms=401, idle=False, paused=True)


def test_all_splits_can_be_paused() -> None:
    """Then the reader waits, and still reports."""
    made = operator("a", "b")
    made.emit("a", 500, 0)
    made.emit("b", 600, 0)

    assert made.align(400, 0).pause == {"a", "b"}
    assert paused_in(made) == {"a", "b"}
    assert made.report() == 500


def test_a_split_without_a_record_is_not_paused() -> None:
    """Only its first record says where it stands."""
    made = operator("a")

    assert not made.align(-1, 0)


def test_a_finished_split_is_neither_paused_nor_resumed() -> None:
    """It left the table: no event names it any more (FLINK-39728 is what came of it)."""
    made = operator("a", "b", "c")
    for split_id in "abc":
        made.emit(split_id, 500, 0)
    made.align(400, 0)
    made.finish_splits(["a"], 0)

    assert made.align(500, 0).resume == {"b", "c"}
    made.finish_splits(["b"], 0)
    assert made.align(300, 0).pause == {"c"}


def test_an_idle_split_is_not_paused_until_it_has_a_record() -> None:
    """FLINK-39073: idle splits were paused, and a paused one could never show that it is awake."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 0)
    made.probe_idleness(TIMEOUT_MS + 1)
    assert not made.align(400, TIMEOUT_MS + 1)

    assert made.emit("a", None, TIMEOUT_MS + 2).pause == {"a"}


def test_a_paused_split_is_resumed_although_its_quiet_time_is_over() -> None:
    """FLINK-40093: with a timeout about as long as the update interval it turned idle and was never resumed."""
    made = operator("a", idle_timeout_ms=TIMEOUT_MS)
    made.emit("a", 500, 0)
    made.align(400, TIMEOUT_MS)
    made.probe_idleness(TIMEOUT_MS + 1)

    assert made.align(500, 2 * TIMEOUT_MS).resume == {"a"}
    made.probe_idleness(2 * TIMEOUT_MS + 1)
    assert idle_of(made) == {"a"}


def test_the_maximum_as_limit_resumes_everything() -> None:
    """FLINK-31632: a group that is idle as a whole gives the maximum, and nobody waits for it."""
    made = operator("a")
    made.emit("a", 500, 0)
    made.align(400, 0)

    assert made.align(MAX_WATERMARK_MS, 0).resume == {"a"}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["emit", "align", "probe", "hold", "release", "finish", "add"]),
            st.integers(0, 50),
        ),
        max_size=40,
    )
)
def test_under_any_events_the_watermark_never_falls_and_pauses_are_exact(
    events: list[tuple[str, str, int]],
) -> None:
    """Whatever comes: no regression, paused is exactly above the limit, a paused split is never idle."""
    made = operator("a", idle_timeout_ms=10)
    before = -1
    for now_ms, (split_id, kind, value) in enumerate(events):
        there = {split.split_id for split in made.splits}
        match kind:
            case "emit" if split_id in there:
                made.emit(split_id, value, now_ms * 5)
            case "align":
                made.align(value, now_ms * 5)
            case "probe":
                made.probe_idleness(now_ms * 5)
            case "hold":
                made.hold(now_ms * 5)
            case "release":
                made.release(now_ms * 5)
            case "finish":
                made.finish_splits([split_id], now_ms * 5)
            case "add" if split_id not in there:
                made.add_splits([split_id], now_ms * 5)

        after = -1 if made.watermark_ms is None else made.watermark_ms
        assert after >= before
        before = after
        for split in made.splits:
            above = (
                made.limit_ms is not None
                and split.watermark_ms is not None
                and split.watermark_ms > made.limit_ms
            )
            assert split.paused == (above and not split.idle)
