"""Read SHOW and DESCRIBE in all their forms.

SHOW is a Show: `this` is what is shown in words, `db` the place behind FROM (or the table, for COLUMNS and
PARTITIONS), `target` the object of SHOW CREATE, `like` with `scope_kind` ([NOT] LIKE | ILIKE) the pattern. DESCRIBE
is a Describe whose `kind` is CATALOG, DATABASE, FUNCTION or JOB, and none for a table.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.parts import match_one_of, parse_partition_spec, require_string
from penstock.sql.dialect.parser.relations import parse_table_parts
from penstock.sql.syntax.parse_errors import ReportingParser

__all__ = ["LISTED", "parse_describe", "parse_show"]

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


def parse_show(parser: ReportingParser) -> exp.Expr | None:
    """What follows SHOW."""
    if parser._match(TokenType.CREATE):
        words = match_one_of(parser, CREATED)
        if words is None:
            _refuse_words(parser, "SHOW CREATE", CREATED)
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
