"""Charts of the page as values that a template draws as SVG: positions and sizes, computed on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup, escape

from penstock.sql.observation.pipeline import STEP_MS
from penstock.sql.ui.documents.fields import Document

WIDTH = 640
MOST_BARS = 60
"""Splits that the chart shows: the lowest ones, which hold the watermark, as more cannot be told apart."""

SPARK_WIDTH, SPARK_HEIGHT = 90, 18

BAR_HEIGHT = 14
BATCH_HEIGHT = 160
PHASE_ORDER = ("latest_offset", "planning", "wal_commit", "add_batch", "commit", "other")
"""The phases of a batch from below; `other` is what is in none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A rectangle; `kind` is its class in the style sheet, `title` what is shown of it."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A vertical line at a time, with its name."""

    x: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing of this size. `left_out` counts what it does not show.

    `first` and `last` are what stands at its left and right end: times, or batches. `kinds` are those of its bars, and
    `longest_ms` is what its height is.
    """

    height: int
    bars: tuple[Bar, ...]
    first: str
    last: str
    rules: tuple[Rule, ...] = ()
    left_out: int = 0
    longest_ms: int = 0
    width: int = WIDTH

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its bars, each once."""
        return tuple(sorted({bar.kind for bar in self.bars}))

    @property
    def drawing(self) -> Markup:
        """The elements of its bars: made here, as a template takes longer for hundreds of them."""
        return Markup("\n".join(map(_rect, self.bars)))  # noqa: S704  texts are escaped in it


def _rect(bar: Bar) -> str:
    return (
        f'<rect x="{bar.x}" y="{bar.y}" width="{bar.width}" height="{bar.height}" '
        f'class="bar {escape(bar.kind)}"><title>{escape(bar.title)}</title></rect>'
    )


def watermark_chart(table: Document) -> Chart | None:
    """Draw the watermarks of a table's splits against the table's own and its group's limit; None without any."""
    splits = [split for split in table.get("splits", ()) if "watermark" in split]
    if not splits:
        return None
    splits.sort(key=lambda split: str(split["watermark"]))
    shown = splits[:MOST_BARS]
    marks = [(kind, table[kind]) for kind in ("watermark", "limit") if kind in table]
    times = sorted(
        [*(str(split["watermark"]) for split in shown), *(at for _, at in marks)], key=_seconds
    )
    first = _seconds(times[0])
    span = max(_seconds(times[-1]) - first, 1.0)

    def at(time: str) -> float:
        # a bar of the lowest split is seen, too
        return round(20 + (WIDTH - 40) * (_seconds(time) - first) / span, 1)

    bars = tuple(
        Bar(
            x=0,
            y=index * BAR_HEIGHT + 1,
            width=at(split["watermark"]),
            height=BAR_HEIGHT - 3,
            kind="holds" if split.get("holds") else str(split.get("state", "read")),
            title=f"{split['id']}: {split['watermark']}, {split.get('state', 'read')}",
        )
        for index, split in enumerate(shown)
    )
    rules = tuple(Rule(x=at(time), kind=kind, title=f"{kind} {time}") for kind, time in marks)
    return Chart(
        height=len(shown) * BAR_HEIGHT,
        bars=bars,
        first=times[0],
        last=times[-1],
        rules=rules,
        left_out=len(splits) - len(shown),
    )


def batch_chart(batches: Sequence[Document]) -> Chart | None:
    """Draw the duration of batches stacked by phase, the rest of it on top; None without batches."""
    if not batches:
        return None
    phases = [_with_rest(batch) for batch in batches]
    longest = max(1, *(sum(each.values()) for each in phases))
    step = WIDTH / max(len(batches), 20)
    bars = []
    for index, batch in enumerate(batches):
        base = float(BATCH_HEIGHT)
        for phase in PHASE_ORDER:
            took = phases[index].get(phase, 0)
            height = round(BATCH_HEIGHT * took / longest, 1)
            base -= height
            title = f"batch {batch['id']}: {phase} {took} ms of {batch['duration_ms']} ms"
            bar = Bar(
                x=round(index * step, 1),
                y=round(base, 1),
                width=round(max(step - 1, 1), 1),
                height=height,
                kind=phase,
                title=title,
            )
            if height:
                bars.append(bar)
    return Chart(
        height=BATCH_HEIGHT,
        bars=tuple(bars),
        first=str(batches[0]["id"]),
        last=str(batches[-1]["id"]),
        longest_ms=longest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """A small line without axes over the `area` below it: points as SVG has them. `title` says what it shows."""

    points: str
    area: str
    title: str
    width: int = SPARK_WIDTH
    height: int = SPARK_HEIGHT


def sparkline(values: Sequence[float], what: str) -> Sparkline | None:
    """Draw values, one for each STEP_MS, oldest first, from 0 up to the highest; None of fewer than two."""
    if len(values) < 2:
        return None
    highest = max(*values, 1)
    step = (SPARK_WIDTH - 2) / (len(values) - 1)
    points = " ".join(
        f"{round(1 + index * step, 1)},{round(SPARK_HEIGHT - 1 - (SPARK_HEIGHT - 2) * value / highest, 1)}"
        for index, value in enumerate(values)
    )
    minutes = f"{len(values) * STEP_MS / 60_000:g} min"
    title = (
        f"{what} over the last {minutes}: {min(values):,} to {max(values):,}, now {values[-1]:,}"
    )
    area = f"1.0,{SPARK_HEIGHT - 1} {points} {SPARK_WIDTH - 1},{SPARK_HEIGHT - 1}"
    return Sparkline(points=points, area=area, title=title)


def _with_rest(batch: Document) -> Mapping[str, int]:
    phases: Mapping[str, int] = batch["phases_ms"]
    return {**phases, "other": max(batch["duration_ms"] - sum(phases.values()), 0)}


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
