"""From the text of a statement to its syntax tree, or to an error that a person can use.

Refuses statements that Flink has and Penstock has not at their first word, by the list of
statements.py, before the parser sees them.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.catalog.errors import InputError, Span, SqlSyntaxError, UnsupportedError
from penstock.sql.dialect.access import FLINK
from penstock.sql.dialect.problems import FlinkParseError
from penstock.sql.misspelling import CLAUSES, OTHERS, mistaken_join, nearest_keyword, suspect
from penstock.sql.positions import attach
from penstock.sql.refusals import refuse_unsupported
from penstock.sql.script import StatementText
from penstock.sql.statements import UNSUPPORTED

__all__ = ["parse_tree"]

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
