"""From the text of a statement to the statement as a value: parsed, names resolved, checked.

All that can be wrong is found here, at its place, before anything runs: syntax, names, columns,
types, functions. Options of connectors are the connectors' to check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from penstock.catalog.errors import (
    InputError,
    InputErrors,
    SqlSyntaxError,
    UnsupportedError,
)
from penstock.catalog.names import Namespace
from penstock.sql.compound import ExplainText, SetText, cut
from penstock.sql.dialect.ddl_nodes import ReplaceTable
from penstock.sql.dialect.nodes import (
    AlterFunction,
    AlterMaterializedTable,
    AnalyzeTable,
    CallProcedure,
    CreateFunction,
    CreateMaterializedTable,
    DropFunction,
    DropMaterializedTable,
    JarStatement,
    ModuleStatement,
    SecretStatement,
    StopJobStatement,
)
from penstock.sql.insertion import lower_insert
from penstock.sql.lookup import check_query, find_object, identifier_of
from penstock.sql.lowering.functions import (
    lower_alter_function,
    lower_create_function,
    lower_drop_function,
)
from penstock.sql.lowering.materialized import (
    lower_alter_materialized,
    lower_create_materialized,
    lower_drop_materialized,
)
from penstock.sql.lowering.places import lower_show_create_catalog, lower_use
from penstock.sql.lowering.rows import (
    lower_analyze,
    lower_call,
    lower_delete,
    lower_truncate,
    lower_update,
)
from penstock.sql.lowering.secrets import lower_secret
from penstock.sql.lowering.session import lower_jar, lower_modules, lower_stop
from penstock.sql.lowering.shown import lower_described, lower_show_create, lower_show_list
from penstock.sql.lowering.tables import lower_alter, lower_create, lower_drop
from penstock.sql.script import StatementText
from penstock.sql.statements import (
    CreateTableAs,
    Describe,
    Explain,
    InsertInto,
    ReplaceTableAs,
    ResetOption,
    Select,
    SetOption,
    ShowOptions,
    ShowTables,
    Statement,
    StatementSet,
)
from penstock.sql.syntax import parse_tree

__all__ = ["parse_statement"]

Explained = Select | InsertInto | StatementSet | CreateTableAs | ReplaceTableAs
"""What has a plan."""


def parse_statement(text: StatementText, namespace: Namespace) -> Statement:
    """The statement that a text says, against the tables and views of a namespace.

    Raises SqlSyntaxError, UnsupportedError, UnknownObjectError, DefinitionError, ObjectExistsError,
    or InputErrors if there are several.
    """
    try:
        match cut(text):
            case SetText(inserts=inserts):
                return _statement_set(inserts, text, namespace)
            case ExplainText() as asked:
                return _explain(asked, text, namespace)
        return _lower(parse_tree(text), text, namespace)
    except InputErrors as errors:
        raise errors.errors[0] if len(errors.errors) == 1 else errors from None


# --- statements ---


def _statement_set(
    texts: Sequence[StatementText], text: StatementText, namespace: Namespace
) -> StatementSet:
    """The value of a set. Raises InputErrors with all that is wrong in its INSERTs."""
    inserts: list[InsertInto] = []
    errors: list[InputError] = []
    for one in texts:
        try:
            insert = _lower(parse_tree(one), one, namespace)
            assert isinstance(insert, InsertInto), "a set was cut into its INSERTs"
            inserts.append(insert)
        except InputErrors as found:
            errors += found.errors
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors)
    return StatementSet(inserts=tuple(inserts), span=text.span)


def _explain(asked: ExplainText, text: StatementText, namespace: Namespace) -> Explain:
    explained = asked.explained
    statement = parse_statement(explained, namespace)
    if not isinstance(statement, Explained):
        raise UnsupportedError(
            "only queries, INSERTs, statement sets and tables made of a query have a plan",
            hint="EXPLAIN SELECT ..., EXPLAIN INSERT ..., EXPLAIN STATEMENT SET BEGIN ... END or "
            "EXPLAIN CREATE TABLE ... AS SELECT ...",
            span=explained.span,
        )
    return Explain(statement=statement, details=asked.details, span=text.span)


def _lower(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    if isinstance(tree, exp.Query | exp.Values):
        output = check_query(tree, namespace)
        return Select(query=tree, output=output, source=text, span=text.span)
    lower = LOWER.get(type(tree))
    if lower is None:
        raise SqlSyntaxError("this is no statement", span=text.span)
    return lower(tree, text, namespace)


def _set(tree: exp.Expr, text: StatementText, _: Namespace) -> Statement:
    items = tree.expressions
    if tree.args.get("unset"):
        return ResetOption(key=items[0].this.name if items else None, span=text.span)
    if not items:
        return ShowOptions(span=text.span)
    pair = items[0].this
    return SetOption(key=pair.this.name, value=pair.expression.name, span=text.span)


def _show(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    if not tree.name.startswith("CREATE") and tree.name not in ("TABLES", "VIEWS"):
        return lower_show_list(tree, text, namespace)
    target = tree.args.get("target")
    if target is not None and tree.name == "CREATE CATALOG":
        return lower_show_create_catalog(target, text, namespace)
    if target is not None:
        return lower_show_create(tree, text, namespace)
    catalog, database = namespace.current_catalog, namespace.current_database
    if place := tree.args.get("db"):
        catalog, database = (catalog, *(part.name for part in place.parts))[-2:]
    word, like = tree.text("scope_kind"), tree.args.get("like")
    return ShowTables(
        views_only=tree.name == "VIEWS",
        catalog=catalog,
        database=database,
        pattern=like.name if like else None,
        negated=word.startswith("NOT"),
        ignore_case=word.endswith("ILIKE"),
        span=text.span,
    )


def _describe(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    if tree.args.get("kind"):
        return lower_described(tree, text, namespace)
    identifier = identifier_of(tree.this, text, namespace)
    find_object(identifier, tree.this, text, namespace)
    extended = tree.args.get("style") is not None
    return Describe(identifier=identifier, extended=extended, span=text.span)


LOWER: dict[type[exp.Expr], Callable[[exp.Expr, StatementText, Namespace], Statement]] = {
    exp.Alter: lower_alter,
    exp.Create: lower_create,
    exp.Drop: lower_drop,
    ReplaceTable: lower_create,
    exp.Insert: lower_insert,
    exp.Set: _set,
    exp.Show: _show,
    exp.Use: lower_use,
    exp.Describe: _describe,
    exp.Update: lower_update,
    exp.Delete: lower_delete,
    exp.TruncateTable: lower_truncate,
    AnalyzeTable: lower_analyze,
    CallProcedure: lower_call,
    CreateFunction: lower_create_function,
    AlterFunction: lower_alter_function,
    DropFunction: lower_drop_function,
    CreateMaterializedTable: lower_create_materialized,
    AlterMaterializedTable: lower_alter_materialized,
    DropMaterializedTable: lower_drop_materialized,
    JarStatement: lower_jar,
    ModuleStatement: lower_modules,
    SecretStatement: lower_secret,
    StopJobStatement: lower_stop,
}
