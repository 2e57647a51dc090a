"""Parses and writes MATCH_RECOGNIZE: rows that match a pattern, Calcite's grammar of it.

The node is sqlglot's MatchRecognize, in `match` of the relation that it reads; SUBSET is in `subset`
(Aliases of pattern variables), WITHIN in `within` (an Interval). A pattern is kept as one Var, its tokens
parted by spaces.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.json_functions import JsonGenerator, JsonParser
from penstock.sql.syntax.positions import mark

__all__ = ["MatchGenerator", "MatchParser"]

CONTAINED = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACE: TokenType.R_BRACE,
}
QUANTIFIERS = (TokenType.STAR, TokenType.PLUS, TokenType.PLACEHOLDER, TokenType.L_BRACE)
CLOSING = (TokenType.R_PAREN, TokenType.R_BRACE)


class MatchParser(JsonParser):
    """The part of the parser that reads MATCH_RECOGNIZE."""

    def _parse_match_recognize(self) -> exp.MatchRecognize | None:
        first = self._curr
        if not self._match(TokenType.MATCH_RECOGNIZE):
            return None
        self._match_l_paren()
        partition, order = self._parse_partition_by(), self._parse_order()
        measures = None
        if self._match_text_seq("MEASURES"):
            measures = self._parse_csv(self._parse_match_recognize_measure)
        rows, after = self._parse_rows_per_match(), self._parse_after_match()
        self._expect_words("PATTERN")
        node = exp.MatchRecognize(
            partition_by=partition,
            order=order,
            measures=measures,
            rows=rows,
            after=after,
            pattern=self._parse_pattern(),
            within=self._parse_interval() if self._match_text_seq("WITHIN") else None,
            subset=self._parse_subsets() if self._match_text_seq("SUBSET") else None,
        )
        self._expect_words("DEFINE")
        node.set("define", self._parse_csv(self._parse_definition))
        self._match_r_paren()
        mark(node, first, self._prev)
        node.set("alias", self._parse_table_alias())
        return node

    def _parse_rows_per_match(self) -> exp.Var | None:
        for words in ("ONE ROW PER MATCH", "ALL ROWS PER MATCH"):
            if self._match_text_seq(*words.split()):
                return exp.var(words)
        return None

    def _parse_after_match(self) -> exp.Var | None:
        if not self._match_text_seq("AFTER", "MATCH", "SKIP"):
            return None
        for words in ("PAST LAST ROW", "TO NEXT ROW"):
            if self._match_text_seq(*words.split()):
                return exp.var(f"AFTER MATCH SKIP {words}")
        self._expect_words("TO")
        end = "FIRST " if self._match_text_seq("FIRST") else "LAST "
        if end == "LAST ":
            self._match_text_seq("LAST")  # TO B is TO LAST B
        return exp.var(
            f"AFTER MATCH SKIP TO {end}{self._parse_name('a pattern variable').sql('flink')}"
        )

    def _parse_pattern(self) -> exp.Var:
        """Everything in the parentheses of PATTERN: variables, quantifiers, groups and alternatives."""
        first = self._curr
        self._match_l_paren()
        open_: list[TokenType] = [TokenType.R_PAREN]
        tokens: list[Token] = []
        while open_:
            token = self._curr
            if not token or token.token_type == TokenType.HINT:
                self.raise_error(f"Expected {')' if open_[-1] == TokenType.R_PAREN else '}'}")
            if token.token_type in CONTAINED:
                open_.append(CONTAINED[token.token_type])
            elif token.token_type in CLOSING and token.token_type != open_.pop():
                self.raise_error(f"unexpected '{token.text}'", token)
            tokens.append(token)
            self._advance()
        if len(tokens) == 1:
            self.raise_error("Expected a pattern variable", tokens[0])
        return mark(exp.var(self._pattern_text(tokens[:-1])), first, self._prev)

    @staticmethod
    def _pattern_text(tokens: list[Token]) -> str:
        text, before = "", TokenType.L_PAREN
        for token in tokens:
            kind = token.token_type
            word = (
                f"`{token.text.replace('`', '``')}`" if kind == TokenType.IDENTIFIER else token.text
            )
            apart = not (
                kind in (*QUANTIFIERS, *CLOSING, TokenType.COMMA)
                or before in (TokenType.L_PAREN, TokenType.L_BRACE, TokenType.COMMA)
                or (before == TokenType.NUMBER and kind == TokenType.NUMBER)
            )
            text += f" {word}" if apart and text else word
            before = kind
        return text

    def _parse_subsets(self) -> list[exp.Expr]:
        """S = (A, B), ..."""

        def subset() -> exp.Expr:
            name = self._parse_name("a pattern variable")
            if not self._match(TokenType.EQ):
                self.raise_error("Expected =")
            self._match_l_paren()
            members = self._parse_csv(lambda: self._parse_name("a pattern variable"))
            self._match_r_paren()
            return exp.Aliases(this=name, expressions=list[exp.Expr](members))

        return self._parse_csv(subset)

    def _parse_definition(self) -> exp.Expr:
        name = self._parse_name("a pattern variable")
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        return exp.Alias(this=self._parse_item(), alias=name)


class MatchGenerator(JsonGenerator):
    """The part of the writer that writes MATCH_RECOGNIZE."""

    def matchrecognize_sql(self, expression: exp.MatchRecognize) -> str:
        """MATCH_RECOGNIZE (...) AS m."""
        measures = self.expressions(expression, key="measures", flat=True)
        within, subset = self.sql(expression, "within"), expression.args.get("subset")
        sets = ", ".join(
            f"{self.sql(one, 'this')} = ({self.expressions(one, flat=True)})"
            for one in subset or []
        )
        definitions = ", ".join(
            f"{self.sql(one, 'alias')} AS {self.sql(one, 'this')}"
            for one in expression.args["define"]
        )
        parts = (
            self.partition_by_sql(expression),
            self.sql(expression, "order").strip(),
            f"MEASURES {measures}" if measures else "",
            self.sql(expression, "rows"),
            self.sql(expression, "after"),
            f"PATTERN ({expression.args['pattern'].name})",
            f"WITHIN {within}" if within else "",
            f"SUBSET {sets}" if sets else "",
            f"DEFINE {definitions}",
        )
        alias = self.sql(expression, "alias")
        text = f" MATCH_RECOGNIZE ({' '.join(part for part in parts if part)})"
        return f"{text} AS {alias}" if alias else text
