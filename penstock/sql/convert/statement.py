"""From the text of a statement to the statement as a value: parsed, names resolved, checked.

All that can be wrong is found here, at its place, before anything runs: syntax, names, columns,
types, functions. Options of connectors are the connectors' to check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, InputErrors, SqlSyntaxError, UnsupportedError
from penstock.sql.convert.dml import (
    convert_analyze,
    convert_call,
    convert_delete,
    convert_truncate,
    convert_update,
)
from penstock.sql.convert.functions import (
    convert_alter_function,
    convert_create_function,
    convert_drop_function,
    convert_secret,
)
from penstock.sql.convert.insert import convert_insert
from penstock.sql.convert.materialized import (
    convert_alter_materialized,
    convert_create_materialized,
    convert_drop_materialized,
)
from penstock.sql.convert.names import check_query, find_object, identifier_of
from penstock.sql.convert.namespaces import convert_show_create_catalog, convert_use
from penstock.sql.convert.parse import parse_tree
from penstock.sql.convert.show import (
    convert_described,
    convert_jar,
    convert_modules,
    convert_show_create,
    convert_show_list,
    convert_stop,
)
from penstock.sql.convert.tables import convert_alter, convert_create, convert_drop
from penstock.sql.script.compound import ExplainText, SetText, cut
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    CreateTableAs,
    Describe,
    Explain,
    ReplaceTableAs,
    ResetOption,
    Select,
    SetOption,
    ShowOptions,
    ShowTables,
    Statement,
    StatementSet,
)
from penstock.sql.syntax.nodes import (
    AlterFunctionStatement,
    AlterMaterializedTableStatement,
    AnalyzeTable,
    CallProcedureStatement,
    CreateFunctionStatement,
    CreateMaterializedTableStatement,
    DropFunctionStatement,
    DropMaterializedTableStatement,
    JarStatement,
    ModuleStatement,
    ReplaceTable,
    SecretStatement,
    StopJobStatement,
)

__all__ = ["parse_statement"]

Explained = Select | InsertInto | StatementSet | CreateTableAs | ReplaceTableAs
"""What has a plan."""


def parse_statement(text: StatementText, namespace: Namespace) -> Statement:
    """The statement of a text, bound to the tables and views of a namespace.

    Raises SqlSyntaxError, UnsupportedError, UnknownObjectError, DefinitionError, ObjectExistsError, or InputErrors if
    there are several.
    """
    try:
        match cut(text):
            case SetText(inserts=inserts):
                return _statement_set(inserts, text, namespace)
            case ExplainText() as asked:
                return _explain(asked, text, namespace)
        return _convert(parse_tree(text), text, namespace)
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
            insert = _convert(parse_tree(one), one, namespace)
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


def _convert(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    if isinstance(tree, exp.Query | exp.Values):
        output = check_query(tree, namespace)
        return Select(query=tree, output=output, source=text, span=text.span)
    lower = CONVERTERS.get(type(tree))
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
        return convert_show_list(tree, text, namespace)
    target = tree.args.get("target")
    if target is not None and tree.name == "CREATE CATALOG":
        return convert_show_create_catalog(target, text, namespace)
    if target is not None:
        return convert_show_create(tree, text, namespace)
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
        return convert_described(tree, text, namespace)
    identifier = identifier_of(tree.this, text, namespace)
    find_object(identifier, tree.this, text, namespace)
    extended = tree.args.get("style") is not None
    return Describe(identifier=identifier, extended=extended, span=text.span)


CONVERTERS: dict[type[exp.Expr], Callable[[exp.Expr, StatementText, Namespace], Statement]] = {
    exp.Alter: convert_alter,
    exp.Create: convert_create,
    exp.Drop: convert_drop,
    ReplaceTable: convert_create,
    exp.Insert: convert_insert,
    exp.Set: _set,
    exp.Show: _show,
    exp.Use: convert_use,
    exp.Describe: _describe,
    exp.Update: convert_update,
    exp.Delete: convert_delete,
    exp.TruncateTable: convert_truncate,
    AnalyzeTable: convert_analyze,
    CallProcedureStatement: convert_call,
    CreateFunctionStatement: convert_create_function,
    AlterFunctionStatement: convert_alter_function,
    DropFunctionStatement: convert_drop_function,
    CreateMaterializedTableStatement: convert_create_materialized,
    AlterMaterializedTableStatement: convert_alter_materialized,
    DropMaterializedTableStatement: convert_drop_materialized,
    JarStatement: convert_jar,
    ModuleStatement: convert_modules,
    SecretStatement: convert_secret,
    StopJobStatement: convert_stop,
}
