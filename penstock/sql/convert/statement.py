"""From the text of a statement to the statement as a value: parsed, names resolved, checked.

All that can be wrong is found here, at its place, before anything runs: syntax, names, columns, types, functions.
Options of connectors are the connectors' to check. Unsupported statements are refused at their first word, before
they are parsed; unsupported parts at their node, with the reason. What depends on the query around it (time
attributes, updating results) is refused by the planner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, InputErrors, Span, SqlSyntaxError, UnsupportedError
from penstock.sql.convert.dml import (
    convert_analyze,
    convert_call,
    convert_delete,
    convert_insert,
    convert_truncate,
    convert_update,
)
from penstock.sql.convert.functions import (
    convert_alter_function,
    convert_create_function,
    convert_drop_function,
    convert_secret,
)
from penstock.sql.convert.materialized import (
    convert_alter_materialized,
    convert_create_materialized,
    convert_drop_materialized,
)
from penstock.sql.convert.names import check_query, find_object, identifier_of
from penstock.sql.convert.namespaces import convert_show_create_catalog, convert_use
from penstock.sql.convert.show import (
    convert_described,
    convert_jar,
    convert_modules,
    convert_show_create,
    convert_show_list,
    convert_stop,
)
from penstock.sql.convert.tables import convert_alter, convert_create, convert_drop
from penstock.sql.dialect.flink.trees import FLINK
from penstock.sql.dialect.parser.calls import is_built_in
from penstock.sql.dialect.parser.table_functions import WINDOW_FUNCTIONS, table_call, takes_values
from penstock.sql.script.splitter import ExplainText, SetText, StatementText, cut
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import (
    UNSUPPORTED,
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
from penstock.sql.syntax.misspelling import (
    CLAUSES,
    OTHERS,
    WINDOWS,
    mistaken_join,
    nearest_keyword,
    nearest_word,
    suspect,
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
from penstock.sql.syntax.parse_errors import FlinkParseError
from penstock.sql.syntax.positions import attach, span_of
from penstock.sql.syntax.traversal import all_nodes

TYPE_HINTS = {
    "RAW": "write BYTES, or the columns that it holds",
    "STRUCTURED": "write ROW<name TYPE, ...>",
    "VARIANT": "write STRING, and take it apart with JSON_VALUE",
    "BITMAP": "write BYTES",
    "GEOGRAPHY": "write STRING or BYTES",
    "DESCRIPTOR": "a descriptor is an argument, not a column",
    "NULL": "write the type that the column is to have",
}

OF_VALUES = ("VARIANT", "NULL")
"""Types that a value may have and a column may not."""

MODELS = ("ML_PREDICT", "ML_EVALUATE", "VECTOR_SEARCH")

CHANGELOGS = ("TO_CHANGELOG", "FROM_CHANGELOG")

INSTEAD = "UNNEST an array, or write a query in its place"

BY_POSITION = "a table function in Python takes values, by their position"

Refusal = tuple[str, str | None]
"""What is not supported, and what to write instead."""


def refuse_unsupported(tree: exp.Expr) -> None:
    """Raise UnsupportedError at the first node of a statement that Penstock cannot run."""
    for node in all_nodes(tree):
        check = CHECKS.get(type(node))
        found = check(node) if check is not None else None
        if found is not None:
            span = span_of(_part(node))
            raise UnsupportedError(f"{found[0]} is not supported", hint=found[1], span=span)


def _part(node: exp.Expr) -> exp.Expr:
    """What a caret is to stand under: of a relation its call, of LATERAL TABLE(f(x)) the inner one."""
    call = node.this if isinstance(node, exp.Table | exp.Lateral) else node
    wraps = isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE"
    return call.expressions[0] if wraps else call


def _type(node: exp.Expr) -> Refusal | None:
    kind = node.this
    if kind == exp.DType.TIMESTAMPTZ:
        return "TIMESTAMP WITH TIME ZONE", "use TIMESTAMP_LTZ, as Flink's own tables do"
    if kind == exp.DType.STRUCT and not node.expressions:
        return "ROW without fields", "leave the column out, or name its fields: ROW<name TYPE, ...>"
    name = node.text("kind") if kind == exp.DType.USERDEFINED else getattr(kind, "value", "")
    if name in OF_VALUES and node.find_ancestor(exp.ColumnDef) is None:
        return None  # CAST(x AS VARIANT)
    return (f"the type {name}", TYPE_HINTS[name]) if name in TYPE_HINTS else None


def _with(node: exp.Expr) -> Refusal | None:
    return ("WITH RECURSIVE", None) if node.args.get("recursive") else None


def _table(node: exp.Expr) -> Refusal | None:
    """A table function that is none of the windowing functions."""
    call = table_call(node)
    if (
        call is None
        and isinstance(node.this, exp.Func)
        and not isinstance(node.this, exp.Anonymous)
    ):
        return f"the table function {node.this.sql_name()}", INSTEAD
    return _table_function(call) if call is not None else None


def _lateral(node: exp.Expr) -> Refusal | None:
    call = table_call(node)
    if call is not None:
        return _table_function(call)
    if isinstance(node.this, exp.Anonymous):
        return f"LATERAL {node.this.name.upper()}", None
    return None


def _table_function(call: exp.Anonymous) -> Refusal | None:
    """One that no user can have registered: the catalog knows others (`sql/binding/functions.py`)."""
    name = call.name.upper()
    if name in MODELS:
        return name, "Penstock runs no models"
    if name in CHANGELOGS:
        return name, "read the topic with a changelog format, or write into one"
    built_in = is_built_in(name) or name in WINDOW_FUNCTIONS
    if not built_in and takes_values(call):
        return None
    near = nearest_word(name, WINDOWS)
    hint = f"did you mean {near}?" if near else INSTEAD if built_in else BY_POSITION
    return f"the table function {name}", hint


def _match(_: exp.Expr) -> Refusal | None:
    return "MATCH_RECOGNIZE", "interval joins and LAG over a table at rest find pairs of rows"


CHECKS: Mapping[type[exp.Expr], Callable[[exp.Expr], Refusal | None]] = {
    exp.DataType: _type,
    exp.Lateral: _lateral,
    exp.MatchRecognize: _match,
    exp.Table: _table,
    exp.With: _with,
}

HEADS = (
    "CREATE", "DROP", "INSERT", "SELECT", "WITH", "VALUES", "SET", "RESET", "SHOW", "DESCRIBE",
    "USE", "EXPLAIN", "EXECUTE", "BEGIN", "ALTER", "UPDATE", "DELETE", "TRUNCATE", "ANALYZE",
    "CALL", "ADD", "REMOVE", "LOAD", "UNLOAD", "STOP", "REPLACE",
)  # fmt: skip

QUERY_STARTS = ("SELECT", "WITH", "VALUES", "(", "TABLE")

SHELL_WORDS = ("HELP", "CLEAR", "QUIT", "EXIT")
"""What Flink's SQL client and the shell take beside statements."""

