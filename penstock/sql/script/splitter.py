"""Split a text into statements, and statements that hold others into what they hold; mask values of secrets.

Statement sets and EXPLAIN are cut by their tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.catalog.errors import (
    InputError,
    InputErrors,
    Span,
    SqlSyntaxError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.masking import keep_secret
from penstock.sql.dialect import Flink
from penstock.sql.syntax.positions import LineMap, Source, extent

_VERBS = ("CREATE", "ALTER")

_ALIKE = 0.75  # by difflib: a letter or two lost, doubled or swapped

_WORDS = re.compile(r"(?<!\w)(?P<verb>\w{4,8})\s+(?P<noun>s\w{4,8})\b", re.IGNORECASE)

_REST = re.compile(r"(?:'(?:[^']|'')*+'|[^;'])*+(?:'[^;]*)?")

_TEXT = re.compile(r"'((?:[^']|'')*+)(?:'|\Z)")


def states_secret(text: str) -> bool:
    """Return whether a statement has the value of a secret, or was meant to (a typo)."""
    return any(True for _ in _stated(text))


def mask_stated_secrets(text: str) -> None:
    """Mask the values of CREATE SECRET and ALTER SECRET in a text, before any message about the text."""
    for rest in _stated(text):
        for found in _TEXT.finditer(rest):
            keep_secret(found[1].replace("''", "'"))


def _stated(text: str) -> Iterable[str]:
    """Return what follows the first words of statements that hold a value."""
    for found in _WORDS.finditer(text):
        if _like(found["noun"].upper(), ("SECRET",)) and _like(found["verb"].upper(), _VERBS):
            rest = _REST.match(text, found.end())
            yield "" if rest is None else rest[0]


@lru_cache(maxsize=256)
def _like(word: str, known: tuple[str, ...]) -> bool:
    return any(SequenceMatcher(None, word, each).ratio() >= _ALIKE for each in known)


_LEXICAL = re.compile(
    r"""(?<!\w)[xX]'(?P<hex>[^']*+)' | '(?:[^']|'')*+' | `(?:[^`]|``)*+` | --[^\n]* | //[^\n]* |
        /\*.*?\*/ | (?P<open>['`]|/\*)""",
    re.DOTALL | re.VERBOSE,
)

_NO_HEX = re.compile(r"[^0-9A-Fa-f]")

_OPENED = {"'": "string", "`": "quoted name", "/*": "comment"}

_SET_BEGINS = re.compile(r"(?:EXPLAIN .*)?(?:EXECUTE )?STATEMENT SET BEGIN |BEGIN STATEMENT SET ")

BLOCK_WORDS = 16
"""Tokens within which a statement set has begun: EXPLAIN may have all its details in front."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementText:
    """One statement of a source. `offset` is where it starts there, `index` counts from 1.

    Tokens and syntax nodes have offsets into the whole source, not into `text`.
    """

    text: str
    offset: int
    index: int
    source: Source = field(repr=False)
    tokens: tuple[Token, ...] = field(default=(), repr=False, compare=False)

    @property
    def file(self) -> str:
        """The file that the statement is written in."""
        return self.source.file

    @property
    def span(self) -> Span:
        """The first line of the statement."""
        return self.source.span(self.offset, self.offset + len(self.text) - 1)

    def locate(self, node: exp.Expr) -> Span:
        """The place of a syntax node; of the whole statement if the node was made by code."""
        found = extent(node)
        return self.source.span(*found) if found else self.span

    @contextmanager
    def placing(self, node: exp.Expr) -> Iterator[None]:
        """Add the position of `node` to an InputError of the body that has none; those of
        InputErrors have their own.
        """
        try:
            yield
        except InputErrors:
            raise
        except InputError as error:
            error.span = error.span or self.locate(node)
            raise


def split(text: str, file: str, line_map: LineMap | None = None) -> tuple[StatementText, ...]:
    """Cut a text into statements. Raises SqlSyntaxError for a string or comment without an end."""
    statements, error = split_all(Source(file=file, text=text, line_map=line_map))
    if error is not None:
        raise error
    return statements


def split_all(source: Source) -> tuple[tuple[StatementText, ...], SqlSyntaxError | None]:
    """As `split`; returns the statements before the error beside it. Secrets in the text are masked from now on."""
    mask_stated_secrets(source.text)
    error = _lexical_error(source)
    text = source.text if error is None else source.text[: error[0]]
    statements: list[StatementText] = []
    for tokens in _statements(Flink().tokenize(text)):
        start, end = tokens[0].start, tokens[-1].end + 1
        statements.append(
            StatementText(
                text=source.text[start:end],
                offset=start,
                index=len(statements) + 1,
                source=source,
                tokens=tuple(tokens),
            )
        )
    if error is None:
        return tuple(statements), None
    if statements and ";" not in text[statements[-1].offset :]:
        statements.pop()  # the one that the error is in
    return tuple(statements), error[1]


def _lexical_error(source: Source) -> tuple[int, SqlSyntaxError] | None:
    """The first string, name or comment that cannot be read, and where it starts."""
    for match in _LEXICAL.finditer(source.text):
        if match["open"]:
            span = source.span(match.start("open"), match.end("open") - 1)
            return match.start(), SqlSyntaxError(
                f"this {_OPENED[match['open']]} has no end", span=span
            )
        if match["hex"] and _NO_HEX.search(match["hex"]):
            span = source.span(match.start(), match.end() - 1)
            return match.start(), SqlSyntaxError("this is no hexadecimal text", span=span)
    return None


def _statements(tokens: Sequence[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON or _inside_block(found[-1]):
            found[-1].append(token)
        else:
            found.append([])
    return [statement for statement in found if statement]


def _inside_block(tokens: Sequence[Token]) -> bool:
    """Return whether a statement set has begun and not ended: its INSERTs belong together."""
    words = "".join(f"{token.text.upper()} " for token in tokens[:BLOCK_WORDS])
    if _SET_BEGINS.match(words) is None:
        return False
    kinds = [token.token_type for token in tokens]
    # each CASE has an END of its own
    return kinds.count(TokenType.END) <= kinds.count(TokenType.CASE)


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
