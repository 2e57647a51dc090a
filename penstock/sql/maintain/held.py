"""Frames that are computed once and held until a batch is written, as several scans read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["Holder", "holding"]


class Holder:
    """Computes frames and lets go of all of them in the end. For the driver's thread."""

    def __init__(self) -> None:
        self._held: list[DataFrame] = []

    def hold(self, frame: DataFrame, *figures: Column) -> tuple[DataFrame, Row]:
        """Compute a frame; give it as computed, and aggregates over it, the first of which is `rows`, their number.

        Not `persist`: a block that is lost would be computed again, perhaps not the same, between two scans. A block
        of a local checkpoint that is lost fails the batch, which is then replayed.
        """
        # not eager: the job that counts the rows computes them
        held = frame.localCheckpoint(eager=False)
        self._held.append(held)
        row = held.agg(F.count(F.lit(1)).alias("rows"), *figures).first()
        assert row is not None, "an aggregation without keys gives a row"
        return held, row

    def release(self) -> None:
        """Let go of all frames."""
        for frame in self._held:
            # PySpark gives no other way to let go of the blocks before the garbage collector finds them
            frame._jdf.queryExecution().analyzed().rdd().unpersist(False)  # noqa: SLF001
        self._held.clear()


@contextmanager
def holding() -> Iterator[Holder]:
    """Hold frames for as long as the block runs."""
    holder = Holder()
    try:
        yield holder
    finally:
        holder.release()
