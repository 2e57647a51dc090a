"""Group windows, Flink's older form of windows: GROUP BY TUMBLE(ts, size), HOP, SESSION; TUMBLE_START and its like.

They are rewritten as the windowing functions that took their place: the window in GROUP BY becomes the function in
FROM; its start, end and time become columns of that. A plain table is read by the function itself; joins, what else
stands in FROM, and a table of whose columns one is called as the function's, become a query that the function reads
(grouped_input.py). The rules are those of Flink's
LogicalWindowAggregateRuleBase and of Calcite's AggChecker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, InputError, UnsupportedError
from penstock.sql.dialect.parser.table_functions import PARTITION_ARGUMENT
from penstock.sql.dialect.windows.grouped_input import (
    GroupedInput,
    is_same_column,
    own_columns,
    own_nodes,
    placed_column,
    relations_of,
)
from penstock.sql.dialect.windows.grouping_sets import SEVERAL_SETS, beside_sessions
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.syntax.intervals import interval_value
from penstock.sql.syntax.positions import position_as, span_of
from penstock.sql.syntax.traversal import all_nodes, find_nodes

GROUP_WINDOW = "penstock.group_window"
"""On the call of a windowing function that stands for a group window."""

LENGTHS = {"TUMBLE": ("size",), "HOP": ("slide", "size"), "SESSION": ("gap",)}
"""The group windows, and what each takes behind its time column."""

COLUMNS = {"START": "window_start", "END": "window_end", "ROWTIME": "window_time", "PROCTIME": ""}
"""What a query asks of its window, and the column that says so; the processing time is none."""

PARTS = {f"{kind}_{part}": (kind, column) for kind in LENGTHS for part, column in COLUMNS.items()}
CALLS = (*LENGTHS, *PARTS)
"""The names of all functions that belong to group windows."""

TABLE_PARTS = ("this", "db", "catalog", "alias", "hints")
"""What there may be of a table that a windowing function reads by itself."""

SEVERAL = "grouped"
"""What the windowing function is called where there were several tables in FROM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupWindow:
    """The window of a GROUP BY: its call, the time column of that, and the names of the relations in FROM."""

    call: exp.Anonymous
    time: exp.Column
    relations: frozenset[str]

    @property
    def kind(self) -> str:
        return self.call.name.upper()

    @property
    def alias(self) -> str:
        """The name that the windowing function gets: that of what stood in FROM, if it was one relation."""
        only = next(iter(self.relations)) if len(self.relations) == 1 else ""
        return only or SEVERAL


def has_group_windows(query: exp.Expr) -> bool:
    """Return whether a query, or one inside it, has a call that belongs to group windows."""
    return any(_is_call(node) for node in all_nodes(query))


def translate_group_windows(query: exp.Expr) -> bool:
    """Rewrite the group windows of a query, and of those inside it, in place; tells whether there were any.

    Raises DefinitionError at a call that fits no window, UnsupportedError for what Flink has not either.
    """
    if not has_group_windows(query):
        return False
    queries = {cte.alias for cte in find_nodes(query, exp.CTE)}
    for select in find_nodes(query, exp.Select):
        window = _window_of(select)
        if window is not None:
            _translate(select, window, queries)
    for node in all_nodes(query):
        if _is_call(node):
            raise _misplaced(node)
    return True


def _is_call(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Anonymous):
        return False
    name = node.name.upper()
    return name in PARTS or (name in LENGTHS and not _is_relation(node))


def _is_relation(call: exp.Anonymous) -> bool:
    """Return whether a call is one of a windowing function, as it stands in FROM."""
    above = call.parent
    wrapped = isinstance(above, exp.Anonymous) and above.name.upper() == "TABLE"
    return wrapped or isinstance(above, exp.Table | exp.Lateral)


# --- the window ---


