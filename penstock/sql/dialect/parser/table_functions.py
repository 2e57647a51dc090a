"""Parse and write calls whose arguments are tables.

Windowing functions, process table functions, and TABLE(f(x)) in FROM. A table argument is a Table or Subquery,
followed by a Kwarg named PARTITION BY or ORDER BY where the call has these; DESCRIPTOR(...) is an Anonymous of
columns, MODEL m an Anonymous of identifiers, a named argument a Kwarg. Grammar: Calcite's table arguments, and
FLIP-440 for ORDER BY. The functions in TABLE(f(x)) are users' own.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.hints import HINTS
from penstock.sql.dialect.parser.match_recognize import MatchGenerator, MatchParser
from penstock.sql.syntax.positions import mark

__all__ = [
    "ORDER_ARGUMENT",
    "PARTITION_ARGUMENT",
    "WINDOW_FUNCTIONS",
    "TableFunctionGenerator",
    "TableFunctionParser",
    "calling_relation",
    "is_always",
    "is_left",
    "keeping_name",
    "table_call",
    "takes_values",
]

WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")

PARTITION_ARGUMENT = "PARTITION BY"

ORDER_ARGUMENT = "ORDER BY"

QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)

COLLECTING = ("ARRAY", "MAP")

NAME_STARTS = (TokenType.VAR, TokenType.IDENTIFIER)


class TableFunctionParser(MatchParser):
    """The part of the parser that reads the arguments of functions."""

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        """The arguments of any call; several nodes stand for a table that is partitioned."""
        if self._curr.token_type in QUERY_STARTS:
            return [self._parse_query_argument(self._name_before_paren())]
        arguments: list[exp.Expr] = []
        while True:
            separator = self._prev
            if self._at_table_argument():
                arguments += self._parse_table_argument()
            elif (argument := self._parse_lambda(alias=alias)) is not None:
                arguments.append(argument)
            elif separator.token_type == TokenType.COMMA:
                self.raise_error(f"unexpected '{separator.text}'", separator)
            elif self._curr.token_type == TokenType.COMMA:
                self.raise_error(f"unexpected '{self._curr.text}'", self._curr)
            if not self._match(TokenType.COMMA):
                return arguments

    def _name_before_paren(self) -> Token:
        """The token in front of the parenthesis that was read last."""
        return self._tokens[self._index - 2]

    def _parse_query_argument(self, name: Token) -> exp.Expr:
        """ARRAY(SELECT ...) and MAP(SELECT ...)."""
        if name.text.upper() not in COLLECTING or name.token_type == TokenType.IDENTIFIER:
            self.raise_error(
                "Expected an expression", hint="put the query in parentheses of its own"
            )
        query = self._parse_ddl_select()
        assert query is not None, "one begins here"
        return query

    def _at_table_argument(self) -> bool:
        """Whether an argument is named, a table, a model or a DESCRIPTOR."""
        kind, then, word = self._curr.token_type, self._next.token_type, self._curr.text.upper()
        return (
            then == TokenType.FARROW
            or (kind == TokenType.TABLE and then != TokenType.L_PAREN)
            or (word == "MODEL" and kind == TokenType.VAR and then in NAME_STARTS)
            or (word == "DESCRIPTOR" and kind == TokenType.VAR and then == TokenType.L_PAREN)
        )

    def _parse_table_function(self, name: Token) -> exp.Anonymous:
        """The arguments of a windowing function, behind the parenthesis; its end stays unread."""
        arguments: list[exp.Expr] = []
        while True:
            arguments += self._parse_table_argument()
            if not self._match(TokenType.COMMA):
                break
        return mark(
            exp.Anonymous(this=name.text.upper(), expressions=arguments), name, self._curr or name
        )

    def _parse_table_argument(self) -> list[exp.Expr]:
        first, keyword = self._curr, None
        if self._next.token_type == TokenType.FARROW:
            keyword = exp.var(self._parse_name("the name of an argument").name.upper())
            self._match(TokenType.FARROW)
        value, more = self._parse_table_value()
        if value is None:
            self.raise_error("Expected an argument")
        if keyword is not None:
            value = mark(exp.Kwarg(this=keyword, expression=value), first, self._prev)
        assert value is not None
        return [value, *more]

    def _parse_table_value(self) -> tuple[exp.Expr | None, list[exp.Expr]]:
        first = self._curr
        if self._match(TokenType.TABLE):
            return self._parse_named_table(), self._parse_table_semantics()
        if first.token_type == TokenType.L_PAREN and self._next.token_type in QUERY_STARTS:
            return self._parse_select(table=True), self._parse_table_semantics()
        if not self._at_table_argument():
            if self._match(TokenType.DEFAULT):
                return mark(exp.var("DEFAULT"), first, first), []
            return self._parse_disjunction(), []
        self._advance()
        if first.text.upper() == "MODEL":
            parts = [self._parse_name("a model")]
            while self._match(TokenType.DOT):
                parts.append(self._parse_name("a model"))
            call = exp.Anonymous(this="MODEL", expressions=parts)
            return mark(call, first, self._prev), []
        self._match_l_paren()
        columns = self._parse_csv(self._parse_descriptor_column)
        self._match_r_paren()
        call = exp.Anonymous(this="DESCRIPTOR", expressions=columns)
        return mark(call, first, self._prev), []

    def _parse_descriptor_column(self) -> exp.Expr:
        """A column; a data type behind its name, which Flink takes for ML functions, is refused."""
        column = self._parse_column()
        if not isinstance(column, exp.Column):
            self.raise_error("Expected a column")
        return column

    def _parse_named_table(self) -> exp.Expr | None:
        table = self._parse_table_parts()
        if table is not None:
            table.meta.pop(HINTS, None)
        return table

    def _parse_table_semantics(self) -> list[exp.Expr]:
        """[PARTITION BY k | PARTITION BY (k, l)] [ORDER BY c | ORDER BY (c, d DESC)]"""
        found: list[exp.Expr] = []
        if self._match(TokenType.PARTITION_BY):
            found.append(self._parse_keys(PARTITION_ARGUMENT, ordered=False))
        if self._match(TokenType.ORDER_BY):
            found.append(self._parse_keys(ORDER_ARGUMENT, ordered=True))
        return found

    def _parse_keys(self, name: str, *, ordered: bool) -> exp.Kwarg:
        first = self._prev
        parse = self._parse_ordered if ordered else self._parse_column
        keys: list[exp.Expr] = []
        if self._match(TokenType.L_PAREN):
            keys += self._parse_csv(parse)
            self._match_r_paren()
        elif (key := parse()) is not None:
            keys.append(key)
        if not keys:
            self.raise_error("Expected a column")
        node = exp.Kwarg(this=exp.var(name), expression=exp.Tuple(expressions=keys))
        return mark(node, first, self._prev)


class TableFunctionGenerator(MatchGenerator):
    """The part of the writer that writes calls with tables in them."""

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        """A function by its own name; MAP[...], DESCRIPTOR, MODEL and tables as arguments."""
        name = expression.name.upper()
        if name == "MAP" and not self._is_query(expression):
            return f"MAP[{self.expressions(expression, flat=True)}]"
        if name == "MODEL" and all(isinstance(e, exp.Identifier) for e in expression.expressions):
            return f"MODEL {'.'.join(self.sql(part) for part in expression.expressions)}"
        if not any(map(self._is_table_argument, expression.expressions)):
            if isinstance(expression.this, exp.Identifier) and expression.this.quoted:
                # what is in backticks keeps its letters
                return self.func(
                    self.sql(expression, "this"), *expression.expressions, normalize=False
                )
            return super().anonymous_sql(expression)
        text = ""
        for argument in expression.expressions:
            if isinstance(argument, exp.Kwarg) and argument.name in (
                PARTITION_ARGUMENT,
                ORDER_ARGUMENT,
            ):
                text += f" {argument.name} {self.sql(argument, 'expression')}"
                continue
            sql = self._argument(argument)
            text += f", {sql}" if text else sql
        return f"{self.normalize_func(name)}({text})"

    @staticmethod
    def _is_query(call: exp.Anonymous) -> bool:
        return len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Query)

    @staticmethod
    def _is_table_argument(argument: exp.Expr) -> bool:
        data = argument.expression if isinstance(argument, exp.Kwarg) else argument
        return isinstance(data, exp.Table | exp.Subquery)

    def _argument(self, argument: exp.Expr) -> str:
        if isinstance(argument, exp.Kwarg):
            return f"{argument.name} => {self._argument(argument.expression)}"
        if not isinstance(argument, exp.Table):
            return self.sql(argument)
        hints = self.expressions(argument, key="hints", sep=" ", flat=True)
        return f"TABLE {self.table_parts(argument)}" + (f" {hints}" if hints else "")


WRAPPER = "TABLE"

KEEPING = "penstock_left_"


def table_call(relation: exp.Expr) -> exp.Anonymous | None:
    """The call f(x) of TABLE(f(x)) and of LATERAL TABLE(f(x)); None for windowing functions and other relations."""
    call = relation.this if isinstance(relation, exp.Table | exp.Lateral) else None
    if not isinstance(call, exp.Anonymous):
        return None
    if isinstance(relation, exp.Table):
        return None if call.name.upper() in WINDOW_FUNCTIONS else call
    inner = call.expressions[0] if call.name.upper() == WRAPPER and call.expressions else None
    return inner if isinstance(inner, exp.Anonymous) else None


def calling_relation(call: exp.Anonymous) -> exp.Table | exp.Lateral | None:
    """The relation in FROM that a call makes; None for one that stands where a value does."""
    above = call.parent
    if isinstance(above, exp.Anonymous) and above.name.upper() == WRAPPER:
        above = above.parent
    if not isinstance(above, exp.Table | exp.Lateral):
        return None
    return above if table_call(above) is call else None


def takes_values(call: exp.Anonymous) -> bool:
    """Whether the arguments are values, as a user's function takes them: no tables, no descriptors, no names."""
    return not any(
        isinstance(argument, exp.Table | exp.Kwarg)
        or (
            isinstance(argument, exp.Anonymous) and argument.name.upper() in ("DESCRIPTOR", "MODEL")
        )
        for argument in call.expressions
    )


def is_left(relation: exp.Expr) -> bool:
    """Whether a relation is the right side of a LEFT JOIN."""
    join = relation.parent
    return isinstance(join, exp.Join) and join.side.upper() == "LEFT"


def is_always(join: exp.Join) -> bool:
    """Whether a join has no condition but ON TRUE."""
    on = join.args.get("on")
    bare = None if on is None else on.unnest()
    return isinstance(bare, exp.Boolean) and bool(bare.this)


def keeping_name(name: str) -> str:
    """The name in Spark of a table function that gives a row of NULLs where it would give none: for LEFT JOIN."""
    return f"{KEEPING}{name.lower()}"
