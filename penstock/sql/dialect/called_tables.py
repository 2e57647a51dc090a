"""Calls of table functions in FROM, TABLE(f(x)) and LATERAL TABLE(f(x)), and how Spark writes them.

The functions are the users' own; windowing functions, whose arguments are tables, are in windows.py.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.dialect.table_functions import WINDOW_FUNCTIONS

__all__ = [
    "calling_relation",
    "is_always",
    "is_left",
    "keeping_name",
    "table_call",
    "takes_values",
]

WRAPPER = "TABLE"
KEEPING = "penstock_left_"


def table_call(relation: exp.Expr) -> exp.Anonymous | None:
    """The call f(x) of TABLE(f(x)) and of LATERAL TABLE(f(x)); None for windowing functions and other relations."""
    call = relation.this if isinstance(relation, exp.Table | exp.Lateral) else None
    if not isinstance(call, exp.Anonymous):
        return None
    if isinstance(relation, exp.Table):
        return None if call.name.upper() in WINDOW_FUNCTIONS else call
    inner = call.expressions[0] if call.name.upper() == WRAPPER and call.expressions else None
    return inner if isinstance(inner, exp.Anonymous) else None


def calling_relation(call: exp.Anonymous) -> exp.Table | exp.Lateral | None:
    """The relation in FROM that a call makes; None for one that stands where a value does."""
    above = call.parent
    if isinstance(above, exp.Anonymous) and above.name.upper() == WRAPPER:
        above = above.parent
    if not isinstance(above, exp.Table | exp.Lateral):
        return None
    return above if table_call(above) is call else None


def takes_values(call: exp.Anonymous) -> bool:
    """Whether the arguments are values, as a user's function takes them: no tables, no descriptors, no names."""
    return not any(
        isinstance(argument, exp.Table | exp.Kwarg)
        or (
            isinstance(argument, exp.Anonymous) and argument.name.upper() in ("DESCRIPTOR", "MODEL")
        )
        for argument in call.expressions
    )


def is_left(relation: exp.Expr) -> bool:
    """Whether a relation is the right side of a LEFT JOIN."""
    join = relation.parent
    return isinstance(join, exp.Join) and join.side.upper() == "LEFT"


def is_always(join: exp.Join) -> bool:
    """Whether a join has no condition but ON TRUE."""
    on = join.args.get("on")
    bare = None if on is None else on.unnest()
    return isinstance(bare, exp.Boolean) and bool(bare.this)


def keeping_name(name: str) -> str:
    """The name in Spark of a table function that gives a row of NULLs where it would give none: for LEFT JOIN."""
    return f"{KEEPING}{name.lower()}"