def _window_of(select: exp.Select) -> _GroupWindow | None:
    """The window that a SELECT is grouped by; None if it is not."""
    group = select.args.get("group") or exp.Group()
    calls = [key for key in group.expressions if _is_call(key) and key.name.upper() in LENGTHS]
    if not calls:
        return None
    call, kind = calls[0], calls[0].name.upper()
    if len(calls) > 1:
        # Flink: "Only a single window group function may be used in GROUP BY"
        raise _wrong(calls[1], "a query is grouped by one window", "write a query for each")
    for item in select.expressions:
        if item.is_star:
            raise _wrong(item, "* cannot be selected under GROUP BY", "name the columns")
    wide = group.find(*SEVERAL_SETS) if kind == "SESSION" else None
    if wide is not None:
        raise beside_sessions(span_of(wide) or span_of(call))
    return _GroupWindow(call=call, time=_time_column(call, kind), relations=relations_of(select))


def _time_column(call: exp.Anonymous, kind: str) -> exp.Column:
    """The first argument of a window, whose others are as many as they should be."""
    arguments, lengths = call.expressions, LENGTHS[kind]
    if len(arguments) == len(lengths) + 2:
        # Flink: "TUMBLE window with alignment is not supported yet"
        message = f"{kind} with an alignment is not supported in GROUP BY"
        raise UnsupportedError(message, hint=_instead(kind), span=span_of(arguments[-1]))
    if len(arguments) != len(lengths) + 1:
        takes = ", ".join(("a time column", *lengths))
        raise _wrong(call, f"{kind} in GROUP BY takes {takes}", f"GROUP BY {_example(kind)}")
    time = arguments[0]
    if not isinstance(time, exp.Column):
        # Flink: "Window can only be defined over a time attribute column"
        raise _wrong(
            time,
            f"{kind} in GROUP BY needs a time column",
            "declare it in the table: WATERMARK FOR ts AS ..., or pt AS PROCTIME()",
        )
    return time


# --- the rewrite ---


def _translate(select: exp.Select, window: _GroupWindow, queries: set[str]) -> None:
    group = select.args["group"]
    bounds = _put_columns(select, window)
    group.set("expressions", [key for key in group.expressions if key is not window.call])
    keys = list(group.expressions) if window.kind == "SESSION" else []
    data: exp.Expr
    time = window.time
    used = [time, *own_columns(select)]
    hides = any(column.name.lower() in WINDOW_COLUMNS for column in used)
    table = None if hides else _table(select, [time, *keys], queries)
    if table is not None:
        table.set("alias", None)
        data = table
    else:
        grouped = GroupedInput(select, window.alias, window.relations)
        time = grouped.take(time)
        grouped.take_all(keys)
        data = grouped.build()
    arguments: list[exp.Expr] = [data]
    if window.kind == "SESSION" and group.expressions:
        arguments.append(_partition(group.expressions))
    time.set("table", None)
    arguments.append(exp.Anonymous(this="DESCRIPTOR", expressions=[time]))
    call = exp.Anonymous(this=window.kind, expressions=arguments + window.call.expressions[1:])
    call.meta[GROUP_WINDOW] = True
    position_as(call, window.call)
    group.set("expressions", [*group.expressions, *bounds])
    alias = exp.TableAlias(this=exp.to_identifier(window.alias, quoted=True))
    select.set("from_", exp.From(this=exp.Table(this=call, alias=alias)))


def _put_columns(select: exp.Select, window: _GroupWindow) -> list[exp.Expr]:
    """Replace the parts of a window in the query by columns of the function; returns those to group by."""
    columns = dict.fromkeys(("window_start", "window_end"))
    for node in own_nodes(select):
        if not _is_call(node) or node.name.upper() not in PARTS:
            continue
        _check_fit(node, window)
        _check_selected(node, select)
        _, name = PARTS[node.name.upper()]
        if name:
            columns[name] = None
            node.replace(placed_column(window.alias, name, node))
        else:
            node.replace(position_as(exp.Anonymous(this="PROCTIME", expressions=[]), node))
    return [placed_column(window.alias, name, window.call) for name in columns]


def _table(select: exp.Select, columns: Sequence[exp.Expr], queries: set[str]) -> exp.Table | None:
    """The table in FROM if the function can read it by itself, and by `columns`; `queries` are the names of WITH."""
    from_ = select.args.get("from_")
    table = None if from_ is None else from_.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return None
    more = [key for key, value in table.args.items() if value and key not in TABLE_PARTS]
    alias = table.args.get("alias")
    if more or select.args.get("joins") or select.args.get("laterals"):
        return None
    if table.name in queries or (alias is not None and alias.columns):
        return None
    return table if all(_is_of(column, table.alias_or_name) for column in columns) else None


