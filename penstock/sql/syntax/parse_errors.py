"""What is wrong with a text, at which token: the parser's errors, with words for people.

What sqlglot's optimizer refuses is told from bugs of our own that come up while it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parser import SENTINEL_NONE, Parser
from sqlglot.tokenizer_core import Token, TokenType

EXPECTED = re.compile(r"^Expect(?:ed|ing) (?P<what>.+?)(?: but got .*| after CAST)?$", re.DOTALL)
NAMED = {
    "TYPE": "a type",
    "table name": "a table name",
    "CTE to have alias": "a name for the query",
}


class FlinkParseError(ParseError):
    """A text that is no Flink SQL, or (`unsupported`) Flink SQL that Penstock does not run.

    `start` and `end` are offsets of the token in the text, both inclusive; at the end of the text
    they point just behind the last token.
    """

    def __init__(
        self,
        message: str,
        *,
        start: int,
        end: int,
        hint: str | None = None,
        unsupported: bool = False,
        previous: Token | None = None,
        token: Token | None = None,
        errors: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(message, errors)
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint
        self.unsupported = unsupported
        self.previous = previous
        self.token = token


PLACEHOLDER = re.compile(r"\$\{\s*(?:env:)?(\w+)[^}]*\}?")
"""A value that something else was to put in before."""


class NodeError(Exception):
    """A node that cannot be used as it stands, mostly because Spark has no form of it."""

    def __init__(self, message: str, node: exp.Expr, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.hint = hint


def quoted(token: Token) -> str:
    """How a message names a token: 'x', a string by its kind, the end of the statement."""
    if token.token_type == TokenType.STRING:
        return "a string"  # not its text: it may be a password
    if token.token_type == TokenType.HINT:
        return "a hint"
    return f"'{token.text}'"


def describe(message: str, token: Token | None) -> str:
    """Sqlglot's message in SQL's words; `token` is None at the end of the statement."""
    found = quoted(token) if token else "the end of the statement"
    if match := EXPECTED.match(message):
        what = match["what"].strip()
        what = NAMED.get(what, f"'{what}'" if not what[:1].isalnum() else what)
        return f"expected {what}, found {found}"
    if message.startswith(("Invalid expression", "Required ", "Failed to parse")):
        return f"unexpected {found}" if token else "the statement ends too early"
    return message


class ReportingParser(Parser):
    """sqlglot's parser, raising FlinkParseError."""

    def raise_error(
        self,
        message: str,
        token: Token = SENTINEL_NONE,
        *,
        hint: str | None = None,
        unsupported: bool = False,
    ) -> NoReturn:
        """Raise at `token`, or at the token that comes next."""
        at = token or self._curr
        last = self._prev or (self._tokens[-1] if self._tokens else None)
        if at:
            start, end, line, column = at.start, at.end, at.line, at.col
        elif last:
            start = end = last.end + 1
            line, column = last.line, last.col
        else:
            start = end = line = column = 0
        text = describe(message, at or None)
        if at and (outer := PLACEHOLDER.match(self.sql, max(at.start - 1, 0))):
            hint = (
                f"files are templates: {{{{ var('{outer[1]}') }}}} takes a value from --var {outer[1]}=... or the "
                f"project file, {{{{ env_var('{outer[1]}') }}}} one of the environment"
            )
        raise FlinkParseError(
            text,
            start=start,
            end=end,
            hint=hint,
            unsupported=unsupported,
            previous=self._before(at) if at else last,
            token=at or None,
            errors=[{"description": text, "line": line, "col": column}],
        )

    def refuse(self, what: str, hint: str | None = None, token: Token = SENTINEL_NONE) -> NoReturn:
        """Raise for Flink SQL that Penstock does not run; `what` is the subject of the message."""
        self.raise_error(f"{what} is not supported", token, hint=hint, unsupported=True)

    def _before(self, token: Token) -> Token | None:
        if token is self._curr:
            return self._prev or None
        index = next((i for i, t in enumerate(self._tokens) if t is token), 0)
        return self._tokens[index - 1] if index else None


OPTIMIZER_ERRORS = (SqlglotError, KeyError, AttributeError, IndexError, TypeError, ValueError)
"""What sqlglot's optimizer raises on a query that it does not follow."""


def is_refusal(error: Exception) -> bool:
    """Return whether sqlglot raised an error: the innermost frame of either package is one of sqlglot's."""
    owner, trace = "", error.__traceback__
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        owner = package if package in {"sqlglot", "penstock"} else owner
        trace = trace.tb_next
    return owner == "sqlglot"


@contextmanager
def refusals_ignored() -> Iterator[None]:
    """Leave a block where sqlglot does not follow a query; errors of our own code go on."""
    try:
        yield
    except OPTIMIZER_ERRORS as error:
        if not is_refusal(error):
            raise
