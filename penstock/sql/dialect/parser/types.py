"""Parses Flink's data types, every spelling of them, into one tree each.

The trees are sqlglot's own DataType nodes, so that every generator knows them: TIMESTAMP is
TIMESTAMPNTZ, TIMESTAMP_LTZ is TIMESTAMPLTZ, ROW is STRUCT, MULTISET<t> is MAP<t, INT> with
`kind` = MULTISET, a NOT NULL type has `nullable` = False; RAW, STRUCTURED, BITMAP and DESCRIPTOR are
USERDEFINED with their name as `kind`. CHAR and BINARY without a length have length 1; VARCHAR and VARBINARY are
STRING and BYTES then, as Flink's planner reads them (FlinkTypeSystem; its data type page says 1, and its tests do not).
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

__all__ = ["TypeParser"]

MAX_LENGTH = 2_147_483_647
PLAIN = {
    "BOOLEAN": exp.DType.BOOLEAN,
    "TINYINT": exp.DType.TINYINT,
    "SMALLINT": exp.DType.SMALLINT,
    "INT": exp.DType.INT,
    "INTEGER": exp.DType.INT,
    "BIGINT": exp.DType.BIGINT,
    "FLOAT": exp.DType.FLOAT,
    "DOUBLE": exp.DType.DOUBLE,
    "STRING": exp.DType.TEXT,
    "BYTES": exp.DType.VARBINARY,
    "DATE": exp.DType.DATE,
    "NULL": exp.DType.NULL,
    "VARIANT": exp.DType.VARIANT,
}
SIZED = {
    "CHAR": exp.DType.CHAR,
    "VARCHAR": exp.DType.VARCHAR,
    "BINARY": exp.DType.BINARY,
    "VARBINARY": exp.DType.VARBINARY,
}
DECIMALS = {"DECIMAL", "DEC", "NUMERIC"}
TIMES = {
    "TIME": exp.DType.TIME,
    "TIMESTAMP": exp.DType.TIMESTAMPNTZ,
    "TIMESTAMP_LTZ": exp.DType.TIMESTAMPLTZ,
}
NESTED = ("ARRAY", "MAP", "MULTISET", "ROW")
OPAQUE = ("RAW", "STRUCTURED", "BITMAP", "GEOGRAPHY", "DESCRIPTOR")
YEAR_MONTH = ("YEAR", "MONTH", "QUARTER")
DAY_TIME = ("DAY", "WEEK", "HOUR", "MINUTE", "SECOND")
NAMES = (*PLAIN, *SIZED, *DECIMALS, *TIMES, *NESTED, *OPAQUE, "INTERVAL")
LITERALS = (TokenType.DATE, TokenType.TIME, TokenType.TIMESTAMPNTZ, TokenType.TIMESTAMPLTZ)
WORD_EXCLUDED = (
    TokenType.IDENTIFIER,
    TokenType.STRING,
    TokenType.UNICODE_STRING,
    TokenType.HEX_STRING,
    TokenType.NUMBER,
    TokenType.HINT,
    TokenType.UNKNOWN,
)
NO_NAMES = frozenset(
    (
        "ALTER", "AND", "AS", "BETWEEN", "CREATE", "CROSS", "DISTINCT", "DROP", "ELSE", "EXCEPT",
        "FETCH", "FOR", "FROM", "HAVING", "INNER", "INSERT", "INTERSECT", "INTO", "JOIN", "LATERAL",
        "LIKE", "NOT", "ON", "OR", "OUTER", "SELECT", "THEN", "UNION", "USING", "VALUES", "WHEN",
        "WHERE", "WITH",
    )
)  # fmt: skip
"""Words that are never a name without backticks: what they begin would be swallowed."""


class TypeParser(ReportingParser):
    """The part of the parser that reads types."""

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,  # noqa: ARG002
        allow_identifiers: bool = True,  # noqa: ARG002
        with_collation: bool = False,
    ) -> exp.Expr | None:
        # check_func: sqlglot asks whether a typed literal (DATE '2026-01-01') starts here.
        if check_func and not (
            self._curr.token_type in LITERALS and self._next.token_type == TokenType.STRING
        ):
            return None
        # with_collation: CAST, where a type must follow; elsewhere it may be missing.
        if not with_collation and self._curr.text.upper() not in NAMES:
            return None
        return self._parse_data_type(literal=check_func)

    def _parse_data_type(self, *, literal: bool = False) -> exp.DataType:
        first = self._curr
        kind = mark(self._parse_type_name(first, literal=literal), first, self._prev)
        if not literal:
            self._parse_nullability(kind)
            while self._match_texts(("ARRAY", "MULTISET")):  # the standard's postfix: INT ARRAY
                kind = self._collection(self._prev.text.upper(), kind)
                self._parse_nullability(kind)
        return mark(kind, first, self._prev)

    def _parse_nullability(self, kind: exp.DataType) -> None:
        if self._match_pair(TokenType.NOT, TokenType.NULL):
            kind.set("nullable", False)
        elif self._next.token_type != TokenType.ON:  # RETURNING INT NULL ON EMPTY
            self._match(TokenType.NULL)

    def _parse_type_name(self, token: Token, *, literal: bool) -> exp.DataType:
        name = "" if token.token_type in WORD_EXCLUDED else token.text.upper()
        if name not in NAMES:
            self._raise_no_type(token, name)
        self._advance()
        if name in PLAIN:
            if name == "DOUBLE":
                self._match_text_seq("PRECISION")
            return exp.DataType(this=PLAIN[name])
        if name in SIZED:
            return self._parse_sized(name)
        if name in DECIMALS:
            return exp.DataType(this=exp.DType.DECIMAL, expressions=self._parse_sizes(2))
        if name in TIMES:
            return self._parse_time(name, literal=literal)
        if name == "INTERVAL":
            return self._parse_interval_type()
        if name in OPAQUE:
            return self._parse_opaque_type(name)
        return self._parse_row_type() if name == "ROW" else self._parse_collection_type(name)

    def _raise_no_type(self, token: Token, name: str) -> None:
        if not name or not name.replace("_", "").isalnum():
            self.raise_error("Expected TYPE", token)
        near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else None
        self.raise_error(f"unknown type '{token.text}'", token, hint=hint)

    def _parse_sizes(self, most: int) -> list[exp.Expr]:
        sizes: list[exp.Expr] = []
        if not self._match(TokenType.L_PAREN):
            return sizes
        while True:
            if not self._match(TokenType.NUMBER) or not self._prev.text.isdecimal():
                self.raise_error("Expected a whole number", self._curr)
            sizes.append(exp.DataTypeParam(this=exp.Literal.number(self._prev.text)))
            if len(sizes) == most or not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        return sizes

    def _parse_sized(self, name: str) -> exp.DataType:
        sizes = self._parse_sizes(1)
        self._parse_text_encoding()
        longest = not sizes or int(sizes[0].name) == MAX_LENGTH
        if longest and name in ("VARCHAR", "VARBINARY"):
            return exp.DataType(this=PLAIN["STRING" if name == "VARCHAR" else "BYTES"])
        one: list[exp.Expr] = [exp.DataTypeParam(this=exp.Literal.number(1))]
        return exp.DataType(this=SIZED[name], expressions=sizes or one)

    def _parse_text_encoding(self) -> None:
        """Pass over CHARACTER SET name, as Flink's planner writes types: texts are Unicode in any case."""
        if self._match_text_seq("CHARACTER", "SET"):
            self._parse_name("a character set")

    def _parse_time(self, name: str, *, literal: bool) -> exp.DataType:
        kind = exp.DataType(this=TIMES[name], expressions=self._parse_sizes(1))
        if literal or name == "TIMESTAMP_LTZ":
            return kind
        if self._match_text_seq("WITHOUT"):
            self._expect_words("TIME", "ZONE")
        elif self._match_text_seq("WITH", "LOCAL") and name == "TIMESTAMP":
            self._expect_words("TIME", "ZONE")
            kind.set("this", exp.DType.TIMESTAMPLTZ)
        elif name == "TIMESTAMP" and self._match_text_seq("WITH"):
            self._expect_words("TIME", "ZONE")
            kind.set("this", exp.DType.TIMESTAMPTZ)
        return kind

    def _parse_opaque_type(self, name: str) -> exp.DataType:
        """RAW('class', 'snapshot'), STRUCTURED<'class', name TYPE, ...> and types without parameters."""
        parts: list[exp.Expr] = []
        if name == "RAW":
            self._match_l_paren()
            parts = [self._parse_quoted()]
            if self._match(TokenType.COMMA):
                parts.append(self._parse_quoted())
            self._match_r_paren()
        elif name == "STRUCTURED":
            if not self._match(TokenType.LT):
                self.raise_error("Expected <")
            parts = [self._parse_quoted()]
            while self._match(TokenType.COMMA):
                parts.append(self._parse_row_field())
            if not self._match(TokenType.GT):
                self.raise_error("Expected >")
        return exp.DataType(this=exp.DType.USERDEFINED, kind=name, expressions=parts)

    def _parse_quoted(self) -> exp.Literal:
        token = self._curr
        if not self._match(TokenType.STRING):
            self.raise_error("Expected a string", token)
        return mark(exp.Literal.string(token.text), token, token)

    def _expect_words(self, *words: str) -> None:
        """Pass over `words`, or raise at the first that is missing."""
        for word in words:
            if not self._match_text_seq(word):
                self.raise_error(f"Expected {word}")

    def _parse_interval_type(self) -> exp.DataType:
        units = []
        while self._match_texts((*YEAR_MONTH, *DAY_TIME)):
            units.append(self._prev.text.upper())
            self._parse_sizes(2)
            if not self._match_text_seq("TO"):
                break
        if not units:
            self.raise_error("Expected a unit such as DAY TO SECOND")
        family = "YEAR TO MONTH" if units[0] in YEAR_MONTH else "DAY TO SECOND"
        return exp.DataType(this=exp.DType.INTERVAL, expressions=[exp.var(family)])

    def _parse_collection_type(self, name: str) -> exp.DataType:
        if not self._match(TokenType.LT):
            self.raise_error("Expected <")
        elements = [self._parse_data_type()]
        if name == "MAP":
            if not self._match(TokenType.COMMA):
                self.raise_error("Expected ,")
            elements.append(self._parse_data_type())
        if not self._match(TokenType.GT):
            self.raise_error("Expected >")
        return self._collection(name, *elements)

    @staticmethod
    def _collection(name: str, *elements: exp.DataType) -> exp.DataType:
        if name == "MULTISET":
            count = exp.DataType(this=exp.DType.INT)
            return exp.DataType(
                this=exp.DType.MAP, expressions=[*elements, count], nested=True, kind="MULTISET"
            )
        return exp.DataType(this=exp.DType[name], expressions=list(elements), nested=True)

    def _parse_row_type(self) -> exp.DataType:
        closing = {TokenType.LT: TokenType.GT, TokenType.L_PAREN: TokenType.R_PAREN}.get(
            self._curr.token_type
        )
        if closing is None:
            self.raise_error("Expected <")
        assert closing is not None
        self._advance()
        fields = [] if self._curr.token_type == closing else self._parse_csv(self._parse_row_field)
        if not self._match(closing):
            self.raise_error("Expected >" if closing == TokenType.GT else "Expected )")
        return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)

    def _parse_row_field(self) -> exp.ColumnDef:
        first = self._curr
        name = self._parse_name("a field name")
        kind = self._parse_data_type()
        constraints = []
        if self._match(TokenType.STRING):
            comment = exp.CommentColumnConstraint(this=exp.Literal.string(self._prev.text))
            constraints.append(exp.ColumnConstraint(kind=comment))
        return mark(exp.ColumnDef(this=name, kind=kind, constraints=constraints), first, self._prev)

    @staticmethod
    def _may_be_name(token: Token) -> bool:
        """Whether a token is a word that may be a name: no sign, number, string, and none of NO_NAMES."""
        return (
            bool(token)
            and token.token_type not in WORD_EXCLUDED
            and token.text.upper() not in NO_NAMES
            and (token.text[:1].isalpha() or token.text[:1] in ("_", "$"))
            and " " not in token.text
        )

    def _parse_name(self, what: str) -> exp.Identifier:
        """One part of a name: `quoted` or a word."""
        token = self._curr
        if token.token_type != TokenType.IDENTIFIER and not self._may_be_name(token):
            self.raise_error(f"Expected {what}")
        self._advance()
        name = exp.Identifier(this=token.text, quoted=token.token_type == TokenType.IDENTIFIER)
        return mark(name.update_positions(token), token, token)
