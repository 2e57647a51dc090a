"""The source reader: everything fetched comes out once, checkpoints hold what was polled, pauses hold at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.errors import DataLossError
from penstock.connector.contract import FetcherModel
from penstock.connector.source.reader.reader import (
    EndOfInput,
    NothingAvailable,
    PausedRecords,
    SourceReader,
)
from penstock.connector.source.records import RawRecord, RecordsWithSplitIds
from penstock.connector.source.split import Split
from tests.connector.source.numbers import (
    DEADLINE_S,
    Delivered,
    NumbersReader,
    Stepped,
    numbered,
    upto,
)


class SteppedReader(SourceReader):
    """A source reader whose fetchers move when `stepped` says so."""

    def __init__(
        self, numbers: NumbersReader, model: FetcherModel = FetcherModel.MULTIPLEXED
    ) -> None:
        self.stepped = Stepped()
        super().__init__(lambda: numbers, model=model, execution=self.stepped)


@pytest.mark.parametrize("model", FetcherModel)
def test_every_record_comes_out_once_and_in_order(model: FetcherModel) -> None:
    """On threads; splits of different lengths end at different moments."""
    opened: list[NumbersReader] = []

    def open_reader() -> NumbersReader:
        opened.append(NumbersReader())
        return opened[-1]

    delivered = Delivered()
    with SourceReader(open_reader, model=model) as reader:
        reader.add_splits(numbered(100, 3, 50))
        reader.notify_no_more_splits()
        for records in reader.read_to_end():
            delivered.take(records)

    assert delivered.numbers == upto(100, 3, 50)
    assert delivered.finished == {"t-0", "t-1", "t-2"}
    assert reader.skipped == 15 + 1 + 8
    assert all(numbers.closed.is_set() for numbers in opened)


@pytest.mark.parametrize("model", FetcherModel)
@pytest.mark.parametrize("apart", [False, True])
def test_a_stepped_reader_needs_no_thread(model: FetcherModel, *, apart: bool) -> None:
    """Splits that end with their last rows, or in a fetch of its own, both lead to the end of input."""
    stepped = Stepped()
    before = threading.active_count()
    reader = SourceReader(lambda: NumbersReader(apart=apart), model=model, execution=stepped)
    delivered = Delivered()
    reader.start()
    reader.add_splits(numbered(100, 3, 50))
    reader.notify_no_more_splits()
    ended: object = None
    while not isinstance(ended, EndOfInput):
        moved = stepped.step()
        ended = delivered.drain(reader)
        assert moved or isinstance(ended, EndOfInput), "nothing moves and there is no end"
    reader.close()

    assert delivered.numbers == upto(100, 3, 50)
    assert threading.active_count() == before


@pytest.mark.parametrize("model", FetcherModel)
def test_thirty_thousand_records_survive_constant_wake_ups(model: FetcherModel) -> None:
    """With pauses and resumes in between, in every threading model."""
    sizes = (10_000, 10_000, 10_000)
    chance = random.Random(1)
    delivered = Delivered()
    with SourceReader(lambda: NumbersReader(step=100), model=model) as reader:
        reader.add_splits(numbered(*sizes))
        reader.notify_no_more_splits()
        while delivered.drain(reader) != EndOfInput():
            split_id = f"t-{chance.randrange(3)}"
            reader.pause_or_resume_splits([split_id], [])
            reader.wake_up()
            delivered.drain(reader)
            reader.pause_or_resume_splits([], [split_id])
            reader.wait_available(0.001)

    assert delivered.numbers == upto(*sizes)


def test_no_splits_is_the_end_of_input() -> None:
    """A task with no split makes no fetcher and ends."""
    with SourceReader(lambda: pytest.fail("no reader is needed")) as reader:
        reader.add_splits([])
        before = reader.poll_next()
        reader.notify_no_more_splits()

        assert before == NothingAvailable()
        assert list(reader.read_to_end()) == []
        assert reader.poll_next() == EndOfInput()
        assert reader.wait_available(0)


def test_splits_with_nothing_to_read_finish_without_a_fetcher() -> None:
    """Only empty splits finish the reader."""
    with SourceReader(lambda: pytest.fail("no reader is needed")) as reader:
        reader.add_splits(
            [Split(split_id="a", start=5, stop=5), Split(split_id="b", start=7, stop=5)]
        )
        reader.notify_no_more_splits()

        assert [records.finished for records in reader.read_to_end()] == [frozenset("ab")]


def test_an_empty_split_among_others_finishes() -> None:
    """And the others are read."""
    delivered = Delivered()
    with SourceReader(NumbersReader) as reader:
        reader.add_splits(numbered(10, 0, 5))
        reader.notify_no_more_splits()
        for records in reader.read_to_end():
            delivered.take(records)

    assert delivered.numbers == upto(10, 0, 5)
    assert delivered.finished == {"t-0", "t-1", "t-2"}


def test_a_reader_may_end_a_split_early() -> None:
    """Flink's record evaluator: end of stream by what a record says."""
    delivered = Delivered()
    with SourceReader(lambda: NumbersReader(ends_at=25)) as reader:
        reader.add_splits(numbered(100))
        reader.notify_no_more_splits()
        for records in reader.read_to_end():
            delivered.take(records)

    assert delivered.numbers == upto(25)
    assert reader.snapshot_state(1) == ()


