"""Read limits: fair shares and the packing of ranges into tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.connector.source.microbatch.read_limit import SplitRange, gather, pack, share, spread
from penstock.connector.source.split import Split, TaskSize

backlogs = st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 5_000), max_size=8)


@given(backlog=backlogs, limit=st.integers(1, 10_000))
def test_shares_use_the_limit_and_never_more_than_there_is(
    backlog: dict[str, int], limit: int
) -> None:
    """The shares add up to the limit, or to all there is where that is less."""
    shares = share(limit, backlog)

    assert sum(shares.values()) == min(limit, sum(backlog.values()))
    assert all(0 <= shares[split] <= wanted for split, wanted in backlog.items())


@given(backlog=backlogs, limit=st.integers(1, 10_000))
def test_no_split_is_starved_by_a_longer_one(backlog: dict[str, int], limit: int) -> None:
    """A split gets less than another only where it has no more (or by the one record that cannot be halved)."""
    shares = share(limit, backlog)

    for split, got in shares.items():
        if got < backlog[split]:
            assert all(got >= other - 1 for other in shares.values())


def test_what_cannot_be_divided_goes_to_the_splits_named_first() -> None:
    """With fewer records than splits the order of the backlog decides: the slowest split must not wait for ever."""
    assert share(2, {"slow": 50, "b": 3, "c": 10, "d": 1}) == {"slow": 1, "b": 1, "c": 0, "d": 0}


def test_without_a_limit_everything_is_read() -> None:
    """None is no limit."""
    assert share(None, {"a": 3, "b": 0}) == {"a": 3, "b": 0}


ranges = st.lists(
    st.builds(
        lambda i, start, size: SplitRange(split_id=f"t-{i}", start=start, stop=start + size),
        st.integers(0, 50),
        st.integers(0, 1000),
        st.integers(0, 1000),
    ),
    max_size=8,
    unique_by=lambda item: item.split_id,
)


@given(ranges=ranges, tasks=st.none() | st.integers(1, 6))
def test_every_position_is_read_by_exactly_one_task_in_order(
    ranges: list[SplitRange], tasks: int | None
) -> None:
    """Packed ranges, put together again, are the ranges given; no more tasks than asked for."""
    packed = pack(ranges, tasks)

    for item in ranges:
        pieces = [piece for task in packed for piece in task if piece.split_id == item.split_id]
        position = item.start
        for piece in pieces:
            assert piece.start == position
            position = piece.stop
        assert position == item.stop or item.size == 0
    assert all(task for task in packed)
    if tasks is not None:
        assert len(packed) <= tasks


def test_a_long_split_is_read_by_several_tasks() -> None:
    """With more tasks than splits a range is cut into equal pieces."""
    packed = pack([SplitRange(split_id="t-0", start=0, stop=10)], 3)

    assert [(piece.start, piece.stop) for (piece,) in packed] == [(0, 4), (4, 8), (8, 10)]


@given(sizes=st.lists(st.integers(1, 1_000), max_size=12), tasks=st.integers(1, 6))
def test_whole_ranges_are_spread_over_exactly_so_many_tasks(sizes: list[int], tasks: int) -> None:
    """Each range is in one task, in its order; no task has more than the average and the largest together."""
    ranges = [
        SplitRange(split_id=f"s{number}", start=0, stop=size) for number, size in enumerate(sizes)
    ]
    spread_out = spread(ranges, tasks)
    loads = [sum(item.size for item in task) for task in spread_out]

    assert len(spread_out) == tasks
    assert sorted((item for task in spread_out for item in task), key=ranges.index) == ranges
    assert all(list(task) == sorted(task, key=ranges.index) for task in spread_out)
    assert max(loads) <= sum(sizes) / tasks + max(sizes, default=0)
    assert spread(list(ranges), tasks) == spread_out


def test_ranges_are_in_the_slots_in_which_earlier_versions_had_them() -> None:
    """A batch of which some slots are committed may be ended by the next version: another slot would lose its rows."""
    sizes = [5, 1, 7, 7, 1, 12, 3]
    ranges = [
        SplitRange(split_id=f"t-{number}", start=10 * number, stop=10 * number + size)
        for number, size in enumerate(sizes)
    ]

    def slots(tasks: int) -> list[list[int]]:
        return [[ranges.index(item) for item in task] for task in spread(ranges, tasks)]

    assert slots(2) == [[0, 1, 5], [2, 3, 4, 6]]
    assert slots(3) == [[5], [0, 2], [1, 3, 4, 6]]
    assert slots(8) == [[5], [2], [3], [0], [6], [1], [4], []]


@given(
    sizes=st.lists(st.none() | st.integers(1, 2_000), max_size=12),
    positions=st.integers(1, 3_000),
    opening=st.integers(0, 200),
)
def test_small_splits_share_a_task_up_to_its_size(
    sizes: list[int | None], positions: int, opening: int
) -> None:
    """Whole and in their order; only a split that is alone is larger, and no two neighbours would fit into one task."""
    splits = [
        Split(split_id=f"s{number}", start=5, stop=None if size is None else 5 + size)
        for number, size in enumerate(sizes)
    ]

    def needed(split: Split) -> float:
        return float("inf") if split.stop is None else split.stop - split.start + opening

    gathered = gather(splits, TaskSize(positions=positions, opening=opening))
    loads = [sum(map(needed, task)) for task in gathered]

    assert [split for task in gathered for split in task] == splits
    assert all(
        load <= positions or len(task) == 1 for load, task in zip(loads, gathered, strict=True)
    )
    for load, (following, *_) in zip(loads, gathered[1:], strict=False):
        assert load + needed(following) > positions


def test_without_a_size_each_split_is_a_task() -> None:
    """However small they are."""
    splits = [Split(split_id=name, start=0, stop=1) for name in "ab"]

    assert gather(splits, None) == [(split,) for split in splits]
