"""Parse CREATE, ALTER and DROP of functions, of materialized tables and of secrets.

These share their first words with other statements: `_parse_other_...` look ahead and return None where the
statement is not one of theirs. Flink has no secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.catalog.masking import keep_secret
from penstock.sql.dialect.parser.dml import ChangeParser
from penstock.sql.syntax.nodes import (
    AlterFunction,
    AlterMaterializedTable,
    CreateFunction,
    CreateMaterializedTable,
    DropFunction,
    DropMaterializedTable,
    RefusedStatement,
    ResourceProperty,
    SecretStatement,
)
from penstock.sql.syntax.positions import mark

__all__ = ["FunctionParser", "SecretParser"]


class SecretParser(ChangeParser):
    """The part of the parser that reads statements about secrets."""

    def _parse_secret(self, action: str) -> SecretStatement | None:
        """What follows CREATE, ALTER or DROP where that is about a secret; else None, and nothing is passed over."""
        if not self._match_text_seq("SECRET"):
            return None
        exists = action != "ALTER" and bool(self._parse_exists(not_=action == "CREATE"))
        node = SecretStatement(
            this=self._parse_name("the name of a secret"), action=action, exists=exists or None
        )
        if action == "DROP":
            return node
        hint = f"{action} SECRET name AS 'value'"
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS", hint=hint)
        value = self._require_string(hint)
        keep_secret(value.name)
        node.set("expression", value)
        return node


LANGUAGES = ("JAVA", "SCALA", "PYTHON")

RESOURCES = ("JAR", "ARTIFACT")

REFRESH_MODES = ("FULL", "CONTINUOUS")

REFUSED_OBJECTS = (("TEMPORARY", "MODEL"), ("MODEL",), ("TEMPORARY", "CONNECTION"), ("CONNECTION",))

WORDS = ("SUSPEND", "RESUME", "REFRESH", "SET", "RESET")

ACTIONS = (("SET", "FRESHNESS"), ("SET", "REFRESH_MODE"), *((word,) for word in WORDS))

TABLE_ACTIONS = ("ADD", "MODIFY", "DROP", "RENAME")
"""What ALTER MATERIALIZED TABLE has in common with ALTER TABLE."""


class FunctionParser(SecretParser):
    """The part of the parser that reads statements about functions and materialized tables."""

    STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = (
        SecretParser.STATEMENT_PARSERS
    )

    def _parse_other_create(self) -> exp.Expr | None:
        if (scope := self._match_function_words()) is not None:
            return self._parse_create_function(**scope)
        if self._match_text_seq("OR", "ALTER", "MATERIALIZED", "TABLE"):
            return self._parse_create_materialized(alter=True)
        if self._match_text_seq("MATERIALIZED", "TABLE"):
            return self._parse_create_materialized(alter=False)
        return self._parse_secret("CREATE") or self._parse_refused_object("CREATE")

    def _parse_other_alter(self) -> exp.Expr | None:
        if (scope := self._match_function_words()) is not None:
            exists, name = bool(self._parse_exists()), self._parse_target()
            body, language = self._parse_body()
            return AlterFunction(
                this=name, expression=body, language=language, exists=exists or None, **scope
            )
        if self._match_text_seq("MATERIALIZED", "TABLE"):
            return self._parse_alter_materialized()
        return self._parse_secret("ALTER") or self._parse_refused_object("ALTER")

    def _parse_other_drop(self) -> exp.Expr | None:
        if (scope := self._match_function_words()) is not None:
            exists = bool(self._parse_exists())
            return DropFunction(this=self._parse_target(), exists=exists or None, **scope)
        if self._match_text_seq("MATERIALIZED", "TABLE"):
            exists = bool(self._parse_exists())
            return DropMaterializedTable(this=self._parse_target(), exists=exists or None)
        return self._parse_secret("DROP") or self._parse_refused_object("DROP")

    def _parse_refused_object(self, verb: str) -> RefusedStatement | None:
        """What follows `verb` where it is about a model or a connection."""
        for words in REFUSED_OBJECTS:
            if self._match_text_seq(*words):
                return self._parse_rest(f"{verb} {' '.join(words)}")
        return None

    def _parse_rest(self, words: str) -> RefusedStatement:
        """Pass over the rest of the statement, and keep it as text."""
        first = last = self._curr
        while self._curr:
            last = self._curr
            self._advance()
        rest = self.sql[first.start : last.end + 1] if first else ""
        return RefusedStatement(this=words, expression=rest or None)

    def _match_function_words(self) -> dict[str, Any] | None:
        """Pass over [TEMPORARY [SYSTEM]] FUNCTION; None, and nothing is passed over, where it is not there."""
        for words in (("TEMPORARY", "SYSTEM"), ("TEMPORARY",), ()):
            if self._match_text_seq(*words, "FUNCTION"):
                return {
                    "temporary": "TEMPORARY" in words or None,
                    "system": "SYSTEM" in words or None,
                }
        return None

    # --- functions ---

    def _parse_create_function(self, **scope: Any) -> CreateFunction:
        exists = bool(self._parse_exists(not_=True))
        name = self._parse_target()
        body, language = self._parse_body()
        node = CreateFunction(
            this=name, expression=body, language=language, exists=exists or None, **scope
        )
        if self._match(TokenType.USING):
            node.set("resources", self._parse_csv(self._parse_resource))
        if self._match(TokenType.WITH):
            node.set("options", self._parse_options())
        return node

    def _parse_body(self) -> tuple[exp.Expr, exp.Var | None]:
        """AS 'text' [LANGUAGE word]"""
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        body = self._require_string("AS 'module.attribute' LANGUAGE PYTHON, or AS 'java.Class'")
        if not self._match_text_seq("LANGUAGE"):
            return body, None
        if not self._match_texts(LANGUAGES):
            self.raise_error(f"Expected {', '.join(LANGUAGES)}")
        return body, mark(exp.var(self._prev.text.upper()), self._prev, self._prev)

    def _parse_resource(self) -> ResourceProperty:
        first = self._curr
        if not self._match_texts(RESOURCES):
            self.raise_error("Expected JAR")
        kind = exp.var(self._prev.text.upper())
        node = ResourceProperty(this=self._require_string(), kind=kind)
        return mark(node, first, self._prev)

    # --- materialized tables ---

    def _parse_create_materialized(self, *, alter: bool) -> CreateMaterializedTable:
        table: exp.Expr = self._parse_target()
        if self._match(TokenType.L_PAREN):
            elements = self._parse_csv(self._parse_table_element)
            self._match_r_paren()
            table = exp.Schema(this=table, expressions=elements)
        node = CreateMaterializedTable(this=table, alter=alter or None)
        if self._match_text_seq("COMMENT"):
            node.set("comment", self._require_string())
        if self._match_text_seq("DISTRIBUTED"):
            node.set("distribution", self._parse_distribution())
        if self._match(TokenType.PARTITION_BY):
            node.set("partitions", self._parse_name_list())
        if self._match(TokenType.WITH):
            node.set("options", self._parse_options())
        if self._match_text_seq("FRESHNESS"):
            self._require_equals()
            node.set("freshness", self._parse_freshness())
        if self._match_text_seq("REFRESH_MODE"):
            self._require_equals()
            node.set("mode", self._parse_refresh_mode())
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        node.set("expression", self._require_query())
        return node

    def _require_equals(self) -> None:
        if not self._match(TokenType.EQ):
            self.raise_error("Expected =")

    def _parse_freshness(self) -> exp.Expr:
        if self._curr.token_type != TokenType.INTERVAL:
            self.raise_error("Expected INTERVAL", hint="FRESHNESS = INTERVAL '3' MINUTE")
        interval = self._parse_interval()
        assert interval is not None, "the word was looked at"
        return interval

    def _parse_refresh_mode(self) -> exp.Var:
        if not self._match_texts(REFRESH_MODES):
            self.raise_error(f"Expected {' or '.join(REFRESH_MODES)}")
        return mark(exp.var(self._prev.text.upper()), self._prev, self._prev)

    def _parse_alter_materialized(self) -> AlterMaterializedTable:
        node = AlterMaterializedTable(this=self._parse_target())
        if self._match(TokenType.ALIAS):
            node.set("action", "AS")
            node.set("expression", self._require_query())
            return node
        if self._curr and self._curr.text.upper() in TABLE_ACTIONS:
            node.set("action", self._curr.text.upper())
            node.set("expression", self._parse_table_action())
            return node
        action = self._match_one_of(ACTIONS)
        if action is None:
            self.raise_error(
                f"Expected AS, {', '.join((*WORDS, *TABLE_ACTIONS))}",
                hint="drop the materialized table and create it again for other changes",
            )
        node.set("action", action)
        if action == "REFRESH" and self._match(TokenType.PARTITION):
            node.set("partition", self._parse_partition_spec())
        elif action == "SET FRESHNESS":
            self._require_equals()
            node.set("expression", self._parse_freshness())
        elif action == "SET REFRESH_MODE":
            self._require_equals()
            node.set("expression", self._parse_refresh_mode())
        elif action == "SET" or (action == "RESUME" and self._match(TokenType.WITH)):
            node.set("options", self._parse_options())
        elif action == "RESET":
            self._match_l_paren()
            node.set("options", self._parse_csv(self._require_string))
            self._match_r_paren()
        return node

    def _parse_table_element(self) -> exp.Expr:
        """One element of a table's declaration, which the parser of tables reads."""
        raise NotImplementedError

    def _parse_distribution(self) -> exp.Expr:
        """What follows DISTRIBUTED, which the parser of tables reads."""
        raise NotImplementedError

    def _parse_table_action(self) -> exp.Expr:
        """ADD, MODIFY, DROP or RENAME with what follows, which the parser of ALTER TABLE reads."""
        raise NotImplementedError