def test_what_is_queued_when_the_fetchers_are_gone_comes_before_the_end() -> None:
    """An element left over after a fetcher's end is no end of input."""
    reader = SteppedReader(NumbersReader(step=5))
    reader.start()
    reader.add_splits(numbered(10))
    reader.notify_no_more_splits()
    reader.stepped.settle()
    polled = [reader.poll_next() for _ in range(3)]

    assert [type(p) for p in polled] == [RecordsWithSplitIds, RecordsWithSplitIds, EndOfInput]


def test_the_end_waits_for_the_last_split() -> None:
    """All that came is read: more may come."""
    delivered = Delivered()
    reader = SteppedReader(NumbersReader())
    reader.start()
    reader.add_splits(numbered(5))
    reader.stepped.settle()
    first = delivered.drain(reader)
    reader.stepped.settle()
    reader.add_splits(numbered(5, 9)[1:])
    reader.notify_no_more_splits()
    second = delivered.drain(reader)
    reader.stepped.fetchers.clear()
    reader.close()

    assert (first, second) == (NothingAvailable(), NothingAvailable())
    assert delivered.finished == {"t-0"}


def test_splits_can_come_again_and_again() -> None:
    """In steps, while the reader runs and after it was idle; a finished split may come once more."""
    delivered = Delivered()
    with SourceReader(NumbersReader) as reader:
        for index in (0, 1, 2):
            reader.add_splits([Split(split_id=f"t-{index}", start=0, stop=30)])
            delivered.until(reader, lambda index=index: f"t-{index}" in delivered.finished)  # type: ignore[misc]
        reader.add_splits([Split(split_id="t-0", start=30, stop=40)])
        reader.notify_no_more_splits()
        for records in reader.read_to_end():
            delivered.take(records)

    assert delivered.numbers == upto(40, 30, 30)


def test_a_failing_fetch_surfaces_at_the_next_poll_and_closes_the_reader() -> None:
    """The error of the fetcher's thread as it is, at that poll and at each that follows."""
    numbers = NumbersReader(fail_at=14)
    with SourceReader(lambda: numbers) as reader:
        reader.add_splits(numbered(100))
        reader.notify_no_more_splits()
        with pytest.raises(DataLossError, match="gone"):
            list(reader.read_to_end())
        with pytest.raises(DataLossError, match="gone"):
            reader.poll_next()

    assert numbers.closed.is_set()


def test_closing_early_ends_a_fetcher_that_waits_for_room() -> None:
    """A consumer that stops (LIMIT) leaves no thread behind."""
    numbers = NumbersReader(step=1)
    with SourceReader(lambda: numbers) as reader:
        reader.add_splits(numbered(1000))
        reader.notify_no_more_splits()
        next(reader.read_to_end())

    assert numbers.closed.is_set()


def test_closing_wakes_a_fetcher_that_waits_for_records() -> None:
    """`wake_up` ends the wait inside fetch."""
    numbers = NumbersReader(blocks=True)
    with SourceReader(lambda: numbers) as reader:
        reader.add_splits(numbered(None))
        assert numbers.fetching.wait(DEADLINE_S)

    assert numbers.closed.is_set()


