"""Draws the skew experiment: rows by event time, all that were sent and what Spark's own watermark kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.dates as mdates
import matplotlib.pyplot as plt

WINDOW = timedelta(minutes=10)


Span = tuple[datetime, datetime]


def draw(
    penstock: Mapping[datetime, int],
    spark: Mapping[datetime, int],
    spans: Sequence[Span],
    path: Path,
) -> None:
    """Write a PNG. The mappings go from the start of a window to the rows counted in it.

    `spans` are the event times that the partitions cover, in their order.
    """
    figure, axes = plt.subplots(figsize=(9, 3.6), dpi=150)
    starts = sorted(set(penstock) | set(spark))
    ours = [penstock.get(start, 0) for start in starts]
    theirs = [spark.get(start, 0) for start in starts]
    width = WINDOW * 0.9
    axes.bar(
        starts,
        ours,
        width,
        align="edge",
        color="#9ecae1",
        label=f"Penstock: {sum(ours):,} rows kept, the slowest partition's watermark",
    )
    axes.bar(
        starts,
        theirs,
        width,
        align="edge",
        color="#d94801",
        label=f"Spark alone: {sum(theirs):,} rows kept, the latest event time's watermark",
    )
    axes.set_title("One topic, partitions hours apart: orders counted per ten-minute window")
    axes.set_xlabel("event time")
    axes.set_ylabel("orders counted")
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M"))
    axes.set_ylim(0, max(ours) * 1.5)
    label_partitions(axes, spans, max(ours))
    axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper right", frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def label_partitions(axes: Any, spans: Sequence[Span], height: float) -> None:
    """Write above the bars which partition they came from."""
    for number, (first, last) in enumerate(spans):
        middle = first + (last - first) / 2
        axes.text(
            middle, height * 1.03, f"partition {number}", ha="center", va="bottom", color="#555555"
        )
