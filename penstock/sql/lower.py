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
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.names import Namespace
from penstock.sql.catalog_changes import apply
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
from penstock.sql.positions import LineMap, Source
from penstock.sql.script import StatementText, split_all
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

__all__ = ["apply", "parse_script", "parse_statement"]

PASSED_OVER = ("TEMPORARY", "SYSTEM")
Explained = Select | InsertInto | StatementSet | CreateTableAs | ReplaceTableAs
"""What has a plan."""


def parse_script(
    text: str, file: str, namespace: Namespace, line_map: LineMap | None = None
) -> tuple[Statement, ...]:
    """The statements of a file, each checked against what those before it define.

    `namespace` stays as it is. Raises InputErrors with everything that is wrong in the file.
    """
    texts, broken_end = split_all(Source(file=file, text=text, line_map=line_map))
    draft = namespace.overlay()
    statements: list[Statement] = []
    errors: list[InputError] = []
    undefined: set[str] = set()
    for one in texts:
        try:
            statement = parse_statement(one, draft)
            apply(statement, draft)
            statements.append(statement)
        except InputError as error:
            found = error.errors if isinstance(error, InputErrors) else (error,)
            errors += [e for e in found if not _follows(e, undefined)]
            undefined |= _defined_name(one)
    if broken_end is not None:
        errors.append(broken_end)
    if errors:
        raise InputErrors(errors)
    return tuple(statements)


def _defined_name(text: StatementText) -> set[str]:
    """The name that a broken CREATE was to define: that it is missing later is no news."""
    words = [token.text for token in text.tokens[:12]]
    upper = [word.upper() for word in words]
    if upper[:1] != ["CREATE"]:
        return set()
    passed_over = (*PASSED_OVER, "CREATE", "OR", "REPLACE")
    rest = [w for w, u in zip(words, upper, strict=True) if u not in passed_over][1:]
    if [word.upper() for word in rest[:3]] == ["IF", "NOT", "EXISTS"]:
        rest = rest[3:]
    while len(rest) > 2 and rest[1] == ".":
        rest = rest[2:]
    return {rest[0]} if rest else set()


def _follows(error: InputError, undefined: set[str]) -> bool:
    """Whether an error is only that one of the names is missing."""
    if not isinstance(error, UnknownObjectError) or error.span is None:
        return False
    start = error.span.column - 1
    name = error.span.line_text[start : start + error.span.length]
    return name.rpartition(".")[2].strip("`") in {word.strip("`") for word in undefined}


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
