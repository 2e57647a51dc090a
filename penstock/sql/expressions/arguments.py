"""Arguments of functions that reading tasks compute, by what a function may take; modules of functions ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from penstock.catalog.model import types as t
from penstock.connector.expression import Constant, Expression, FunctionCall
from penstock.sql.expressions.value_types import STRING, OutsideError

Compile = Callable[[exp.Expr], Expression]
"""Compiles an argument. Raises OutsideError where it is not in the set."""

FunctionForm = Callable[[Sequence[exp.Expr], Compile], Expression]
"""Compiles a call of a function by its arguments."""

_LARGEST = 2**31


def text_of(tree: exp.Expr | None, compiled: Compile) -> Expression:
    """Compile a text."""
    value = None if tree is None else compiled(tree)
    if value is None or not isinstance(value.type, t.VarCharType):
        raise OutsideError
    return value


def constant_text(tree: exp.Expr | None, *, empty: bool = False) -> str:
    """Return a text that is written out; `empty` ones where they are taken, too."""
    if not isinstance(tree, exp.Literal) or not tree.is_string or not (tree.name or empty):
        raise OutsideError
    return tree.name


def constant_number(tree: exp.Expr | None) -> int:
    """Return a whole number that is written out, of the size of an INT."""
    node = tree.unnest() if tree is not None else None
    if isinstance(node, exp.Neg):
        return -constant_number(node.this)
    if not isinstance(node, exp.Literal) or node.is_string or not node.is_int:
        raise OutsideError
    value = int(node.name)
    if value >= _LARGEST:
        raise OutsideError
    return value


def text_constant(value: str) -> Constant:
    """Return a text as an argument."""
    return Constant(value=value, type=STRING)


def number_constant(value: int) -> Constant:
    """Return a whole number as an argument."""
    return Constant(value=value, type=t.IntType())


def text_call(function: str, *arguments: Expression) -> Expression:
    """Return a call that gives a text."""
    return FunctionCall(function=function, arguments=arguments, type=STRING)
