"""Parse the text of a statement to a syntax tree, and refuse what Flink SQL has and Penstock does not run.

Unsupported statements are refused at their first word, before they are parsed; unsupported parts at their node,
with the reason. What depends on the query around it (time attributes, updating results) is refused by the
planner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.catalog.errors import InputError, Span, SqlSyntaxError, UnsupportedError
from penstock.sql.dialect.flink.trees import FLINK
from penstock.sql.dialect.parser.calls import is_built_in
from penstock.sql.dialect.parser.table_functions import WINDOW_FUNCTIONS, table_call, takes_values
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.statement import UNSUPPORTED
from penstock.sql.syntax.misspelling import (
    CLAUSES,
    OTHERS,
    WINDOWS,
    mistaken_join,
    nearest_keyword,
    nearest_word,
    suspect,
)
from penstock.sql.syntax.parse_errors import FlinkParseError
from penstock.sql.syntax.positions import attach, span_of
from penstock.sql.syntax.traversal import all_nodes

__all__ = ["parse_tree", "refuse_unsupported"]

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
        told = hint.startswith("did you mean")
        near = None if told else nearest_keyword(error.token, (*CLAUSES, *OTHERS))
        hint = f"did you mean {near}? {hint}" if near else hint
    return SqlSyntaxError(message, hint=hint, span=span)
