"""Read CREATE, ALTER and DROP of functions, of materialized tables and of secrets.

These share their first words with other statements: `_parse_other_...` look ahead and return None where the
statement is not one of theirs. Flink has no secrets.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.catalog.masking import keep_secret
from penstock.sql.dialect.parser.expressions import parse_interval
from penstock.sql.dialect.parser.parts import (
    match_one_of,
    parse_list,
    parse_name,
    parse_name_list,
    parse_options,
    parse_partition_spec,
    parse_rest,
    parse_target,
    require_query,
    require_string,
)
from penstock.sql.dialect.parser.table_ddl import (
    parse_distribution,
    parse_table_action,
    parse_table_element,
)
from penstock.sql.syntax.nodes import (
    AlterFunctionStatement,
    AlterMaterializedTableStatement,
    CreateFunctionStatement,
    CreateMaterializedTableStatement,
    DropFunctionStatement,
    DropMaterializedTableStatement,
    RefusedStatement,
    ResourceProperty,
    SecretStatement,
)
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark


def _parse_secret(parser: ReportingParser, action: str) -> SecretStatement | None:
    """What follows CREATE, ALTER or DROP where that is about a secret; else None, and nothing is passed over."""
    if not parser._match_text_seq("SECRET"):
        return None
    exists = action != "ALTER" and bool(parser._parse_exists(not_=action == "CREATE"))
    node = SecretStatement(
        this=parse_name(parser, "the name of a secret"), action=action, exists=exists or None
    )
    if action == "DROP":
        return node
    hint = f"{action} SECRET name AS 'value'"
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expected AS", hint=hint)
    value = require_string(parser, hint)
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


def parse_other_create(parser: ReportingParser) -> exp.Expr | None:
    """What follows CREATE of a function, materialized table or secret; None for another object."""
    if (scope := _match_function_words(parser)) is not None:
        return _parse_create_function(parser, **scope)
    if parser._match_text_seq("OR", "ALTER", "MATERIALIZED", "TABLE"):
        return _parse_create_materialized(parser, alter=True)
    if parser._match_text_seq("MATERIALIZED", "TABLE"):
        return _parse_create_materialized(parser, alter=False)
    return _parse_secret(parser, "CREATE") or _parse_refused_object(parser, "CREATE")


def parse_other_alter(parser: ReportingParser) -> exp.Expr | None:
    """What follows ALTER of a function, materialized table or secret; None for another object."""
    if (scope := _match_function_words(parser)) is not None:
        exists, name = bool(parser._parse_exists()), parse_target(parser)
        body, language = _parse_body(parser)
        return AlterFunctionStatement(
            this=name, expression=body, language=language, exists=exists or None, **scope
        )
    if parser._match_text_seq("MATERIALIZED", "TABLE"):
        return _parse_alter_materialized(parser)
    return _parse_secret(parser, "ALTER") or _parse_refused_object(parser, "ALTER")


def parse_other_drop(parser: ReportingParser) -> exp.Expr | None:
    """What follows DROP of a function, materialized table or secret; None for another object."""
    if (scope := _match_function_words(parser)) is not None:
        exists = bool(parser._parse_exists())
        return DropFunctionStatement(this=parse_target(parser), exists=exists or None, **scope)
    if parser._match_text_seq("MATERIALIZED", "TABLE"):
        exists = bool(parser._parse_exists())
        return DropMaterializedTableStatement(this=parse_target(parser), exists=exists or None)
    return _parse_secret(parser, "DROP") or _parse_refused_object(parser, "DROP")


def _parse_refused_object(parser: ReportingParser, verb: str) -> RefusedStatement | None:
    """What follows `verb` where it is about a model or a connection."""
    for words in REFUSED_OBJECTS:
        if parser._match_text_seq(*words):
            return parse_rest(parser, f"{verb} {' '.join(words)}")
    return None


def _match_function_words(parser: ReportingParser) -> dict[str, Any] | None:
    """Pass over [TEMPORARY [SYSTEM]] FUNCTION; None, and nothing is passed over, where it is not there."""
    for words in (("TEMPORARY", "SYSTEM"), ("TEMPORARY",), ()):
        if parser._match_text_seq(*words, "FUNCTION"):
            return {
                "temporary": "TEMPORARY" in words or None,
                "system": "SYSTEM" in words or None,
            }
    return None


# --- functions ---


def _parse_create_function(parser: ReportingParser, **scope: Any) -> CreateFunctionStatement:
    exists = bool(parser._parse_exists(not_=True))
    name = parse_target(parser)
    body, language = _parse_body(parser)
    node = CreateFunctionStatement(
        this=name, expression=body, language=language, exists=exists or None, **scope
    )
    if parser._match(TokenType.USING):
        node.set("resources", parse_list(parser, _parse_resource))
    if parser._match(TokenType.WITH):
        node.set("options", parse_options(parser))
    return node


def _parse_body(parser: ReportingParser) -> tuple[exp.Expr, exp.Var | None]:
    """AS 'text' [LANGUAGE word]"""
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expected AS")
    body = require_string(parser, "AS 'module.attribute' LANGUAGE PYTHON, or AS 'java.Class'")
    if not parser._match_text_seq("LANGUAGE"):
        return body, None
    if not parser._match_texts(LANGUAGES):
        parser.raise_error(f"Expected {', '.join(LANGUAGES)}")
    return body, mark(exp.var(parser._prev.text.upper()), parser._prev, parser._prev)


def _parse_resource(parser: ReportingParser) -> ResourceProperty:
    first = parser._curr
    if not parser._match_texts(RESOURCES):
        parser.raise_error("Expected JAR")
    kind = exp.var(parser._prev.text.upper())
    node = ResourceProperty(this=require_string(parser), kind=kind)
    return mark(node, first, parser._prev)


# --- materialized tables ---


def _parse_create_materialized(
    parser: ReportingParser, *, alter: bool
) -> CreateMaterializedTableStatement:
    table: exp.Expr = parse_target(parser)
    if parser._match(TokenType.L_PAREN):
        elements = parse_list(parser, parse_table_element)
        parser._match_r_paren()
        table = exp.Schema(this=table, expressions=elements)
    node = CreateMaterializedTableStatement(this=table, alter=alter or None)
    if parser._match_text_seq("COMMENT"):
        node.set("comment", require_string(parser))
    if parser._match_text_seq("DISTRIBUTED"):
        node.set("distribution", parse_distribution(parser))
    if parser._match(TokenType.PARTITION_BY):
        node.set("partitions", parse_name_list(parser))
    if parser._match(TokenType.WITH):
        node.set("options", parse_options(parser))
    if parser._match_text_seq("FRESHNESS"):
        _require_equals(parser)
        node.set("freshness", _parse_freshness(parser))
    if parser._match_text_seq("REFRESH_MODE"):
        _require_equals(parser)
        node.set("mode", _parse_refresh_mode(parser))
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expected AS")
    node.set("expression", require_query(parser))
    return node


def _require_equals(parser: ReportingParser) -> None:
    if not parser._match(TokenType.EQ):
        parser.raise_error("Expected =")


def _parse_freshness(parser: ReportingParser) -> exp.Expr:
    if parser._curr.token_type != TokenType.INTERVAL:
        parser.raise_error("Expected INTERVAL", hint="FRESHNESS = INTERVAL '3' MINUTE")
    interval = parse_interval(parser)
    assert interval is not None, "the word was looked at"
    return interval


def _parse_refresh_mode(parser: ReportingParser) -> exp.Var:
    if not parser._match_texts(REFRESH_MODES):
        parser.raise_error(f"Expected {' or '.join(REFRESH_MODES)}")
    return mark(exp.var(parser._prev.text.upper()), parser._prev, parser._prev)


def _parse_alter_materialized(parser: ReportingParser) -> AlterMaterializedTableStatement:
    node = AlterMaterializedTableStatement(this=parse_target(parser))
    if parser._match(TokenType.ALIAS):
        node.set("action", "AS")
        node.set("expression", require_query(parser))
        return node
    if parser._curr and parser._curr.text.upper() in TABLE_ACTIONS:
        node.set("action", parser._curr.text.upper())
        node.set("expression", parse_table_action(parser))
        return node
    action = match_one_of(parser, ACTIONS)
    if action is None:
        parser.raise_error(
            f"Expected AS, {', '.join((*WORDS, *TABLE_ACTIONS))}",
            hint="drop the materialized table and create it again for other changes",
        )
    node.set("action", action)
    if action == "REFRESH" and parser._match(TokenType.PARTITION):
        node.set("partition", parse_partition_spec(parser))
    elif action == "SET FRESHNESS":
        _require_equals(parser)
        node.set("expression", _parse_freshness(parser))
    elif action == "SET REFRESH_MODE":
        _require_equals(parser)
        node.set("expression", _parse_refresh_mode(parser))
    elif action == "SET" or (action == "RESUME" and parser._match(TokenType.WITH)):
        node.set("options", parse_options(parser))
    elif action == "RESET":
        parser._match_l_paren()
        node.set("options", parse_list(parser, require_string))
        parser._match_r_paren()
    return node
