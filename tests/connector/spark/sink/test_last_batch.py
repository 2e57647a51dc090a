"""What a sink that remembers its last batch does with the next."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import StateMismatchError
from penstock.connector.contract import MicroBatch
from penstock.connector.spark.sink.last_batch import LastBatch, is_written


def batch(batch_id: int, sink: str = "") -> MicroBatch:
    return MicroBatch(spark=None, checkpoint="c", query_id="q", batch_id=batch_id, sink=sink)  # type: ignore[arg-type]


def held(batch_id: int, digest: str = "d") -> LastBatch:
    return LastBatch(batch_id=batch_id, digest=digest)


@pytest.mark.parametrize(
    ("last", "next_", "written"),
    [
        (None, batch(0), False),
        (None, batch(7, sink="late"), False),
        (held(3), batch(4), False),
        (held(3, "other"), batch(4), False),
        (held(4), batch(4), True),
    ],
    ids=["first", "a sink that came later", "next", "next of another digest", "replay"],
)
def test_a_batch_follows_the_last_one_or_is_its_replay(
    last: LastBatch | None, next_: MicroBatch, written: bool
) -> None:
    """Only the replay is passed over."""
    assert is_written(last, next_, "d", target="t") is written


@pytest.mark.parametrize(
    ("last", "next_", "part"),
    [
        (None, batch(3), "holds nothing of this pipeline"),
        (held(5), batch(3), "only at batch 3"),
        (held(3), batch(5), "rows in between are gone"),
        (held(3, "other"), batch(3), "with other offsets"),
    ],
    ids=["emptied", "old checkpoint", "old target", "another batch of that number"],
)
def test_what_would_lose_or_double_rows_is_refused(
    last: LastBatch | None, next_: MicroBatch, part: str
) -> None:
    """Each case has its words, and a way to start over."""
    with pytest.raises(StateMismatchError, match=part) as caught:
        is_written(last, next_, "d", target="t")

    assert "start over" in (caught.value.hint or "")
