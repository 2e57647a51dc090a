"""Draws the skew experiment: rows by event time, all that were sent and what Spark's own watermark kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.dates as mdates
import matplotlib.pyplot as plt

WINDOW = timedelta(minutes=10)


def draw(penstock: Mapping[datetime, int], spark: Mapping[datetime, int], path: Path) -> None:
    """Write a PNG. Both mappings go from the start of a window to the rows counted in it."""
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
    axes.set_title("One topic, four partitions hours apart: orders counted per ten-minute window")
    axes.set_xlabel("event time")
    axes.set_ylabel("orders counted")
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M"))
    axes.set_ylim(0, max(ours) * 1.35)
    axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="upper right", frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)