def test_a_fetch_that_waits_is_woken_for_a_new_split() -> None:
    """The new one is read at once, not after the wait."""
    numbers = NumbersReader(blocks=True)
    delivered = Delivered()
    with SourceReader(lambda: numbers) as reader:
        reader.add_splits(numbered(None))
        assert numbers.fetching.wait(DEADLINE_S)
        reader.add_splits(numbered(None, 20)[1:])
        delivered.until(reader, lambda: delivered.finished == {"t-1"})

    assert delivered.numbers == {"t-1": list(range(20))}


def test_idleness_is_told_to_whoever_waits_before_and_after_it() -> None:
    """The wait that began before, and the one that begins afterwards."""
    reader = SteppedReader(NumbersReader())
    told: list[bool] = []
    reader.start()
    reader.add_splits(numbered(5))
    waiting = threading.Thread(target=lambda: told.append(reader.wait_available(DEADLINE_S)))
    waiting.start()
    reader.stepped.settle()
    waiting.join(DEADLINE_S)
    delivered = Delivered()
    after = reader.wait_available(0)
    delivered.drain(reader)

    assert told == [True]
    assert after
    assert not reader.wait_available(0)


def test_an_event_ends_a_wait() -> None:
    """From another thread."""
    reader = SourceReader(NumbersReader)
    waker = threading.Timer(0.05, reader.wake_up)
    waker.start()
    woken = reader.wait_available(DEADLINE_S)
    waker.join(DEADLINE_S)

    assert woken


def test_a_snapshot_holds_what_was_polled_not_what_was_fetched() -> None:
    """Each unfinished split from the next position; the object that came in gives all else."""

    class Numbered(Split):
        """A split of a connector."""

    reader = SteppedReader(NumbersReader(step=10))
    reader.add_splits([Numbered(split_id="a", start=3, stop=100, owner="t"), *numbered(5)])
    untouched = reader.snapshot_state(1)
    reader.start()
    reader.stepped.settle()
    reader.poll_next()
    first = reader.snapshot_state(2)
    reader.poll_next()

    assert [split.start for split in untouched] == [3, 0]
    assert first == (Numbered(split_id="a", start=13, stop=100, owner="t"),)
    assert [split.start for split in reader.snapshot_state(3)] == [23]


@pytest.mark.parametrize("model", FetcherModel)
@pytest.mark.parametrize("after", range(0, 12, 3))
def test_a_reader_that_restarts_from_a_snapshot_reads_each_record_once(
    model: FetcherModel, after: int
) -> None:
    """Whatever was fetched, queued or held back at that moment."""
    delivered = Delivered()
    stepped = Stepped()
    reader = SourceReader(NumbersReader, model=model, execution=stepped)
    reader.start()
    reader.add_splits(numbered(40, 20))
    for step in range(after):
        stepped.step()
        if step == 4:
            reader.pause_or_resume_splits(["t-0"], [])
        if isinstance(polled := reader.poll_next(), RecordsWithSplitIds):
            delivered.take(polled)
    left = reader.snapshot_state(1)
    reader.close()
    with SourceReader(NumbersReader, model=model) as restarted:
        restarted.add_splits(left)
        restarted.notify_no_more_splits()
        for records in restarted.read_to_end():
            delivered.take(records)

    assert delivered.numbers == upto(40, 20)


def test_a_completed_checkpoint_tells_its_positions_with_those_of_finished_splits() -> None:
    """What may be committed; a finished split is told until a checkpoint with it completes, then no more."""
    reader = SteppedReader(NumbersReader(step=10))
    reader.start()
    reader.add_splits(numbered(10, 100))
    reader.stepped.settle()
    reader.poll_next()
    reader.snapshot_state(1)
    reader.poll_next()
    reader.snapshot_state(2)
    reader.snapshot_state(3)
    told = [reader.notify_checkpoint_complete(checkpoint) for checkpoint in (2, 1, 3)]
    reader.snapshot_state(4)

    assert told == [{"t-0": 10, "t-1": 20}, {}, {"t-0": 10, "t-1": 20}]
    assert reader.notify_checkpoint_complete(4) == {"t-1": 20}