PASSED_OVER = ("TEMPORARY", "SYSTEM")


def parse_tree(text: StatementText) -> exp.Expr:
    """The syntax tree of a statement, attached to its source.

    Raises SqlSyntaxError, or UnsupportedError for what Flink has and Penstock has not.
    """
    _refuse_unsupported(text)
    return _parse(text)


def _refuse_unsupported(text: StatementText) -> None:
    words = [t.text.upper() for t in text.tokens[:8] if t.text.upper() not in PASSED_OVER]
    line = " ".join(words) + " "
    for refused in UNSUPPORTED:
        if line.startswith(f"{refused} "):
            raise UnsupportedError(
                f"{refused} is not supported", span=_token_span(text, text.tokens[0])
            )
    first = text.tokens[0]
    if words[0] not in (*HEADS, *QUERY_STARTS, "DESC"):
        near = nearest_keyword(first, HEADS)
        hint = f"did you mean {near}?" if near else f"statements begin with {', '.join(HEADS)}"
        if words[0] in SHELL_WORDS:
            hint = "that is typed into `penstock shell`; leave it out of files"
        elif words[0] == "END":
            hint = "END closes a statement set, which BEGIN STATEMENT SET; opens: none is open here"
        raise SqlSyntaxError(
            f"no statement begins with '{first.text}'", hint=hint, span=_token_span(text, first)
        )


def _token_span(text: StatementText, token: Token) -> Span:
    return text.source.span(token.start, token.end)


def _parse(text: StatementText) -> exp.Expr:
    for token in text.tokens:
        if token.token_type == TokenType.UNKNOWN:
            raise SqlSyntaxError(
                f"unexpected {token.text}",
                hint="names are quoted with `backticks`, texts with 'single quotes'",
                span=_token_span(text, token),
            )
    if mistaken := mistaken_join(text.tokens):
        token, keyword = mistaken
        raise SqlSyntaxError(
            f"unexpected '{token.text}'",
            hint=f"did you mean {keyword}? A name that is so near to it is written AS `{token.text}`",
            span=_token_span(text, token),
        )
    try:
        trees = FLINK.parser().parse(list(text.tokens), text.source.text)
    except FlinkParseError as error:
        raise _syntax_error(error, text) from None
    except RecursionError:
        raise SqlSyntaxError("this statement is nested too deeply", span=text.span) from None
    tree = trees[0] if trees else None
    assert tree is not None, "a statement has tokens"
    attach(tree, text.source)
    refuse_unsupported(tree)
    return tree


def _syntax_error(error: FlinkParseError, text: StatementText) -> InputError:
    span = text.source.span(error.start, error.end)
    if error.unsupported:
        return UnsupportedError(error.message, hint=error.hint, span=span)
    message, hint = error.message, error.hint
    if hint is None and (found := suspect(error.token, error.previous, text.tokens)):
        token, keyword = found
        hint = f"did you mean {keyword}?"
        if token is not error.token:
            message, span = f"unexpected '{token.text}'", _token_span(text, token)
    elif hint is not None and error.token is not None:
        suggested = hint.startswith("did you mean")
        near = None if suggested else nearest_keyword(error.token, (*CLAUSES, *OTHERS))
        hint = f"did you mean {near}? {hint}" if near else hint
    return SqlSyntaxError(message, hint=hint, span=span)


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
    if qualifier := tree.args.get("db"):
        catalog, database = (catalog, *(part.name for part in qualifier.parts))[-2:]
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
