"""A small chart as inline SVG: one line over the last moments, its newest value beside it.

Colours are the reader's own (currentColor), so it suits a dark page and a light one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

__all__ = ["sparkline"]

WIDTH, HEIGHT, PAD = 220, 44, 3


def sparkline(
    title: str, values: Sequence[float | None], text: Callable[[float], str], *, color: str
) -> str:
    """Draw values, the newest at the right; None leaves a gap. `text` writes a value in words."""
    known = [value for value in values if value is not None]
    top = max(known, default=0.0)
    newest = values[-1] if values else None
    label = "-" if newest is None else text(newest)
    summary = f"{title}: {label}, at most {text(top)}" if known else f"{title}: nothing yet"
    lines = "".join(_line(run, len(values), top, color) for run in _runs(values))
    return (
        f'<figure class="penstock-chart"><figcaption>{escape(title)} <b>{escape(label)}</b>'
        f"<small>max {escape(text(top)) if known else '-'}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(summary)}"><line x1="0" x2="{WIDTH}" y1="{HEIGHT - PAD}" y2="{HEIGHT - PAD}" '
        f'stroke="currentColor" stroke-opacity=".3"/>{lines}</svg></figure>'
    )


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Cut values into runs without a gap, each value with its place."""
    runs: list[list[tuple[int, float]]] = [[]]
    for place, value in enumerate(values):
        if value is not None:
            runs[-1].append((place, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _line(run: list[tuple[int, float]], count: int, top: float, color: str) -> str:
    step = WIDTH / max(count - 1, 1)
    height = HEIGHT - 2 * PAD
    points = [
        (place * step, HEIGHT - PAD - (value / top * height if top > 0 else 0.0))
        for place, value in run
    ]
    if len(points) == 1:
        x, y = points[0]
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{color}"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    base = HEIGHT - PAD
    area = f"{points[0][0]:.1f},{base} {path} {points[-1][0]:.1f},{base}"
    return (
        f'<polygon points="{area}" fill="{color}" fill-opacity=".15"/>'
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5" stroke-linejoin="round"/>'
    )
