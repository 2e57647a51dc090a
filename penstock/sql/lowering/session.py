"""Jars, jobs and modules: from the syntax tree to the statement."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, UnknownObjectError, UnsupportedError
from penstock.catalog.names import Namespace
from penstock.sql.script import StatementText
from penstock.sql.show_statements import AddJar, StopJob, UseModules

__all__ = ["lower_jar", "lower_modules", "lower_stop"]

CORE = "core"
"""The one module that there is: the built-in functions."""


def lower_jar(tree: exp.Expr, text: StatementText, _: Namespace) -> AddJar:
    """The value of ADD JAR. Raises UnsupportedError for REMOVE JAR."""
    if tree.text("action") == "REMOVE":
        raise UnsupportedError(
            "REMOVE JAR is not supported",
            hint="Spark cannot unload classes: start anew without the jar",
            span=text.span,
        )
    if not tree.this.name.endswith(".jar"):
        raise DefinitionError(
            f"'{tree.this.name}' is no jar",
            hint="name a file that ends in .jar",
            span=text.locate(tree.this),
        )
    return AddJar(path=tree.this.name, span=text.span)


def lower_stop(tree: exp.Expr, text: StatementText, _: Namespace) -> StopJob:
    """The value of STOP JOB. Raises UnsupportedError for WITH DRAIN."""
    if tree.args.get("drain"):
        raise UnsupportedError(
            "STOP JOB ... WITH DRAIN is not supported",
            hint="leave WITH DRAIN out: the batch in flight is finished, open windows stay in the checkpoint",
            span=text.span,
        )
    return StopJob(job=tree.this.name, savepoint=bool(tree.args.get("savepoint")), span=text.span)


def lower_modules(tree: exp.Expr, text: StatementText, _: Namespace) -> UseModules:
    """The value of USE MODULES core. Raises InputError for anything else about modules."""
    action = tree.text("action")
    for name in tree.expressions:
        if name.name == CORE and action == "UNLOAD":
            raise UnsupportedError(
                f"the module {CORE} cannot be unloaded",
                hint="there is no other that would have functions",
                span=text.locate(name),
            )
        if name.name == CORE and action == "LOAD":
            raise DefinitionError(f"the module {CORE} is loaded already", span=text.locate(name))
        if name.name != CORE and action == "LOAD":
            raise UnsupportedError(
                f"the module '{name.name}' is not supported",
                hint="Penstock has Flink's core functions; register others with CREATE FUNCTION",
                span=text.locate(name),
            )
        if name.name != CORE:
            raise UnknownObjectError(
                f"there is no module '{name.name}'",
                hint=f"{CORE} is the only one",
                span=text.locate(name),
            )
    names = [name.name for name in tree.expressions]
    if len(set(names)) < len(names):
        raise DefinitionError("a module is named twice", span=text.span)
    return UseModules(span=text.span)
