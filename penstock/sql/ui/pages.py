"""HTML of the documents: templates with everything escaped, no script and no style in the page itself."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.catalog.model.identifier import short_name
from penstock.sql.ui.charts import PHASE_ORDER, batch_chart, watermark_chart
from penstock.sql.ui.documents.fields import Document
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
    made.filters["figure"] = figure
    made.filters["instant"] = instant
    made.filters["short"] = short_name
    made.filters["breakable"] = breakable
    return made


def figure(value: float | None) -> str:
    """Write a count with its thousands apart; a dash for one that is not known."""
    return "-" if value is None else f"{value:,}"


def breakable(value: str) -> Markup:
    """Write a long key so that a browser may break it behind its dots."""
    return Markup(".<wbr>").join(value.split("."))


def instant(value: str | None) -> str:
    """Write a time so that a person reads it; a dash for one that is not known."""
    return "-" if value is None else value.replace("T", " ").split(".")[0] + "Z"


def pipelines_page(pipelines: list[Document]) -> str:
    """Write the list of all pipelines."""
    return _environment().get_template("pipelines.html").render(pipelines=pipelines)


def pipeline_page(pipeline: Document) -> str:
    """Write the page of one pipeline."""
    tables = pipeline.get("tables", [])
    return (
        _environment()
        .get_template("pipeline.html")
        .render(
            pipeline=pipeline,
            tables=[(table, watermark_chart(table)) for table in tables],
            batches=batch_chart(pipeline.get("batches_recent", [])),
            phases=PHASE_ORDER,
        )
    )


def tables_page(tables: list[Document]) -> str:
    """Write the list of tables and views."""
    return _environment().get_template("tables.html").render(tables=tables)


def table_page(table: Document, rows: Document | None = None) -> str:
    """Write the page of one table or view, with its first `rows` where they were asked for."""
    chart = lineage_chart(table["name"], table.get("lineage", []))
    return _environment().get_template("table.html").render(table=table, chart=chart, rows=rows)


def dead_letters_page(found: Document, table: str | None) -> str:
    """Write the page of dead letters, of one table or of all."""
    return _environment().get_template("dead_letters.html").render(found=found, table=table)


def settings_page(settings: Document, doctor: Document) -> str:
    """Write the page of settings and of what was found of the machine."""
    return _environment().get_template("settings.html").render(settings=settings, doctor=doctor)


def missing_page(name: str) -> str:
    """Write the page for a name that is not known."""
    return _environment().get_template("missing.html").render(name=name)
