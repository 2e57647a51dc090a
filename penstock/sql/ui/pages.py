"""HTML of the documents: templates with everything escaped, no script and no style in the page itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.catalog.model.identifier import short_name
from penstock.sql.clock import SystemClock, duration_text
from penstock.sql.ui.charts import PHASE_ORDER, batch_chart, sparkline, watermark_chart
from penstock.sql.ui.documents.fields import Document
from penstock.sql.ui.documents.trend import LAG_TREND, SPEED_TREND
from penstock.sql.ui.lineage_chart import lineage_chart


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("penstock.sql.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["age"] = age
    made.filters["urlencode"] = link_name
    made.filters["duration"] = duration_text
    made.filters["figure"] = figure
    made.filters["instant"] = instant
    made.filters["short"] = short_name
    made.filters["size"] = size
    made.filters["unrepeated"] = unrepeated
    made.filters["breakable"] = breakable
    made.filters["speed_line"] = lambda pipeline: sparkline(pipeline.get(SPEED_TREND, ()), "rows/s")
    made.filters["lag_line"] = lambda pipeline: sparkline(pipeline.get(LAG_TREND, ()), "lag")
    return made


def _render(template: str, **fields: Any) -> str:
    """Fill a template; `now_ms` is the time of the page, from which ages are counted."""
    now_ms = SystemClock().now_ms()
    return _environment().get_template(template).render(now_ms=now_ms, **fields)


def figure(value: float | None) -> str:
    """Write a count with its thousands apart; a dash for one that is not known."""
    return "-" if value is None else f"{value:,}"


_SIZES = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))


def size(value: int | None) -> str:
    """Write bytes in the largest unit of which there is one; a dash for what is not known."""
    if value is None:
        return "-"
    for unit, name in _SIZES:
        if value >= unit:
            return f"{value / unit:,.1f} {name}"
    return f"{value:,} B"


def age(value: str | None, now_ms: int) -> Markup:
    """Write how long ago a time was, which the page's script keeps true; a dash for one that is not known."""
    if value is None:
        return Markup("-")
    ago_ms = max(now_ms - int(datetime.fromisoformat(value).timestamp() * 1000), 0)
    text = duration_text(ago_ms // 1000 * 1000) if ago_ms >= 1000 else "0 s"
    return Markup('<time class="age" datetime="{}" title="{}">{} ago</time>').format(
        value, instant(value), text
    )


def breakable(value: str, mark: str = ".") -> Markup:
    """Write a long name so that a browser may break it behind its dots, or behind another mark."""
    return Markup("{}<wbr>").format(mark).join(value.split(mark))


def link_name(name: str) -> str:
    """Write a name into an address. A browser takes `.` and `..` between slashes for folders, however they are written.

    So the slashes of such a name are written, too.
    """
    is_folder = {".", ".."} & {*name.split("/")}
    return quote(name, safe="" if is_folder else "/", errors="replace")


def unrepeated(sentence: str, status: str | None) -> str:
    """Return a sentence without the status that it begins with, which stands beside it."""
    return sentence if status is None else sentence.removeprefix(f"{status}: ")


def instant(value: str | None) -> str:
    """Write a time so that a person reads it; a dash for one that is not known."""
    return "-" if value is None else value.replace("T", " ").split(".")[0] + "Z"


_ATTENTION = ("failed", "restarting", "starting", "waiting", "running", "stopped", "finished")
"""The statuses, in the order in which they are counted: what needs a look first."""


def status_counts(pipelines: Sequence[Document]) -> list[tuple[str, int]]:
    """Count pipelines by status, those that need a look first."""
    statuses = [str(each.get("status", "not known")) for each in pipelines]
    others = sorted({*statuses} - {*_ATTENTION})
    return [
        (status, statuses.count(status)) for status in (*_ATTENTION, *others) if status in statuses
    ]


def pipelines_page(pipelines: list[Document], notices: Sequence[str] = ()) -> str:
    """Write the list of all pipelines, and what could not be read for it."""
    counts = status_counts(pipelines)
    return _render("pipelines.html", pipelines=pipelines, counts=counts, notices=notices)


def pipeline_page(pipeline: Document, lineage: Document | None = None) -> str:
    """Write the page of one pipeline, with the lineage of the tables that it writes where that is known."""
    around = {} if lineage is None else lineage
    tables = pipeline.get("tables", [])
    return _render(
        "pipeline.html",
        pipeline=pipeline,
        tables=[(table, watermark_chart(table)) for table in tables],
        lineage=lineage_chart(around.get("written", []), around.get("flows", [])),
        batches=batch_chart(pipeline.get("batches_recent", [])),
        phases=PHASE_ORDER,
    )


def tables_page(tables: list[Document]) -> str:
    """Write the list of tables and views."""
    return _render("tables.html", tables=tables)


def table_page(table: Document, rows: Document | None = None) -> str:
    """Write the page of one table or view, with its first `rows` where they were asked for."""
    chart = lineage_chart([table["name"]], table.get("lineage", []))
    return _render("table.html", table=table, chart=chart, rows=rows)


def dead_letters_page(found: Document, table: str | None) -> str:
    """Write the page of dead letters, of one table or of all."""
    return _render("dead_letters.html", found=found, table=table)


def settings_page(settings: Document, doctor: Document) -> str:
    """Write the page of settings and of what was found of the machine."""
    return _render("settings.html", settings=settings, doctor=doctor)


def missing_page(name: str) -> str:
    """Write the page for a name that is not known."""
    return _render("missing.html", name=name)
