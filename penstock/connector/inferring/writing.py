"""Writes a draft as a CREATE TABLE with its reasons as comments: SQL that `penstock validate` takes as it is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from penstock.catalog.schema import Column, ComputedColumn, MetadataColumn
from penstock.connector.inferring.draft import Draft, sql_name

__all__ = ["draft_lines"]

WIDTH = 116
_TEMPLATE = re.compile(r"\{[{%#]")


def draft_lines(draft: Draft) -> list[str]:
    """Give the lines of a file that defines the table."""
    lines = [line for remark in draft.remarks for line in _comment(remark)]
    elements = list(_elements(draft))
    width = min(max((len(text) for text, _ in elements), default=0), 60) + 1
    lines.append(f"CREATE TABLE {sql_name(draft.name)} (")
    for number, (text, remark) in enumerate(elements, start=1):
        ended = text + ("," if number < len(elements) else "")
        lines.append(f"  {ended:<{width}}  -- {_plain(remark)}" if remark else f"  {ended}")
    lines.append(")" if draft.comment is not None or draft.partition_keys else ") WITH (")
    if draft.comment is not None:
        lines.append(f"COMMENT {_text(draft.comment)}")
    if draft.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(map(sql_name, draft.partition_keys))})")
    options = [f"  {_text(key)} = {_text(value)}" for key, value in draft.options]
    if lines[-1] != ") WITH (":
        lines.append("WITH (")
    lines += [*(f"{option}," for option in options[:-1]), *options[-1:], ");"]
    return [_escaped(line) for text in lines for line in text.split("\n")]


def _elements(draft: Draft) -> Iterator[tuple[str, str]]:
    columns = [each.column for each in draft.columns]
    name_width = min(max((len(sql_name(column.name)) for column in columns), default=0), 30)
    for each in draft.columns:
        yield _column(each.column, name_width), each.remark
    if draft.watermark is not None:
        column, expression = sql_name(draft.watermark.column), draft.watermark.expression
        yield f"WATERMARK FOR {column} AS {expression}", draft.watermark_remark
    if draft.primary_key is not None:
        names = ", ".join(map(sql_name, draft.primary_key.columns))
        yield f"PRIMARY KEY ({names}) NOT ENFORCED", ""


def _column(column: Column, width: int) -> str:
    text = f"{sql_name(column.name):<{width}} "
    match column:
        case ComputedColumn():
            text += f"AS {column.expression}"
        case MetadataColumn():
            text += f"{column.type} METADATA"
            text += f" FROM {_text(column.key)}" if column.key is not None else ""
            text += " VIRTUAL" if column.virtual else ""
        case _:
            text += str(column.type)
    return text + (f" COMMENT {_text(column.comment)}" if column.comment else "")


def _comment(remark: str) -> list[str]:
    return textwrap.wrap(
        _plain(remark),
        WIDTH,
        initial_indent="-- ",
        subsequent_indent="--   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _plain(text: str) -> str:
    """Keep a comment on its line, whatever the name of a field holds."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(line: str) -> str:
    """Let Jinja leave alone what looks like its own marks: SQL files are templates."""
    return _TEMPLATE.sub(lambda mark: "{{ '" + mark[0] + "' }}", line)
