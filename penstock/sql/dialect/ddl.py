"""Parses Flink's statements other than queries into sqlglot's nodes; unknown ones are refused.

A column is a ColumnDef: computed ones have a ComputedColumnConstraint, metadata columns an Anonymous
METADATA (with the key) and perhaps a Var VIRTUAL among their constraints. Options of WITH are
Property nodes with literals on both sides. RESET is a Set with `unset`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.query import HINTS, QueryParser
from penstock.sql.positions import mark

__all__ = ["FlinkParser"]

LIKE_WORDS = ("LIKE", "ILIKE")
REFUSED_WORDS = ("ADD", "CALL", "COMPILE", "EXPLAIN", "REMOVE", "STOP", "UNLOAD")
DATA_STARTS = (TokenType.SELECT, TokenType.INSERT, TokenType.WITH, TokenType.EXECUTE)
REFUSED = (
    TokenType.ALTER,
    TokenType.ANALYZE,
    TokenType.BEGIN,
    TokenType.DELETE,
    TokenType.EXECUTE,
    TokenType.LOAD,
    TokenType.MERGE,
    TokenType.TRUNCATE,
    TokenType.UPDATE,
)


class FlinkParser(QueryParser):
    """The whole parser of the dialect `flink`."""

    STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType.CREATE: lambda self: self._parse_create(),
        TokenType.DESC: lambda self: self._parse_describe(),
        TokenType.DESCRIBE: lambda self: self._parse_describe(),
        TokenType.DROP: lambda self: self._parse_drop(),
        TokenType.INSERT: lambda self: self._parse_insert(),
        TokenType.SEMICOLON: lambda _: exp.Semicolon(),
        TokenType.SET: lambda self: self._parse_set(),
        TokenType.SHOW: lambda self: self._parse_show(),
        TokenType.USE: lambda self: self._parse_use(),
        **dict.fromkeys(REFUSED, lambda self: self.refuse(self._prev.text.upper())),
    }

    def _parse_statement(self) -> exp.Expr | None:
        first = self._curr
        word = first.text.upper() if first.token_type == TokenType.VAR else ""
        statement: exp.Expr | None
        if word == "RESET" and (not self._next or self._next.token_type == TokenType.STRING):
            self._advance()
            statement = self._parse_set(unset=True)
        elif word in REFUSED_WORDS and self._next.token_type in (TokenType.VAR, *DATA_STARTS):
            self.refuse(word)
        else:
            statement = super()._parse_statement()
        if statement is not None and first and not isinstance(statement, exp.Query):
            mark(statement, first, self._prev)
        return statement

    # --- CREATE ---

    def _parse_create(self) -> exp.Create | exp.Command:
        temporary = self._match(TokenType.TEMPORARY)
        if self._match(TokenType.TABLE):
            return self._parse_create_table(temporary=temporary)
        if self._match(TokenType.VIEW):
            return self._parse_create_view(temporary=temporary)
        if self._curr.text.upper() in ("CATALOG", "DATABASE", "FUNCTION", "MODEL", "OR", "SYSTEM"):
            self.refuse(f"CREATE {self._curr.text.upper()}")
        return self.raise_error("Expected TABLE or VIEW")

    def _parse_create_table(self, *, temporary: bool) -> exp.Create:
        exists = bool(self._parse_exists(not_=True))
        table = self._parse_table_parts(schema=True)
        elements: list[exp.Expr] = []
        if self._match(TokenType.L_PAREN):
            elements = self._parse_csv(self._parse_table_element)
            self._match_r_paren()
        properties: list[exp.Expr] = [exp.TemporaryProperty()] if temporary else []
        if self._match_text_seq("COMMENT"):
            properties.append(exp.SchemaCommentProperty(this=self._require_string()))
        if self._match_text_seq("DISTRIBUTED"):
            self.refuse("DISTRIBUTED", token=self._prev)
        if self._match(TokenType.PARTITION_BY):
            keys = exp.Tuple(expressions=self._parse_name_list())
            properties.append(exp.PartitionedByProperty(this=keys))
        if self._match(TokenType.WITH):
            properties += self._parse_options()
        if self._match(TokenType.LIKE):
            self.refuse("CREATE TABLE ... LIKE", "write the columns and options out", self._prev)
        if self._match(TokenType.ALIAS):
            self.refuse("CREATE TABLE ... AS", "write CREATE TABLE, then INSERT INTO", self._prev)
        return exp.Create(
            this=exp.Schema(this=table, expressions=elements),
            kind="TABLE",
            exists=exists,
            properties=exp.Properties(expressions=properties) if properties else None,
        )

    def _parse_create_view(self, *, temporary: bool) -> exp.Create:
        exists = bool(self._parse_exists(not_=True))
        view: exp.Expr | None = self._parse_table_parts(schema=True)
        if self._curr.token_type == TokenType.L_PAREN:
            view = exp.Schema(this=view, expressions=self._parse_name_list())
        properties: list[exp.Expr] = [exp.TemporaryProperty()] if temporary else []
        if self._match_text_seq("COMMENT"):
            properties.append(exp.SchemaCommentProperty(this=self._require_string()))
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        return exp.Create(
            this=view,
            kind="VIEW",
            exists=exists,
            expression=self._require_query(),
            properties=exp.Properties(expressions=properties) if properties else None,
        )

    def _parse_table_element(self) -> exp.Expr:
        first = self._curr
        if self._match_text_seq("WATERMARK"):
            self._expect_words("FOR")
            column = self._parse_name("a column")
            if not self._match(TokenType.ALIAS):
                self.raise_error("Expected AS")
            expression = self._require_expression()
            node: exp.Expr = exp.WatermarkColumnConstraint(this=column, expression=expression)
            return mark(node, first, self._prev)
        if first.token_type in (TokenType.CONSTRAINT, TokenType.PRIMARY_KEY):
            return self._parse_key(inline=False)
        if self._curr.token_type == TokenType.UNIQUE:
            self.refuse("UNIQUE", "only PRIMARY KEY (...) NOT ENFORCED is a constraint in Flink")
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
        else:
            data_type = self._parse_data_type()
            kinds += self._parse_column_options()
        if self._match_text_seq("COMMENT"):
            kinds.append(exp.CommentColumnConstraint(this=self._require_string()))
        constraints = [exp.ColumnConstraint(kind=kind) for kind in kinds]
        column = exp.ColumnDef(this=name, kind=data_type, constraints=constraints)
        return mark(column, first, self._prev)

    def _parse_column_options(self) -> list[exp.Expr]:
        kinds: list[exp.Expr] = []
        if self._match_text_seq("METADATA"):
            metadata = self._prev
            key = [self._require_string()] if self._match(TokenType.FROM) else []
            kinds.append(
                mark(exp.Anonymous(this="METADATA", expressions=key), metadata, self._prev)
            )
            if self._match_text_seq("VIRTUAL"):
                kinds.append(exp.var("VIRTUAL"))
        elif self._curr.token_type in (TokenType.CONSTRAINT, TokenType.PRIMARY_KEY):
            kinds.append(self._parse_key(inline=True))
        return kinds

    def _parse_options(self) -> list[exp.Expr]:
        """('key' = 'value', ...)"""
        self._match_l_paren()
        options = self._parse_csv(self._parse_option)
        self._match_r_paren()
        return options

    def _parse_option(self) -> exp.Expr | None:
        first = self._curr
        if first.token_type == TokenType.R_PAREN:
            return None
        key = self._require_string("quote the key and the value: 'key' = 'value'")
        if not self._match(TokenType.EQ):
            self.raise_error("Expected =")
        value = self._require_string("quote the key and the value: 'key' = 'value'")
        return mark(exp.Property(this=key, value=value), first, self._prev)

    # --- parts ---

    def _require_string(self, hint: str | None = None) -> exp.Expr:
        value = self._parse_string()
        if value is None:
            self.raise_error("Expected a string", hint=hint)
        return value

    def _require_expression(self) -> exp.Expr:
        first = self._curr
        expression = self._parse_disjunction()
        if expression is None:
            self.raise_error("Expected an expression")
        return mark(expression, first, self._prev)

    def _require_query(self) -> exp.Expr:
        first = self._curr
        query = self._parse_ddl_select()
        if query is None or first is self._curr:
            self.raise_error("Expected a query")
        return query

    def _parse_name_list(self) -> list[exp.Expr]:
        self._match_l_paren()
        names: list[exp.Expr] = []
        names += self._parse_csv(lambda: self._parse_name("a column"))
        self._match_r_paren()
        return names

    # --- other statements ---

    def _parse_drop(self, exists: bool = False, kind: str | None = None) -> exp.Drop | exp.Command:
        temporary = self._match(TokenType.TEMPORARY)
        if self._match(TokenType.TABLE) or self._match(TokenType.VIEW):
            kind = self._prev.text.upper()
        elif self._curr.text.upper() in ("CATALOG", "DATABASE", "FUNCTION", "MODEL", "SYSTEM"):
            self.refuse(f"DROP {self._curr.text.upper()}")
        else:
            self.raise_error("Expected TABLE or VIEW")
        exists = exists or bool(self._parse_exists())
        table = self._parse_table_parts(schema=True)
        return exp.Drop(kind=kind, tables=[table], exists=exists, temporary=temporary)

    def _parse_insert(self) -> exp.Insert | exp.MultitableInserts:
        if self._match(TokenType.OVERWRITE):
            self.refuse("INSERT OVERWRITE", token=self._prev)
        if not self._match(TokenType.INTO):
            self.raise_error("Expected INTO")
        table: exp.Expr | None = self._parse_table_parts(schema=True)
        assert isinstance(table, exp.Table)
        self._parse_table_options(table)
        table.meta.pop(HINTS, None)
        if self._match(TokenType.PARTITION):
            self.refuse("PARTITION in INSERT", "select the partition columns", self._prev)
        if self._curr.token_type == TokenType.L_PAREN and self._next.token_type not in (
            TokenType.SELECT,
            TokenType.WITH,
            TokenType.VALUES,
            TokenType.L_PAREN,
        ):
            table = exp.Schema(this=table, expressions=self._parse_name_list())
        query = self._require_query()
        if self._match(TokenType.ON):
            self.refuse("ON CONFLICT", token=self._prev)
        return exp.Insert(this=table, expression=query)

    def _parse_set(self, unset: bool = False, tag: bool = False) -> exp.Set | exp.Command:  # noqa: ARG002
        first = self._curr
        if not first:
            return exp.Set(expressions=[], unset=unset or None)
        hint = "quote the key: RESET 'key'" if unset else "quote both: SET 'key' = 'value'"
        key = self._require_string(hint)
        if unset:
            return exp.Set(expressions=[exp.SetItem(this=key)], unset=True)
        if not self._match(TokenType.EQ):
            self.raise_error("Expected =", hint=hint)
        item = exp.EQ(this=key, expression=self._require_string(hint))
        return exp.Set(expressions=[mark(exp.SetItem(this=item), first, self._prev)])

    def _parse_use(self) -> exp.Use:
        kind = None
        if self._curr.text.upper() == "CATALOG" and self._next:
            self._advance()
            kind = exp.var("CATALOG")
        elif self._curr.text.upper() == "MODULES" and self._next:
            self.refuse("USE MODULES")
        return exp.Use(kind=kind, this=self._parse_table_parts(schema=True))

    def _parse_describe(self) -> exp.Describe:
        words = ("CATALOG", "DATABASE", "FUNCTION", "MODEL", "JOB")
        if self._curr.text.upper() in words and self._next:
            self.refuse(f"DESCRIBE {self._curr.text.upper()}")
        extended = self._curr.text.upper() == "EXTENDED" and bool(self._next)
        if extended:
            self._advance()
        return exp.Describe(
            this=self._parse_table_parts(schema=True), style="EXTENDED" if extended else None
        )

    def _parse_show(self) -> exp.Expr | None:
        if self._match(TokenType.CREATE):
            if not (self._match(TokenType.TABLE) or self._match(TokenType.VIEW)):
                self.raise_error("Expected TABLE or VIEW")
            kind = f"CREATE {self._prev.text.upper()}"
            return exp.Show(this=kind, target=self._parse_table_parts(schema=True))
        if not self._match_texts(("TABLES", "VIEWS")):
            self._refuse_show(self._curr)
        node = exp.Show(this=self._prev.text.upper())
        if self._match(TokenType.FROM) or self._match(TokenType.IN):
            node.set("db", self._parse_table_parts(schema=True))
        negated = self._match(TokenType.NOT)
        if self._match_texts(LIKE_WORDS):
            word = self._prev.text.upper()
            node.set("scope_kind", f"NOT {word}" if negated else word)
            node.set("like", self._require_string())
        elif negated:
            self.raise_error("Expected LIKE")
        return node

    def _refuse_show(self, token: Token) -> None:
        if token.token_type == TokenType.VAR or token.text.isalpha():
            self.refuse(f"SHOW {token.text.upper()}")
        self.raise_error("Expected TABLES, VIEWS, CREATE TABLE or CREATE VIEW")
