"""Windowing table functions in a typed form: TUMBLE, HOP, CUMULATE, SESSION, by position or by name.

Signatures as in Flink's page "Windowing table-valued functions". Lengths are milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    Span,
    UnsupportedError,
    did_you_mean,
)
from penstock.sql.dialect.parser.table_functions import PARTITION_ARGUMENT, WINDOW_FUNCTIONS
from penstock.sql.syntax.intervals import interval_value
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import find_nodes

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")
"""Columns that a windowing function adds: the bounds, and the last millisecond (a time attribute)."""


class WindowKind(StrEnum):
    """The windowing functions."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTable:
    """One windowing function in a query.

    `node` is the table node to replace by what is planned for it (its alias is `alias`, empty where
    the query gives none); `input` is the table or subquery that it reads. `size_ms` is 0 for SESSION,
    which has `gap_ms`; HOP has `slide_ms`, CUMULATE `step_ms`.
    """

    node: exp.Table
    kind: WindowKind
    input: exp.Table | exp.Subquery
    time_column: str
    size_ms: int = 0
    slide_ms: int | None = None
    step_ms: int | None = None
    gap_ms: int | None = None
    offset_ms: int = 0
    partition_by: tuple[str, ...] = ()

    @property
    def span(self) -> Span | None:
        """The place of the call; None where the query does not come from a file."""
        return span_of(self.node.this)

    @property
    def alias(self) -> str:
        """The name that the query gives the function's result; empty if none."""
        return self.node.alias


PARAMETERS = {
    WindowKind.TUMBLE: ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    WindowKind.HOP: ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    WindowKind.CUMULATE: ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    WindowKind.SESSION: ("DATA", "TIMECOL", "GAP"),
}


def window_tables(query: exp.Expr) -> list[WindowTable]:
    """The windowing functions of a query, outer ones before those inside their inputs.

    Raises DefinitionError or UnsupportedError where the arguments do not fit.
    """
    if not any(is_windowing(node) for node in find_nodes(query, exp.Table)):
        return []
    return [
        _window(node, node.this)
        for node in query.find_all(exp.Table, bfs=False)
        if is_windowing(node)
    ]


def is_windowing(node: exp.Expr) -> bool:
    """Return whether a relation in FROM is a windowing function."""
    if not isinstance(node, exp.Table):
        return False
    call = node.args.get("this")
    return isinstance(call, exp.Anonymous) and call.name.upper() in WINDOW_FUNCTIONS


def _window(node: exp.Table, call: exp.Anonymous) -> WindowTable:
    kind = WindowKind(call.name.upper())
    arguments, keys = _arguments(kind, call)
    data = arguments["DATA"]
    if not isinstance(data, exp.Table | exp.Subquery):
        raise _wrong(data, f"the first argument of {kind} is not a table", "write TABLE name")
    lengths = {
        name: _millis(kind, name, value)
        for name, value in arguments.items()
        if name not in ("DATA", "TIMECOL")
    }
    window = WindowTable(
        node=node,
        kind=kind,
        input=data,
        time_column=_time_column(kind, arguments["TIMECOL"]),
        size_ms=lengths.get("SIZE", 0),
        slide_ms=lengths.get("SLIDE"),
        step_ms=lengths.get("STEP"),
        gap_ms=lengths.get("GAP"),
        offset_ms=lengths.get("OFFSET", 0),
        partition_by=keys,
    )
    _check(window, call)
    return window


def _arguments(
    kind: WindowKind, call: exp.Anonymous
) -> tuple[dict[str, exp.Expr], tuple[str, ...]]:
    names, arguments, keys = PARAMETERS[kind], dict[str, exp.Expr](), tuple[str, ...]()
    for argument in call.expressions:
        name, value = names[len(arguments)] if len(arguments) < len(names) else "", argument
        if isinstance(argument, exp.Kwarg):
            name, value = argument.name, argument.expression
        if name == PARTITION_ARGUMENT:
            keys = tuple(column.name for column in value.expressions)
            if kind != WindowKind.SESSION:
                message = f"{kind} takes no PARTITION BY"
                raise _wrong(argument, message, "group by the column instead")
        elif name not in names or name in arguments:
            hint = did_you_mean(name, names) if name else None
            raise _wrong(argument, f"{kind} has no such argument", hint or _signature(kind))
        else:
            arguments[name] = value
    missing = [name for name in names if name not in arguments and name != "OFFSET"]
    if missing:
        raise _wrong(call, f"{kind} lacks the argument {missing[0]}", _signature(kind))
    return arguments, keys


def _signature(kind: WindowKind) -> str:
    words = {"DATA": "TABLE name", "TIMECOL": "DESCRIPTOR(column)", "OFFSET": "[offset]"}
    return f"{kind}({', '.join(words.get(name, name.lower()) for name in PARAMETERS[kind])})"


def _time_column(kind: WindowKind, value: exp.Expr) -> str:
    columns: Sequence[exp.Expr] = value.expressions if value.name == "DESCRIPTOR" else ()
    if len(columns) != 1 or not isinstance(columns[0], exp.Column):
        raise _wrong(value, f"{kind} takes one time column", "write DESCRIPTOR(column)")
    return columns[0].name


def _millis(kind: WindowKind, name: str, value: exp.Expr) -> int:
    if not isinstance(value, exp.Interval):
        raise _wrong(
            value, f"the {name.lower()} of {kind} is not an interval", "INTERVAL '10' MINUTE"
        )
    length = interval_value(value)
    if length.year_month:
        raise _wrong(value, "a window's length is fixed: months and years are not", "use DAY")
    if name != "OFFSET" and length.millis <= 0:
        raise _wrong(value, f"the {name.lower()} of {kind} must be positive")
    return length.millis


def _check(window: WindowTable, call: exp.Anonymous) -> None:
    part = window.slide_ms or window.step_ms
    if part is not None and window.size_ms % part:
        # Flink: "requires size must be an integral multiple of slide" (of step)
        name = "slide" if window.slide_ms else "step"
        raise _wrong(
            call,
            f"the size of {window.kind} must be a multiple of its {name}: "
            f"{window.size_ms} ms and {part} ms",
        )
    if isinstance(window.input, exp.Table) and not isinstance(window.input.this, exp.Identifier):
        raise UnsupportedError("a windowing function reads a table or a query", span=span_of(call))


def _wrong(node: exp.Expr, message: str, hint: str | None = None) -> InputError:
    return DefinitionError(message, hint=hint, span=span_of(node))
