"""Parses SHOW and DESCRIBE in all their forms.

SHOW is a Show: `this` is what is shown in words, `db` the place behind FROM (or the table, for COLUMNS and
PARTITIONS), `target` the object of SHOW CREATE, `like` with `scope_kind` ([NOT] LIKE | ILIKE) the pattern. DESCRIBE
is a Describe whose `kind` is CATALOG, DATABASE, FUNCTION or JOB, and none for a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.statement_parts import PartParser
from penstock.sql.syntax.nodes import PartitionSpec
from penstock.sql.syntax.positions import mark

__all__ = ["LISTED", "ShowParser"]

LIKE_WORDS = ("LIKE", "ILIKE")
PLAIN = (
    ("CURRENT", "CATALOG"),
    ("CURRENT", "DATABASE"),
    ("FULL", "MODULES"),
    ("MODULES",),
    ("JARS",),
    ("JOBS",),
)
"""What is shown whole."""

LISTED = (
    ("CATALOGS",),
    ("DATABASES",),
    ("TABLES",),
    ("VIEWS",),
    ("MATERIALIZED", "TABLES"),
    ("COLUMNS",),
    ("USER", "FUNCTIONS"),
    ("FUNCTIONS",),
    ("PROCEDURES",),
    ("MODELS",),
    ("CONNECTIONS",),
    ("SECRETS",),
)
"""What is shown by [FROM place] [[NOT] LIKE | ILIKE 'pattern']; only COLUMNS needs its FROM."""

CREATED = (
    ("TABLE",),
    ("VIEW",),
    ("CATALOG",),
    ("MATERIALIZED", "TABLE"),
    ("OR", "ALTER", "MATERIALIZED", "TABLE"),
    ("MODEL",),
    ("CONNECTION",),
)
"""What SHOW CREATE shows."""

DESCRIBED = ("CATALOG", "DATABASE", "FUNCTION", "JOB", "MODEL", "CONNECTION")


class ShowParser(PartParser):
    """The part of the parser that reads SHOW and DESCRIBE."""

    STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType.DESC: lambda self: self._parse_describe(),
        TokenType.DESCRIBE: lambda self: self._parse_describe(),
        TokenType.SHOW: lambda self: self._parse_show(),
    }

    def _parse_show(self) -> exp.Expr | None:
        if self._match(TokenType.CREATE):
            words = self._match_one_of(CREATED)
            if words is None:
                self._refuse_words("SHOW CREATE", CREATED)
            return exp.Show(this=f"CREATE {words}", target=self._parse_table_parts(schema=True))
        if (words := self._match_one_of(PLAIN)) is not None:
            return exp.Show(this=words)
        if self._match_text_seq("PARTITIONS"):
            return self._parse_show_partitions()
        if (words := self._match_one_of(LISTED)) is None:
            self._refuse_words("SHOW", (*PLAIN, *LISTED, ("PARTITIONS",), ("CREATE",)))
        node = exp.Show(this=words)
        if self._match(TokenType.FROM) or self._match(TokenType.IN):
            node.set("db", self._parse_table_parts(schema=True))
        elif words == "COLUMNS":
            self.raise_error("Expected FROM", hint="SHOW COLUMNS FROM t")
        negated = self._match(TokenType.NOT)
        if self._match_texts(LIKE_WORDS):
            word = self._prev.text.upper()
            node.set("scope_kind", f"NOT {word}" if negated else word)
            node.set("like", self._require_string())
        elif negated:
            self.raise_error("Expected LIKE")
        return node

    def _parse_show_partitions(self) -> exp.Expr:
        node = exp.Show(this="PARTITIONS", db=self._parse_table_parts(schema=True))
        if self._match(TokenType.PARTITION):
            node.set("partition", self._parse_partition_spec())
        return node

    def _parse_describe(self) -> exp.Describe:
        kind = self._curr.text.upper() if self._next else ""
        if kind not in DESCRIBED:
            extended = self._match_extended()
            table = self._parse_table_parts(schema=True)
            return exp.Describe(this=table, style="EXTENDED" if extended else None)
        self._advance()
        if kind == "JOB":
            return exp.Describe(this=self._require_string(), kind=kind)
        extended = self._match_extended()
        name = self._parse_table_parts(schema=True)
        return exp.Describe(this=name, kind=kind, style="EXTENDED" if extended else None)

    def _match_extended(self) -> bool:
        """EXTENDED, where it is not the name itself."""
        extended = self._curr.text.upper() == "EXTENDED" and bool(self._next)
        if extended:
            self._advance()
        return extended

    def _match_one_of(self, forms: tuple[tuple[str, ...], ...]) -> str | None:
        """Pass over the words of one of `forms`, and give them."""
        for words in forms:
            if self._match_text_seq(*words):
                return " ".join(words)
        return None

    def _refuse_words(self, verb: str, known: tuple[tuple[str, ...], ...]) -> None:
        self.raise_error(
            f"Expected what to {verb}",
            hint=f"{verb} {', '.join(' '.join(words) for words in known)}",
        )

    def _parse_partition_spec(self) -> PartitionSpec:
        """(column = value, column), behind the word PARTITION."""
        first = self._prev
        self._match_l_paren()
        parts = self._parse_csv(self._parse_partition_part)
        self._match_r_paren()
        return mark(PartitionSpec(expressions=parts), first, self._prev)

    def _parse_partition_part(self) -> exp.Expr:
        first = self._curr
        name = self._parse_name("a column")
        if not self._match(TokenType.EQ):
            return name
        value = self._require_expression()
        return mark(exp.Property(this=name, value=value), first, self._prev)
