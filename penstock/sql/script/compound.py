"""Statements that hold statements: statement sets and EXPLAIN, cut by their tokens into what they hold.

The statements inside are parsed as any other; this module only knows the words around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from penstock.catalog.errors import SqlSyntaxError, UnsupportedError, did_you_mean
from penstock.sql.script.splitter import StatementText

__all__ = ["Detail", "ExplainText", "SetText", "cut"]

SET_STARTS = (
    ("EXECUTE", "STATEMENT", "SET", "BEGIN"),
    ("STATEMENT", "SET", "BEGIN"),
    ("BEGIN", "STATEMENT", "SET", ";"),
)
"""How a set begins: as Flink writes it now, inside EXPLAIN, and as its SQL client once did."""


class Detail(StrEnum):
    """What EXPLAIN may be asked for beside the plan (Flink's ExplainDetail)."""

    CHANGELOG_MODE = "CHANGELOG_MODE"
    ESTIMATED_COST = "ESTIMATED_COST"
    JSON_EXECUTION_PLAN = "JSON_EXECUTION_PLAN"
    PLAN_ADVICE = "PLAN_ADVICE"


REFUSED = {
    Detail.ESTIMATED_COST: "a stream has no cost that could be told before it runs; CHANGELOG_MODE and PLAN_ADVICE "
    "tell what it keeps",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetText:
    """The INSERTs of a statement set, in order."""

    inserts: tuple[StatementText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainText:
    """The statement that is to be explained, and what is asked for beside its plan."""

    explained: StatementText
    details: tuple[Detail, ...] = ()


def cut(text: StatementText) -> SetText | ExplainText | None:
    """Remove the words around inner statements; None where `text` is a plain statement.

    Raises SqlSyntaxError for a set that is not whole, UnsupportedError for details that cannot be given.
    """
    words = _words(text.tokens[:4])
    if words[0] == "EXPLAIN":
        return _explain(text)
    for start in SET_STARTS:
        if words[: len(start)] == start:
            return _set(text, text.tokens[len(start) :])
    if words[:3] == ("BEGIN", "STATEMENT", "SET"):
        raise _error(text, text.tokens[2], "';' is missing", "BEGIN STATEMENT SET; ... END;")
    return None


def _explain(text: StatementText) -> ExplainText:
    tokens: Sequence[Token] = text.tokens[1:]
    details: list[Detail] = []
    if _words(tokens[:2]) == ("PLAN", "FOR"):
        tokens = tokens[2:]
    else:
        tokens = _after_details(text, tokens, details)
    if not tokens:
        hint = "EXPLAIN [PLAN FOR] SELECT ..., INSERT ... or STATEMENT SET BEGIN ... END"
        raise _error(text, text.tokens[-1], "EXPLAIN what?", hint)
    return ExplainText(explained=_part(text, tokens), details=tuple(dict.fromkeys(details)))


def _after_details(
    text: StatementText, tokens: Sequence[Token], details: list[Detail]
) -> Sequence[Token]:
    """Pass over the details that EXPLAIN is asked for, which `details` gets; refuse those that there are not."""
    known = {detail.value for detail in Detail}
    if (
        tokens
        and did_you_mean(tokens[0].text.upper(), known)
        and tokens[0].text.upper() not in known
    ):
        raise _no_detail(text, tokens[0], known)
    while tokens and (word := tokens[0].text.upper()) in known:
        if (detail := Detail(word)) in REFUSED:
            span = text.source.span(tokens[0].start, tokens[0].end)
            raise UnsupportedError(
                f"EXPLAIN {detail} is not supported", hint=REFUSED[detail], span=span
            )
        details.append(detail)
        tokens = tokens[1:]
        if tokens and tokens[0].token_type == TokenType.COMMA:
            if not tokens[1:] or tokens[1].text.upper() not in known:
                raise _no_detail(text, tokens[1] if tokens[1:] else tokens[0], known)
            tokens = tokens[1:]
    return tokens


def _no_detail(text: StatementText, token: Token, known: set[str]) -> SqlSyntaxError:
    hint = did_you_mean(token.text.upper(), known) or f"there are {', '.join(sorted(known))}"
    return _error(text, token, f"'{token.text}' is no detail of EXPLAIN", hint)


def _set(text: StatementText, tokens: Sequence[Token]) -> SetText:
    first = text.tokens[0]
    if not tokens or tokens[-1].text.upper() != "END":
        hint = "a statement set ends with END; and each INSERT in it with ';'"
        raise _error(text, first, "this statement set has no END", hint)
    body = tokens[:-1]
    if not any(token.token_type != TokenType.SEMICOLON for token in body):
        raise _error(
            text, first, "this statement set is empty", "write INSERTs between BEGIN and END"
        )
    found: list[list[Token]] = [[]]
    for token in body:
        if token.token_type == TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    if found[-1]:
        raise _error(text, tokens[-1], "';' is missing before END", "each INSERT ends with ';'")
    inserts = [one for one in found if one]
    for one in inserts:
        if _makes_a_table(one):
            raise UnsupportedError(
                "CREATE TABLE ... AS inside a statement set is not supported",
                hint="write CREATE TABLE name (columns) WITH (...) before the set, and in it INSERT INTO name "
                "SELECT ...; or CREATE TABLE ... AS by itself, which runs beside the set",
                span=text.source.span(one[0].start, one[0].end),
            )
        if one[0].token_type != TokenType.INSERT:
            message = f"a statement set holds INSERTs only, not {one[0].text.upper()}"
            raise _error(text, one[0], message, "write other statements before it or after it")
    return SetText(inserts=tuple(_part(text, one) for one in inserts))


def _makes_a_table(tokens: Sequence[Token]) -> bool:
    """Return whether this is CREATE TABLE ... AS query, which Flink's client accepts in a set, not
    a plain CREATE TABLE.
    """
    pairs = pairwise(token.text.upper() for token in tokens)
    makes = _words(tokens[:2]) in (("CREATE", "TABLE"), ("REPLACE", "TABLE"), ("CREATE", "OR"))
    return makes and any(
        one == "AS" and two in ("SELECT", "WITH", "VALUES", "TABLE") for one, two in pairs
    )


def _words(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token.text.upper() for token in tokens)


def _part(text: StatementText, tokens: Sequence[Token]) -> StatementText:
    start, end = tokens[0].start, tokens[-1].end + 1
    return replace(text, text=text.source.text[start:end], offset=start, tokens=tuple(tokens))


def _error(text: StatementText, token: Token, message: str, hint: str) -> SqlSyntaxError:
    return SqlSyntaxError(message, hint=hint, span=text.source.span(token.start, token.end))