def test_a_checkpoint_without_splits_has_nothing_to_commit() -> None:
    """Nor has one that was never taken here."""
    reader = SourceReader(NumbersReader)
    reader.snapshot_state(1)

    assert reader.notify_checkpoint_complete(1) == {}
    assert reader.notify_checkpoint_complete(9) == {}


@pytest.mark.parametrize("model", FetcherModel)
def test_a_paused_split_delivers_nothing_more_while_the_other_is_read(model: FetcherModel) -> None:
    """Not even what was queued before the pause; resumed it goes on without a gap, with shared and own readers."""
    delivered = Delivered()
    with SourceReader(NumbersReader, model=model) as reader:
        reader.add_splits(numbered(1000, 1000))
        delivered.until(reader, lambda: len(delivered.numbers.get("t-0", ())) > 0)
        reader.pause_or_resume_splits(["t-0"], [])
        stood = len(delivered.numbers["t-0"])
        delivered.until(reader, lambda: "t-1" in delivered.finished)
        stands = len(delivered.numbers["t-0"])
        position = next(s.start for s in reader.snapshot_state(1) if s.split_id == "t-0")
        reader.pause_or_resume_splits([], ["t-0"])
        delivered.until(reader, lambda: "t-0" in delivered.finished)

    assert stands == stood == position
    assert delivered.numbers == upto(1000, 1000)


def test_a_paused_split_that_was_read_to_its_end_finishes_when_it_is_resumed() -> None:
    """Its rows wait, and no end of input overtakes them."""
    delivered = Delivered()
    reader = SteppedReader(NumbersReader(step=5))
    reader.start()
    reader.add_splits(numbered(10))
    reader.notify_no_more_splits()
    reader.stepped.settle()
    reader.pause_or_resume_splits(["t-0"], [])
    for _ in range(3):
        held = delivered.drain(reader)
        reader.stepped.settle()
    reader.pause_or_resume_splits([], ["t-0"])
    available = reader.wait_available(0)

    assert held == NothingAvailable()
    assert available
    assert delivered.drain(reader) == EndOfInput()
    assert delivered.numbers == upto(10)


def test_what_was_held_back_comes_in_the_order_of_split_ids() -> None:
    """A run that is replayed must not hang on the order of a set of names; the simulation found it."""
    ids = [f"t-{number}" for number in range(6)]
    reader = SteppedReader(NumbersReader(step=5))
    reader.start()
    reader.add_splits(numbered(*[5] * len(ids)))
    reader.pause_or_resume_splits(ids, [])
    reader.stepped.fetchers[0]._tasks.pop()  # the pause comes when all is fetched
    for _ in range(len(ids)):
        reader.stepped.settle()
        reader.poll_next()
    reader.pause_or_resume_splits([], ids[::-1])
    polled = [reader.poll_next() for _ in ids]

    assert [records.batches[0][0] for records in polled] == ids


def test_the_mere_end_of_a_paused_split_is_told() -> None:
    """It has no rows that could run ahead, and its group should not wait for it."""
    delivered = Delivered()
    reader = SteppedReader(NumbersReader(step=5, apart=True))
    reader.start()
    reader.add_splits(numbered(5))
    reader.notify_no_more_splits()
    reader.stepped.step()
    reader.stepped.step()
    delivered.take(polled) if isinstance(
        polled := reader.poll_next(), RecordsWithSplitIds
    ) else None
    reader.stepped.settle()
    reader.pause_or_resume_splits(["t-0"], [])
    delivered.drain(reader)

    assert delivered.finished == {"t-0"}


