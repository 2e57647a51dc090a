"""Split a text into statements, and mask the values of statements that hold a secret.

The text is split by tokens: a `;` in a string, a comment or a quoted name does not end a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.catalog.errors import InputError, InputErrors, Span, SqlSyntaxError
from penstock.catalog.masking import keep_secret
from penstock.sql.dialect import Flink
from penstock.sql.syntax.positions import LineMap, Source, extent

__all__ = [
    "LineMap",
    "Source",
    "StatementText",
    "mask_stated_secrets",
    "split",
    "split_all",
    "states_secret",
]

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
        place = extent(node)
        return self.source.span(*place) if place else self.span

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
