"""The picture of lineage around tables: objects as boxes in columns, what fills them at their left, and arrows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.catalog.model.identifier import short_name
from penstock.sql.ui.documents.fields import Document

BOX_WIDTH = 190
BOX_HEIGHT = 30
GAP_X = 70
GAP_Y = 14
MARGIN = 8
LONGEST_NAME = 26
"""Characters of a name in its box; the whole one is its title."""

MOST_BOXES = 60
"""Objects that are drawn, the nearest first: more cannot be followed with the eye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectBox:
    """An object at this position; `name` is its full name, `label` what fits into the box."""

    x: int
    y: int
    name: str
    label: str
    is_start: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A query that reads one object into another, as a curve: the data of a path."""

    path: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageChart:
    """A drawing of this size. `left_out` counts the objects that it does not show."""

    width: int
    height: int
    boxes: tuple[ObjectBox, ...]
    arrows: tuple[Arrow, ...]
    left_out: int
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


def lineage_chart(starts: Sequence[str], flows: Sequence[Document]) -> LineageChart | None:
    """Draw the flows around objects, which stand below each other; None where there are none."""
    if not flows:
        return None
    columns = _columns(starts, [(flow["source"], flow["target"]) for flow in flows])
    nearest = sorted(columns, key=lambda name: (abs(columns[name]), columns[name], name))
    shown = nearest[:MOST_BOXES]
    first = min(columns[name] for name in shown)
    rows: dict[int, int] = {}
    boxes: dict[str, ObjectBox] = {}
    for name in sorted(shown):
        column = columns[name] - first
        row = rows[column] = rows.get(column, -1) + 1
        label = short_name(name)
        boxes[name] = ObjectBox(
            x=MARGIN + column * (BOX_WIDTH + GAP_X),
            y=MARGIN + row * (BOX_HEIGHT + GAP_Y),
            name=name,
            label=label if len(label) <= LONGEST_NAME else f"{label[: LONGEST_NAME - 1]}…",
            is_start=name in starts,
        )
    return LineageChart(
        width=max(box.x for box in boxes.values()) + BOX_WIDTH + MARGIN,
        height=max(box.y for box in boxes.values()) + BOX_HEIGHT + MARGIN,
        boxes=tuple(boxes.values()),
        arrows=tuple(_arrows(boxes, flows)),
        left_out=len(nearest) - len(shown),
    )


def _columns(starts: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Give each object its distance from the starts: below 0 is read for them, above 0 is made of them."""
    columns = dict.fromkeys(starts, 0)
    for step in (-1, 1):
        edge = {*starts}
        distance = 0
        while edge:
            distance += step
            next_edge = {
                (source if step < 0 else target)
                for source, target in pairs
                if (target if step < 0 else source) in edge
            }
            edge = {name for name in next_edge if name not in columns}
            columns |= dict.fromkeys(edge, distance)
    return columns


def _arrows(boxes: dict[str, ObjectBox], flows: Iterable[Document]) -> Iterable[Arrow]:
    for flow in flows:
        source, target = boxes.get(flow["source"]), boxes.get(flow["target"])
        if source is None or target is None:
            continue
        x1, y1 = source.x + BOX_WIDTH, source.y + BOX_HEIGHT // 2
        x2, y2 = target.x, target.y + BOX_HEIGHT // 2
        bend = GAP_X // 2
        where = f" at {flow['position']}" if "position" in flow else ""
        yield Arrow(
            path=f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}",
            title=f"{flow['by']}{where}: {short_name(source.name)} to {short_name(target.name)}",
        )
