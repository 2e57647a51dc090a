"""Parses CREATE TABLE, with LIKE and AS, REPLACE TABLE and CREATE VIEW.

A column is a ColumnDef: computed ones have a ComputedColumnConstraint, metadata columns an Anonymous
METADATA (with the key) and perhaps a Var VIRTUAL among their constraints. Options of WITH are
Property nodes with literals on both sides; LIKE is a LikeProperty whose `expressions` are Properties
of two Vars, such as INCLUDING and OPTIONS.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.ddl_nodes import Distribution, ReplaceTable
from penstock.sql.dialect.ddl_parts import StatementParts, properties_of
from penstock.sql.positions import mark

__all__ = ["CreateParser"]

STRATEGIES = ("INCLUDING", "EXCLUDING", "OVERWRITING")
FEATURES = {
    "ALL": ("INCLUDING", "EXCLUDING"),
    "CONSTRAINTS": ("INCLUDING", "EXCLUDING"),
    "DISTRIBUTION": ("INCLUDING", "EXCLUDING"),
    "GENERATED": STRATEGIES,
    "METADATA": STRATEGIES,
    "OPTIONS": STRATEGIES,
    "PARTITIONS": ("INCLUDING", "EXCLUDING"),
    "WATERMARKS": STRATEGIES,
}
"""What LIKE can take over, and the ways it can (Flink: SqlTableLike, SqlCreateTableLike.validate)."""

KEY_STARTS = (TokenType.CONSTRAINT, TokenType.PRIMARY_KEY)
NAME_ENDS = (TokenType.COMMA, TokenType.R_PAREN)


class CreateParser(StatementParts):
    """The part of the parser that reads tables and views."""

    def _parse_create_table(
        self, *, temporary: bool = False, replace: bool = False, create: bool = True
    ) -> exp.Create:
        """What follows CREATE TABLE, CREATE OR REPLACE TABLE (`replace`) or REPLACE TABLE (not `create`)."""
        kind = exp.Create if create else ReplaceTable
        exists = not replace and bool(self._parse_exists(not_=True))
        table = self._require_object("table name")
        elements: list[exp.Expr] = []
        if self._match(TokenType.L_PAREN):
            elements = self._parse_csv(self._parse_table_element)
            self._match_r_paren()
        properties: list[exp.Expr] = [exp.TemporaryProperty()] if temporary else []
        properties += self._parse_comment_clause()
        if self._match_word("DISTRIBUTED"):
            properties.append(self._parse_distribution())
        if self._match(TokenType.PARTITION_BY):
            keys = exp.Tuple(expressions=self._parse_name_list())
            properties.append(exp.PartitionedByProperty(this=keys))
        if self._match(TokenType.WITH):
            properties += self._parse_options()
        if not replace and self._match(TokenType.LIKE):
            properties.append(self._parse_like_clause())
        query = self._require_query() if self._match(TokenType.ALIAS) else None
        if replace and query is None:
            self.raise_error("Expected AS", hint="REPLACE TABLE name [WITH (...)] AS SELECT ...")
        self._check_names_only(elements, query)
        return kind(
            this=exp.Schema(this=table, expressions=elements),
            kind="TABLE",
            exists=exists,
            replace=replace,
            expression=query,
            properties=properties_of(properties),
        )

    def _check_names_only(self, elements: list[exp.Expr], query: exp.Expr | None) -> None:
        """A list of names orders the columns of AS: it has names only, and AS behind it."""
        names = [element for element in elements if isinstance(element, exp.Identifier)]
        if not names or (query is not None and len(names) == len(elements)):
            return
        start, name = names[0].meta["start"], names[0].name
        token = next(token for token in self._tokens if token.start == start)
        hint = "only the columns of CREATE TABLE ... AS can be named without types"
        self.raise_error(f"the column '{name}' has no type", token, hint=hint)

    def _parse_create_view(self, *, temporary: bool = False) -> exp.Create:
        exists = bool(self._parse_exists(not_=True))
        view = self._require_object("a view")
        if self._curr.token_type == TokenType.L_PAREN:
            self._advance()
            view = exp.Schema(this=view, expressions=self._parse_csv(self._parse_view_column))
            self._match_r_paren()
        properties: list[exp.Expr] = [exp.TemporaryProperty()] if temporary else []
        properties += self._parse_comment_clause()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        return exp.Create(
            this=view,
            kind="VIEW",
            exists=exists,
            expression=self._require_query(),
            properties=properties_of(properties),
        )

    def _parse_view_column(self) -> exp.Expr:
        """A view's column; its COMMENT is Spark's, Flink has none there."""
        first = self._curr
        name = self._parse_name("a column")
        if not self._match_word("COMMENT"):
            return name
        comment = exp.CommentColumnConstraint(this=self._require_string())
        column = exp.ColumnDef(this=name, constraints=[exp.ColumnConstraint(kind=comment)])
        return mark(column, first, self._prev)

    # --- elements ---

    def _parse_table_element(self) -> exp.Expr:
        first = self._curr
        if self._is_word("WATERMARK") and self._next.text.upper() == "FOR":
            self._advance(2)
            column = self._parse_name("a column")
            if not self._match(TokenType.ALIAS):
                self.raise_error("Expected AS")
            expression = self._require_expression()
            node: exp.Expr = exp.WatermarkColumnConstraint(this=column, expression=expression)
            return mark(node, first, self._prev)
        if first.token_type in KEY_STARTS:
            return self._parse_key(inline=False)
        if first.token_type == TokenType.UNIQUE:
            self.refuse("UNIQUE", "only PRIMARY KEY (...) NOT ENFORCED is a constraint in Flink")
        if self._next.token_type in NAME_ENDS:
            return self._parse_name("a column")
        return self._parse_column_declaration()

    def _parse_key(self, *, inline: bool) -> exp.Expr:
        first = self._curr
        name = self._parse_name("a name") if self._match(TokenType.CONSTRAINT) else None
        if not self._match(TokenType.PRIMARY_KEY):
            self.raise_error("Expected PRIMARY KEY")
        key: exp.Expr = exp.PrimaryKeyColumnConstraint()
        if not inline:
            key = exp.PrimaryKey(expressions=self._parse_name_list())
        if not self._match_text_seq("NOT", "ENFORCED"):
            self.raise_error(
                "Expected NOT ENFORCED",
                hint="Flink never enforces a key: PRIMARY KEY ... NOT ENFORCED",
            )
        mark(key, first, self._prev)
        if name is None:
            return key
        return mark(exp.Constraint(this=name, expressions=[key]), first, self._prev)

    def _parse_column_declaration(self) -> exp.ColumnDef:
        first = self._curr
        name = self._parse_name("a column")
        kinds: list[exp.Expr] = []
        data_type = None
        if self._match(TokenType.ALIAS):
            kinds.append(exp.ComputedColumnConstraint(this=self._require_expression()))
        elif not self._curr:
            self.raise_error("Expected a type")
        else:
            data_type = self._parse_data_type()
            kinds += self._parse_column_options()
        if self._match_word("COMMENT"):
            kinds.append(exp.CommentColumnConstraint(this=self._require_string()))
        constraints = [exp.ColumnConstraint(kind=kind) for kind in kinds]
        column = exp.ColumnDef(this=name, kind=data_type, constraints=constraints)
        return mark(column, first, self._prev)

    def _parse_column_options(self) -> list[exp.Expr]:
        kinds: list[exp.Expr] = []
        if self._match_word("METADATA"):
            metadata = self._prev
            key = [self._require_string()] if self._match(TokenType.FROM) else []
            kinds.append(
                mark(exp.Anonymous(this="METADATA", expressions=key), metadata, self._prev)
            )
            if self._match_word("VIRTUAL"):
                kinds.append(exp.var("VIRTUAL"))
        elif self._curr.token_type in KEY_STARTS:
            kinds.append(self._parse_key(inline=True))
        return kinds

    # --- DISTRIBUTED, LIKE ---

    def _parse_distribution(self) -> Distribution:
        """BY [HASH | RANGE] (columns) [INTO n BUCKETS], or INTO n BUCKETS; the first word is read."""
        first = self._prev
        kind, columns, buckets = None, [], None
        if self._match_word("BY"):
            if word := self._match_word("HASH", "RANGE"):
                kind = exp.var(word)
            columns = self._parse_name_list()
        elif not self._is_word("INTO"):
            self.raise_error("Expected BY or INTO")
        if self._match(TokenType.INTO):
            buckets = self._parse_number()
            if buckets is None or not buckets.name.isdigit() or int(buckets.name) == 0:
                self.raise_error(
                    "Expected a number of buckets", self._curr if buckets is None else self._prev
                )
            self._require_words("BUCKETS")
        node = Distribution(kind=kind, expressions=columns, buckets=buckets)
        return mark(node, first, self._prev)

    def _parse_like_clause(self) -> exp.LikeProperty:
        first = self._prev
        table = self._require_object("table name")
        options: list[exp.Expr] = []
        if self._match(TokenType.L_PAREN):
            while self._curr.token_type != TokenType.R_PAREN:
                options.append(self._parse_like_option(options))
            self._match_r_paren()
        return mark(exp.LikeProperty(this=table, expressions=options), first, self._prev)

    def _parse_like_option(self, earlier: list[exp.Expr]) -> exp.Property:
        first = self._curr
        strategy = self._match_word(*STRATEGIES)
        if strategy is None:
            self.raise_error(f"Expected {', '.join(STRATEGIES)}")
        feature = self._match_word(*FEATURES)
        if feature is None:
            self.raise_error("Expected what to take over", hint=f"one of {', '.join(FEATURES)}")
        if strategy not in FEATURES[feature]:
            hint = f"{feature} can be {' or '.join(FEATURES[feature])}"
            self.raise_error(f"unexpected '{first.text}'", first, hint=hint)
        if any(option.args["value"].name == feature for option in earlier):
            self.raise_error(f"{feature} is given twice", self._prev)
        node = exp.Property(this=exp.var(strategy), value=exp.var(feature))
        return mark(node, first, self._prev)