def test_ids_that_are_not_read_are_ignored_by_pauses() -> None:
    """They may have finished a moment ago (FLINK-39728)."""
    delivered = Delivered()
    with SourceReader(NumbersReader) as reader:
        reader.add_splits(numbered(5))
        delivered.until(reader, lambda: delivered.finished == {"t-0"})
        reader.pause_or_resume_splits(["t-0", "t-7"], ["t-8"])
        reader.add_splits([Split(split_id="t-0", start=5, stop=20)])
        reader.notify_no_more_splits()
        for records in reader.read_to_end():
            delivered.take(records)

    assert delivered.numbers == upto(20)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_mix_of_steps_polls_and_pauses_delivers_each_split_once_and_in_order(
    data: st.DataObject,
) -> None:
    """In every model; a paused split never delivers a row."""
    model = data.draw(st.sampled_from(FetcherModel))
    stepped = Stepped()
    reader = SourceReader(lambda: NumbersReader(step=3), model=model, execution=stepped)
    delivered, paused = Delivered(), set[str]()
    reader.start()
    reader.add_splits(numbered(11, 5, 8))
    reader.notify_no_more_splits()
    for action in data.draw(st.lists(st.sampled_from(("step", "poll", "pause", "resume")))):
        split_id = data.draw(st.sampled_from(("t-0", "t-1", "t-2")))
        match action:
            case "step":
                stepped.step()
            case "poll":
                if isinstance(polled := reader.poll_next(), RecordsWithSplitIds):
                    assert not paused & {split_id for split_id, _ in polled.batches}
                    delivered.take(polled)
            case "pause":
                paused.add(split_id)
                reader.pause_or_resume_splits([split_id], [])
            case _:
                paused.discard(split_id)
                reader.pause_or_resume_splits([], [split_id])
    reader.pause_or_resume_splits([], paused)
    while delivered.drain(reader) != EndOfInput():
        assert stepped.step() or reader.wait_available(0), "nothing moves and there is no end"

    assert delivered.numbers == upto(11, 5, 8)
    assert delivered.finished == {"t-0", "t-1", "t-2"}


# --- what a pause holds back of fetches that were under way: all rows of its splits, nothing ---


def test_what_is_held_back_leaves_the_rest_of_a_fetch_alone() -> None:
    """Positions and ends go with the rows they belong to; skipped records are counted once."""
    held = PausedRecords()
    row = pa.record_batch({"n": [1]})
    fetched = RecordsWithSplitIds(
        batches=(("a", row), ("b", row)),
        finished=frozenset({"a", "c"}),
        positions={"a": 1, "b": 2, "c": 3},
        skipped=4,
    )
    rest = held.sift(fetched, {"a", "c"})
    waits = bool(held)

    assert rest == RecordsWithSplitIds(
        batches=(("b", row),), finished=frozenset({"c"}), positions={"b": 2, "c": 3}, skipped=4
    )
    assert waits
    assert held.release(["c", "a"]) == [
        RecordsWithSplitIds(batches=(("a", row),), finished=frozenset({"a"}), positions={"a": 1})
    ]
    assert not held


def test_parts_of_a_split_come_back_in_the_order_they_were_held() -> None:
    """Progress without rows keeps its place behind rows that wait."""
    held = PausedRecords()
    parts = [
        RecordsWithSplitIds(batches=(("a", pa.record_batch({"n": [1]})),), positions={"a": 1}),
        RecordsWithSplitIds(positions={"a": 5}, finished=frozenset("a")),
    ]
    rests = [held.sift(part, {"a"}) for part in parts]

    assert rests == [None, None]
    assert held.release(["a"]) == parts


def test_progress_without_rows_passes_a_pause() -> None:
    """Nothing of it can run ahead."""
    end = RecordsWithSplitIds(positions={"a": 5}, finished=frozenset("a"))

    assert PausedRecords().sift(end, {"a"}) == end


class Nowhere:
    """Origins that nobody asks."""

    def of(self, rows: Sequence[int]) -> Sequence[RawRecord]:
        """Give nothing."""
        return ()


def test_rows_keep_their_origins_on_both_sides() -> None:
    """What waits and what goes on can both be led back to its records."""
    held, row = PausedRecords(), pa.record_batch({"n": [1]})
    of_a, of_b = Nowhere(), Nowhere()
    fetched = RecordsWithSplitIds(batches=(("a", row), ("b", row)), origins={"a": of_a, "b": of_b})
    rest = held.sift(fetched, {"a"})
    (waited,) = held.release(["a"])

    assert rest is not None
    assert (rest.origins, waited.origins) == ({"b": of_b}, {"a": of_a})
