"""Read a statement by its first words, among them SHOW, DESCRIBE, EXPLAIN, and those about jars, jobs and SET."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.dialect.parser.dml import parse_call, parse_insert
from penstock.sql.dialect.parser.parts import (
    QUERY_STARTS,
    expect_words,
    is_word,
    match_one_of,
    match_word,
    parse_name,
    parse_options,
    parse_partition_spec,
    parse_rest,
    require_object,
    require_string,
    require_words,
)
from penstock.sql.dialect.parser.relations import parse_table_parts
from penstock.sql.dialect.parser.table_ddl import (
    parse_alter_container,
    parse_alter_table,
    parse_alter_view,
    parse_create_container,
    parse_create_table,
    parse_create_view,
    parse_drop_container,
    parse_drop_object,
)
from penstock.sql.syntax.nodes import (
    ExplainStatement,
    JarStatement,
    ModuleStatement,
    StatementSetBlock,
    StopJobStatement,
)
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

EXPLAIN_DETAILS = ("CHANGELOG_MODE", "ESTIMATED_COST", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
"""What EXPLAIN may be asked for beside the plan (Flink's ExplainDetail)."""

INNER_END = TokenType.BREAK
"""What a semicolon inside a statement set becomes: a token that nothing else takes for a part of it."""

SET_STARTS = (
    ("EXECUTE", "STATEMENT", "SET", "BEGIN"),
    ("STATEMENT", "SET", "BEGIN"),
    ("BEGIN", "STATEMENT", "SET", ";"),
)


# --- statements that hold statements ---


def parse_execute(parser: ReportingParser) -> exp.Expr | None:
    """What follows EXECUTE."""
    if parser._match(TokenType.INSERT):
        return parse_insert(parser)
    if parser._match_text_seq("STATEMENT", "SET", "BEGIN"):
        return _parse_set_block(parser)
    if parser._match_text_seq("PLAN"):
        return parse_rest(parser, "EXECUTE PLAN")
    if parser._curr.token_type in QUERY_STARTS:
        return parser._parse_statement()
    return parser.raise_error("Expected INSERT, SELECT or STATEMENT SET")


def parse_begin(parser: ReportingParser) -> StatementSetBlock:
    """What follows BEGIN."""
    expect_words(parser, "STATEMENT", "SET")
    if not parser._match(INNER_END):
        parser.raise_error("Expected ;")
    return _parse_set_block(parser)


def _parse_set_block(parser: ReportingParser) -> StatementSetBlock:
    inserts: list[exp.Expr] = []
    while not parser._match(TokenType.END):
        inserts.append(_parse_set_member(parser))
        if not parser._match(INNER_END):
            parser.raise_error("Expected ;")
    return StatementSetBlock(expressions=inserts)


def _parse_set_member(parser: ReportingParser) -> exp.Expr:
    """An INSERT, or CREATE TABLE ... AS as Flink's SQL client takes it."""
    if parser._match(TokenType.INSERT):
        return parse_insert(parser)
    first = parser._curr
    if first.token_type in (TokenType.CREATE, TokenType.REPLACE):
        made = parser._parse_statement()
        if (
            isinstance(made, exp.Create)
            and made.kind == "TABLE"
            and isinstance(made.expression, exp.Query)
        ):
            return made
    return parser.raise_error("Expected INSERT, CREATE TABLE ... AS or END", first)


def _parse_compile(parser: ReportingParser) -> exp.Expr:
    for words in (("PLAN",), ("AND", "EXECUTE", "PLAN")):
        if parser._match_text_seq(*words):
            return parse_rest(parser, f"COMPILE {' '.join(words)}")
    return parser.raise_error("Expected PLAN")


# --- jars, jobs, modules ---


def _parse_jar(parser: ReportingParser, action: str) -> JarStatement:
    expect_words(parser, "JAR")
    return JarStatement(this=require_string(parser), action=action)


def _parse_stop(parser: ReportingParser) -> StopJobStatement:
    expect_words(parser, "JOB")
    node = StopJobStatement(this=require_string(parser))
    while parser._match(TokenType.WITH):
        if parser._match_text_seq("SAVEPOINT"):
            node.set("savepoint", True)
        elif parser._match_text_seq("DRAIN"):
            node.set("drain", True)
        else:
            parser.raise_error("Expected SAVEPOINT or DRAIN")
    return node


def parse_load_module(parser: ReportingParser) -> ModuleStatement:
    """What follows LOAD."""
    expect_words(parser, "MODULE")
    return _parse_modules(parser, "LOAD")


def _parse_unload(parser: ReportingParser) -> ModuleStatement:
    expect_words(parser, "MODULE")
    return _parse_modules(parser, "UNLOAD")


def _parse_modules(parser: ReportingParser, action: str) -> ModuleStatement:
    """The names behind LOAD MODULE, UNLOAD MODULE and USE MODULES; one, but for USE."""
    if action == "USE" and parser._curr.text.upper() == "MODULES":
        parser._advance()
    names = [parse_name(parser, "the name of a module")]
    while action == "USE" and parser._match(TokenType.COMMA):
        names.append(parse_name(parser, "the name of a module"))
    node = ModuleStatement(expressions=names, action=action)
    if action == "LOAD" and parser._match(TokenType.WITH):
        node.set("options", parse_options(parser))
    return node


def _parse_explain(parser: ReportingParser) -> ExplainStatement:
    details: list[exp.Expr] = []
    if not parser._match_text_seq("PLAN", "FOR"):
        while parser._match_texts(EXPLAIN_DETAILS):
            details.append(mark(exp.var(parser._prev.text.upper()), parser._prev, parser._prev))
            if not parser._match(TokenType.COMMA):
                break
    inside = parser._match_text_seq("STATEMENT", "SET", "BEGIN")
    statement = _parse_set_block(parser) if inside else parser._parse_statement()
    if statement is None:
        parser.raise_error("Expected a statement")
    return ExplainStatement(this=statement, details=details)


STATEMENT_WORDS: dict[str, Callable[[Any], exp.Expr]] = {
    "ADD": lambda parser: _parse_jar(parser, "ADD"),
    "CALL": parse_call,
    "COMPILE": _parse_compile,
    "EXPLAIN": _parse_explain,
    "REMOVE": lambda parser: _parse_jar(parser, "REMOVE"),
    "STOP": _parse_stop,
    "UNLOAD": _parse_unload,
}
"""Statements whose first word is no keyword of the tokenizer, and what reads the rest of them."""


def without_inner_ends(tokens: Sequence[Token]) -> list[Token]:
    """The tokens, with the semicolons of statement sets made INNER_END."""
    if not any(token.token_type == TokenType.SEMICOLON for token in tokens):
        return list(tokens)
    found: list[Token] = []
    depth = 0
    for index, token in enumerate(tokens):
        words = tuple(each.text.upper() for each in tokens[index : index + 4])
        if depth == 0 and any(words[: len(start)] == start for start in SET_STARTS):
            depth = 1
        elif depth and token.token_type == TokenType.CASE:
            depth += 1  # each CASE has an END of its own
        elif depth and token.token_type == TokenType.END:
            depth -= 1
        inner = depth > 0 and token.token_type == TokenType.SEMICOLON
        found.append(_inner_end(token) if inner else token)
    return found


def _inner_end(token: Token) -> Token:
    return Token(
        INNER_END, token.text, token.line, token.col, token.start, token.end, token.comments
    )


DATA_STARTS = (TokenType.SELECT, TokenType.INSERT, TokenType.WITH, TokenType.EXECUTE)

STATEMENT_PARTS = (
    TokenType.VAR,
    TokenType.IDENTIFIER,
    TokenType.DATABASE,
    TokenType.VALUES,
    TokenType.CREATE,
    TokenType.REPLACE,
    *DATA_STARTS,
)

CREATED = ("TABLE", "VIEW", "DATABASE", "CATALOG")

REFUSED_OBJECTS = ("FUNCTION", "MODEL", "CONNECTION", "MATERIALIZED", "SYSTEM")


# --- definitions ---


def parse_create(parser: ReportingParser) -> exp.Create | exp.Command:
    """What follows CREATE of a table, view, database or catalog."""
    if parser._match(TokenType.OR):
        require_words(parser, "REPLACE", "TABLE")
        return parse_create_table(parser, replace=True)
    temporary = bool(parser._match(TokenType.TEMPORARY))
    match match_word(parser, *(("TABLE", "VIEW") if temporary else CREATED)):
        case "TABLE":
            return parse_create_table(parser, temporary=temporary)
        case "VIEW":
            return parse_create_view(parser, temporary=temporary)
        case str() as kind:
            return parse_create_container(parser, kind)
    _refuse_object(parser, "CREATE")
    return parser.raise_error("Expected TABLE, VIEW, DATABASE or CATALOG")


def parse_replace_table(parser: ReportingParser) -> exp.Create:
    """What follows REPLACE."""
    require_words(parser, "TABLE")
    return parse_create_table(parser, replace=True, create=False)


def parse_alter(parser: ReportingParser) -> exp.Alter | exp.Command:
    """What follows ALTER of a table, view, database or catalog."""
    match match_word(parser, *CREATED):
        case "TABLE":
            return parse_alter_table(parser)
        case "VIEW":
            return parse_alter_view(parser)
        case str() as kind:
            return parse_alter_container(parser, kind)
    _refuse_object(parser, "ALTER")
    return parser.raise_error("Expected TABLE, VIEW, DATABASE or CATALOG")


def parse_drop(
    parser: ReportingParser, exists: bool = False, kind: str | None = None
) -> exp.Drop | exp.Command:
    """What follows DROP of a table, view, database or catalog."""
    temporary = bool(parser._match(TokenType.TEMPORARY))
    match match_word(parser, *(("TABLE", "VIEW") if temporary else CREATED)):
        case "TABLE" | "VIEW" as word:
            return parse_drop_object(parser, word, temporary=temporary)
        case str() as word:
            return parse_drop_container(parser, word)
    _refuse_object(parser, "DROP")
    return parser.raise_error("Expected TABLE, VIEW, DATABASE or CATALOG")


def _refuse_object(parser: ReportingParser, verb: str) -> None:
    """Refuse what Flink has beside tables, views, databases and catalogs."""
    if is_word(parser, *REFUSED_OBJECTS):
        parser.refuse(f"{verb} {parser._curr.text.upper()}")


def parse_set(
    parser: ReportingParser, unset: bool = False, tag: bool = False
) -> exp.Set | exp.Command:
    """SET 'key' = 'value' and RESET 'key', with or without quotes, as Flink's SetOperationParseStrategy."""
    first = parser._curr
    if not first:
        return exp.Set(expressions=[], unset=unset or None)
    hint = "quote the key: RESET 'key'" if unset else "quote both: SET 'key' = 'value'"
    key = parser._parse_string() or _parse_bare_text(parser, hint, key=True)
    if unset:
        return exp.Set(expressions=[exp.SetItem(this=key)], unset=True)
    if not parser._match(TokenType.EQ):
        parser.raise_error("Expected =", hint=hint)
    value = parser._parse_string() or _parse_bare_text(parser, hint)
    if parser._curr and parser._curr.token_type != TokenType.SEMICOLON:
        parser.raise_error("Expected the end of the statement", hint=hint)
    item = exp.EQ(this=key, expression=value)
    return exp.Set(expressions=[mark(exp.SetItem(this=item), first, parser._prev)])


def _parse_bare_text(parser: ReportingParser, hint: str, *, key: bool = False) -> exp.Expr:
    """A key or a value without quotes: what stands up to the next blank, a key's also up to the `=`."""
    first = last = parser._curr
    ends = (TokenType.EQ,) if key else ()
    while parser._curr and parser._curr.token_type not in (*ends, TokenType.STRING):
        if parser._curr is not first and parser._curr.start > last.end + 1:
            break
        last = parser._curr
        parser._advance()
    if parser._prev is not last or not last:
        parser.raise_error("Expected a string", hint=hint)
    rest = parser.sql[last.end + 1 : last.end + 2]
    if rest.strip(";" if not key else ";=").strip():  # a quote, or what is read as a comment
        parser.raise_error("Expected a string", hint=hint)
    text = parser.sql[first.start : last.end + 1]
    return mark(exp.Literal.string(text), first, last)


def parse_use(parser: ReportingParser) -> exp.Expr:
    """What follows USE."""
    kind = None
    if parser._curr.text.upper() == "CATALOG" and parser._next:
        parser._advance()
        kind = exp.var("CATALOG")
    elif parser._curr.text.upper() == "MODULES" and parser._next:
        return _parse_modules(parser, "USE")
    return exp.Use(kind=kind, this=require_object(parser, "a database"))


def parse_worded_statement(parser: ReportingParser) -> exp.Expr | None:
    """A statement whose first word is no keyword; else None, and nothing is passed over."""
    first = parser._curr
    word = first.text.upper() if first.token_type == TokenType.VAR else ""
    if word == "RESET":
        parser._advance()
        return parse_set(parser, unset=True)
    if (word in STATEMENT_WORDS and parser._next.token_type in STATEMENT_PARTS) or (
        word == "COMPILE" and parser._next.token_type == TokenType.AND
    ):
        parser._advance()
        return STATEMENT_WORDS[word](parser)
    return None


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

SHOWN_DEFINITIONS = (
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


def parse_show(parser: ReportingParser) -> exp.Expr | None:
    """What follows SHOW."""
    if parser._match(TokenType.CREATE):
        words = match_one_of(parser, SHOWN_DEFINITIONS)
        if words is None:
            _refuse_words(parser, "SHOW CREATE", SHOWN_DEFINITIONS)
        return exp.Show(this=f"CREATE {words}", target=parse_table_parts(parser, schema=True))
    if (words := match_one_of(parser, PLAIN)) is not None:
        return exp.Show(this=words)
    if parser._match_text_seq("PARTITIONS"):
        return _parse_show_partitions(parser)
    if (words := match_one_of(parser, LISTED)) is None:
        _refuse_words(parser, "SHOW", (*PLAIN, *LISTED, ("PARTITIONS",), ("CREATE",)))
    node = exp.Show(this=words)
    if parser._match(TokenType.FROM) or parser._match(TokenType.IN):
        node.set("db", parse_table_parts(parser, schema=True))
    elif words == "COLUMNS":
        parser.raise_error("Expected FROM", hint="SHOW COLUMNS FROM t")
    negated = parser._match(TokenType.NOT)
    if parser._match_texts(LIKE_WORDS):
        word = parser._prev.text.upper()
        node.set("scope_kind", f"NOT {word}" if negated else word)
        node.set("like", require_string(parser))
    elif negated:
        parser.raise_error("Expected LIKE")
    return node


def _parse_show_partitions(parser: ReportingParser) -> exp.Expr:
    node = exp.Show(this="PARTITIONS", db=parse_table_parts(parser, schema=True))
    if parser._match(TokenType.PARTITION):
        node.set("partition", parse_partition_spec(parser))
    return node


def parse_describe(parser: ReportingParser) -> exp.Describe:
    """What follows DESCRIBE."""
    kind = parser._curr.text.upper() if parser._next else ""
    if kind not in DESCRIBED:
        extended = _match_extended(parser)
        table = parse_table_parts(parser, schema=True)
        return exp.Describe(this=table, style="EXTENDED" if extended else None)
    parser._advance()
    if kind == "JOB":
        return exp.Describe(this=require_string(parser), kind=kind)
    extended = _match_extended(parser)
    name = parse_table_parts(parser, schema=True)
    return exp.Describe(this=name, kind=kind, style="EXTENDED" if extended else None)


def _match_extended(parser: ReportingParser) -> bool:
    """EXTENDED, where it is not the name itself."""
    extended = parser._curr.text.upper() == "EXTENDED" and bool(parser._next)
    if extended:
        parser._advance()
    return extended


def _refuse_words(parser: ReportingParser, verb: str, known: tuple[tuple[str, ...], ...]) -> None:
    parser.raise_error(
        f"Expected what to {verb}",
        hint=f"{verb} {', '.join(' '.join(words) for words in known)}",
    )