def _is_of(node: exp.Expr, table: str) -> bool:
    names = [part.name for part in node.parts] if isinstance(node, exp.Column) else []
    return len(names) == 1 or (len(names) == 2 and names[0] == table)


def _partition(keys: Sequence[exp.Expr]) -> exp.Kwarg:
    """PARTITION BY the names of the keys: sessions are of a group."""
    names = [exp.column(exp.to_identifier(key.name, quoted=True)) for key in keys]
    return exp.Kwarg(this=exp.var(PARTITION_ARGUMENT), expression=exp.Tuple(expressions=names))


# --- what does not fit ---


def _check_fit(part: exp.Expr, window: _GroupWindow) -> None:
    name, kind = part.name.upper(), window.kind
    if PARTS[name][0] != kind:
        suffix = name.rpartition("_")[2]
        message = f"{name} does not go with {kind} in GROUP BY"
        raise _wrong(part, message, f"write {kind}_{suffix}")
    if not _is_same_window(part.expressions, window):
        # Calcite: "must have matching call to group function in GROUP BY clause"
        arguments = ", ".join(argument.sql("flink") for argument in window.call.expressions)
        message = f"{name} has other arguments than {kind} in GROUP BY"
        raise _wrong(part, message, f"write {name}({arguments})")


def _check_selected(part: exp.Expr, select: exp.Select) -> None:
    """Refuse what Spark has not: it names a session by what is selected of it, behind GROUP BY."""
    name = part.name.upper()
    if PARTS[name][0] != "SESSION" or not PARTS[name][1]:
        return
    clause = part.find_ancestor(exp.Having, exp.Order)
    selected = (item.unalias() for item in select.expressions)
    if clause is None or any(_column_of(item) == PARTS[name][1] for item in selected):
        return
    raise UnsupportedError(
        f"{name} in {'HAVING' if isinstance(clause, exp.Having) else 'ORDER BY'} is supported where it is selected",
        hint=f"SELECT {name}(...) AS name, ...",
        span=span_of(part),
    )


def _column_of(item: exp.Expr) -> str:
    """The column of the function that an item selects, or will: the call may have been replaced."""
    return (
        PARTS[item.name.upper()][1] if _is_call(item) and item.name.upper() in PARTS else item.name
    )


def _is_same_window(arguments: Sequence[exp.Expr], window: _GroupWindow) -> bool:
    time, own = next(iter(arguments), None), window.call.expressions
    return (
        isinstance(time, exp.Column)
        and is_same_column(time, window.time, window.relations)
        and len(arguments) == len(own)
        and all(map(_is_same_length, arguments[1:], own[1:]))
    )


def _is_same_length(one: exp.Expr, other: exp.Expr) -> bool:
    if isinstance(one, exp.Interval) and isinstance(other, exp.Interval):
        return interval_value(one) == interval_value(other)
    return one == other


def _misplaced(call: exp.Expr) -> InputError:
    name = call.name.upper()
    if name in PARTS:
        kind, _ = PARTS[name]
        message = f"{name} needs {kind} with the same arguments in GROUP BY of its SELECT"
        return _wrong(call, message, f"GROUP BY {_example(kind)}")
    if call.find_ancestor(exp.Group):
        message = f"{name} inside another expression of GROUP BY is not supported"
        return UnsupportedError(message, hint=_instead(name), span=span_of(call))
    message = f"{name} is written in GROUP BY, or with a table in FROM"
    return _wrong(call, message, f"{name}_START and {name}_END give the bounds of a window")


def _example(kind: str) -> str:
    return f"{kind}(ts, {', '.join(LENGTHS[kind])})"


def _instead(kind: str) -> str:
    """The windowing function, which does more."""
    lengths = ", ".join(LENGTHS[kind])
    return (
        f"write the windowing table function: FROM TABLE({kind}(TABLE t, DESCRIPTOR(ts), {lengths})) "
        "GROUP BY window_start, window_end"
    )


def _wrong(node: exp.Expr, message: str, hint: str) -> InputError:
    return DefinitionError(message, hint=hint, span=span_of(node))
