# ruff: noqa: S608  this module writes SQL; names are quoted by `_name`
"""Windowing table functions as Spark SQL: each becomes a query that gives every row its windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import quoted
from penstock.sql.dialect.windows.window_tables import WindowKind, WindowTable, window_tables


def to_spark_text(query: exp.Expr, write: Callable[[exp.Expr], str]) -> str:
    """Write a query with its windowing functions as Spark SQL; `write` writes what has none. `query` is changed.

    SESSION is to be rewritten before (`session_windows.py`). Raises UnsupportedError.
    """
    inner: dict[str, str] = {}
    # inner functions come after the outer ones in the tree, and have to be there first
    for index, window in enumerate(reversed(window_tables(query))):
        name = f"penstock_window_{index}"
        read = exp.select("*").from_(window.input.copy())
        inner[name] = _windowed(window, f"({_filled(write(read), inner)})")
        alias = window.alias or f"windowed_{index}"
        window.node.replace(
            exp.Table(
                this=exp.to_identifier(name, quoted=True),
                alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
            )
        )
    return _filled(write(query), inner)


def _windowed(window: WindowTable, relation: str) -> str:
    """Assign every row its windows, as `connector.spark.source.windows.assign_windows` does for frames."""
    rowtime = quoted(window.time_column)
    rows = f"{relation} WHERE {rowtime} IS NOT NULL"
    match window.kind:
        case WindowKind.TUMBLE:
            pane = _pane(rowtime, window.size_ms, window.size_ms, window.offset_ms)
            bounds = f"SELECT *, {pane} AS __window FROM {rows}"
        case WindowKind.HOP:
            slide = window.slide_ms or window.size_ms
            pane = _pane(rowtime, window.size_ms, slide, window.offset_ms)
            bounds = f"SELECT *, {pane} AS __window FROM {rows}"
        case WindowKind.CUMULATE:
            step = _delta(window.step_ms or window.size_ms)
            pane = _pane(rowtime, window.size_ms, window.size_ms, window.offset_ms)
            panes = f"SELECT *, {pane} AS __pane FROM {rows}"
            ends = f"explode(sequence(__pane.start + {step}, __pane.end, {step}))"
            grown = f"SELECT *, {ends} AS __end FROM ({panes})"
            bounds = (
                "SELECT * EXCEPT (__pane, __end), named_struct('start', __pane.start, 'end', __end) AS __window "
                f"FROM ({grown}) WHERE __end > {rowtime}"
            )
        case WindowKind.SESSION:
            raise UnsupportedError(
                "SESSION windows are supported under GROUP BY of window_start and window_end only",
                span=window.span,
            )
        case _:
            assert_never(window.kind)
    return (
        "SELECT * EXCEPT (__window), __window.start AS window_start, __window.end AS window_end, "
        f"__window.end - {_delta(1)} AS window_time FROM ({bounds})"
    )


def _filled(text: str, inner: Mapping[str, str]) -> str:
    """Replace names by their sub-queries."""
    for name, query in inner.items():
        text = text.replace(quoted(name), f"({query})")
    return text


def _pane(rowtime: str, size_ms: int, slide_ms: int, offset_ms: int) -> str:
    lengths = ", ".join(f"'{length} milliseconds'" for length in (size_ms, slide_ms, offset_ms))
    return f"window({rowtime}, {lengths})"


def _delta(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"INTERVAL '{seconds}.{rest:03d}' SECOND"
