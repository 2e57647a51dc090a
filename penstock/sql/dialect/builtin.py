"""The names of the functions that every query can call."""

from __future__ import annotations

from penstock.sql.dialect.functions import FUNCTIONS
from penstock.sql.dialect.query import NODES
from penstock.sql.dialect.special_calls import SYNTAX

__all__ = ["built_in_functions", "is_built_in"]


def built_in_functions() -> list[str]:
    """The functions that run, in lower case, sorted."""
    names = [name for name, row in FUNCTIONS.items() if row.refusal is None]
    return sorted({name.lower() for name in (*names, *NODES, *SYNTAX)})


def is_built_in(name: str) -> bool:
    """Whether Flink has a function of this name, which may be one that is refused here."""
    return name.upper() in {*FUNCTIONS, *NODES, *SYNTAX}
