"""Read CREATE, ALTER and DROP of tables, views, databases and catalogs.

A column is a ColumnDef; a computed one has a ComputedColumnConstraint, a metadata column an Anonymous METADATA
(with the key) and perhaps a Var VIRTUAL. Options of WITH are Property nodes of literals; LIKE is a LikeProperty
of Properties of two Vars, such as INCLUDING and OPTIONS. RENAME TO is an AlterRename, RENAME a TO b a
RenameColumn, SET an AlterSet of Properties, RESET an AlterSet with `option` RESET, ADD and MODIFY an
AlterElements, DROP a Drop whose `kind` says of what; partitions are AddPartition and DropPartition. A catalog
or database is a Table node with the parts of the name.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.parts import (
    is_word,
    match_word,
    parse_comment_clause,
    parse_list,
    parse_name,
    parse_name_list,
    parse_option_keys,
    parse_options,
    properties_of,
    require_expression,
    require_object,
    require_query,
    require_string,
    require_words,
)
from penstock.sql.dialect.parser.types import parse_data_type
from penstock.sql.syntax.nodes import AlterElements, Distribution, ReplaceTable
from penstock.sql.syntax.parse_errors import ReportingParser
from penstock.sql.syntax.positions import mark

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


def parse_create_table(
    parser: ReportingParser, *, temporary: bool = False, replace: bool = False, create: bool = True
) -> exp.Create:
    """What follows CREATE TABLE, CREATE OR REPLACE TABLE (`replace`) or REPLACE TABLE (not `create`)."""
    kind = exp.Create if create else ReplaceTable
    exists = not replace and bool(parser._parse_exists(not_=True))
    table = require_object(parser, "table name")
    elements: list[exp.Expr] = []
    if parser._match(TokenType.L_PAREN):
        elements = parse_list(parser, parse_table_element)
        parser._match_r_paren()
    properties: list[exp.Expr] = [exp.TemporaryProperty()] if temporary else []
    properties += parse_comment_clause(parser)
    if match_word(parser, "DISTRIBUTED"):
        properties.append(parse_distribution(parser))
    if parser._match(TokenType.PARTITION_BY):
        keys = exp.Tuple(expressions=parse_name_list(parser))
        properties.append(exp.PartitionedByProperty(this=keys))
    if parser._match(TokenType.WITH):
        properties += parse_options(parser)
    if not replace and parser._match(TokenType.LIKE):
        properties.append(_parse_like_clause(parser))
    query = require_query(parser) if parser._match(TokenType.ALIAS) else None
    if replace and query is None:
        parser.raise_error("Expected AS", hint="REPLACE TABLE name [WITH (...)] AS SELECT ...")
    _check_names_only(parser, elements, query)
    return kind(
        this=exp.Schema(this=table, expressions=elements),
        kind="TABLE",
        exists=exists,
        replace=replace,
        expression=query,
        properties=properties_of(properties),
    )


def _check_names_only(
    parser: ReportingParser, elements: list[exp.Expr], query: exp.Expr | None
) -> None:
    """A list of names orders the columns of AS: it has names only, and AS behind it."""
    names = [element for element in elements if isinstance(element, exp.Identifier)]
    if not names or (query is not None and len(names) == len(elements)):
        return
    start, name = names[0].meta["start"], names[0].name
    token = next(token for token in parser._tokens if token.start == start)
    hint = "only the columns of CREATE TABLE ... AS can be named without types"
    parser.raise_error(f"the column '{name}' has no type", token, hint=hint)


def parse_create_view(parser: ReportingParser, *, temporary: bool = False) -> exp.Create:
    """What follows CREATE [TEMPORARY] VIEW."""
    exists = bool(parser._parse_exists(not_=True))
    view = require_object(parser, "a view")
    if parser._curr.token_type == TokenType.L_PAREN:
        parser._advance()
        view = exp.Schema(this=view, expressions=parse_list(parser, _parse_view_column))
        parser._match_r_paren()
    properties: list[exp.Expr] = [exp.TemporaryProperty()] if temporary else []
    properties += parse_comment_clause(parser)
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expected AS")
    return exp.Create(
        this=view,
        kind="VIEW",
        exists=exists,
        expression=require_query(parser),
        properties=properties_of(properties),
    )


def _parse_view_column(parser: ReportingParser) -> exp.Expr:
    """A view's column; its COMMENT is Spark's, Flink has none there."""
    first = parser._curr
    name = parse_name(parser, "a column")
    if not match_word(parser, "COMMENT"):
        return name
    comment = exp.CommentColumnConstraint(this=require_string(parser))
    column = exp.ColumnDef(this=name, constraints=[exp.ColumnConstraint(kind=comment)])
    return mark(column, first, parser._prev)


# --- elements ---


def parse_table_element(parser: ReportingParser) -> exp.Expr:
    """A column, watermark, key, or bare name of a table."""
    first = parser._curr
    if is_word(parser, "WATERMARK") and parser._next.text.upper() == "FOR":
        parser._advance(2)
        column = parse_name(parser, "a column")
        if not parser._match(TokenType.ALIAS):
            parser.raise_error("Expected AS")
        expression = require_expression(parser)
        node: exp.Expr = exp.WatermarkColumnConstraint(this=column, expression=expression)
        return mark(node, first, parser._prev)
    if first.token_type in KEY_STARTS:
        return _parse_key(parser, inline=False)
    if first.token_type == TokenType.UNIQUE:
        parser.refuse("UNIQUE", "only PRIMARY KEY (...) NOT ENFORCED is a constraint in Flink")
    if parser._next.token_type in NAME_ENDS:
        return parse_name(parser, "a column")
    return _parse_column_declaration(parser)


def _parse_key(parser: ReportingParser, *, inline: bool) -> exp.Expr:
    first = parser._curr
    name = parse_name(parser, "a name") if parser._match(TokenType.CONSTRAINT) else None
    if not parser._match(TokenType.PRIMARY_KEY):
        parser.raise_error("Expected PRIMARY KEY")
    key: exp.Expr = exp.PrimaryKeyColumnConstraint()
    if not inline:
        key = exp.PrimaryKey(expressions=parse_name_list(parser))
    if not parser._match_text_seq("NOT", "ENFORCED"):
        parser.raise_error(
            "Expected NOT ENFORCED",
            hint="Flink never enforces a key: PRIMARY KEY ... NOT ENFORCED",
        )
    mark(key, first, parser._prev)
    if name is None:
        return key
    return mark(exp.Constraint(this=name, expressions=[key]), first, parser._prev)


def _parse_column_declaration(parser: ReportingParser) -> exp.ColumnDef:
    first = parser._curr
    name = parse_name(parser, "a column")
    kinds: list[exp.Expr] = []
    data_type = None
    if parser._match(TokenType.ALIAS):
        kinds.append(exp.ComputedColumnConstraint(this=require_expression(parser)))
    elif not parser._curr:
        parser.raise_error("Expected a type")
    else:
        data_type = parse_data_type(parser)
        kinds += _parse_column_options(parser)
    if match_word(parser, "COMMENT"):
        kinds.append(exp.CommentColumnConstraint(this=require_string(parser)))
    constraints = [exp.ColumnConstraint(kind=kind) for kind in kinds]
    column = exp.ColumnDef(this=name, kind=data_type, constraints=constraints)
    return mark(column, first, parser._prev)


def _parse_column_options(parser: ReportingParser) -> list[exp.Expr]:
    kinds: list[exp.Expr] = []
    if match_word(parser, "METADATA"):
        metadata = parser._prev
        key = [require_string(parser)] if parser._match(TokenType.FROM) else []
        kinds.append(mark(exp.Anonymous(this="METADATA", expressions=key), metadata, parser._prev))
        if match_word(parser, "VIRTUAL"):
            kinds.append(exp.var("VIRTUAL"))
    elif parser._curr.token_type in KEY_STARTS:
        kinds.append(_parse_key(parser, inline=True))
    return kinds


# --- DISTRIBUTED, LIKE ---


def parse_distribution(parser: ReportingParser) -> Distribution:
    """BY [HASH | RANGE] (columns) [INTO n BUCKETS], or INTO n BUCKETS; the first word is read."""
    first = parser._prev
    kind, columns, buckets = None, [], None
    if match_word(parser, "BY"):
        if word := match_word(parser, "HASH", "RANGE"):
            kind = exp.var(word)
        columns = parse_name_list(parser)
    elif not is_word(parser, "INTO"):
        parser.raise_error("Expected BY or INTO")
    if parser._match(TokenType.INTO):
        buckets = parser._parse_number()
        if buckets is None or not buckets.name.isdigit() or int(buckets.name) == 0:
            parser.raise_error(
                "Expected a number of buckets", parser._curr if buckets is None else parser._prev
            )
        require_words(parser, "BUCKETS")
    node = Distribution(kind=kind, expressions=columns, buckets=buckets)
    return mark(node, first, parser._prev)


def _parse_like_clause(parser: ReportingParser) -> exp.LikeProperty:
    first = parser._prev
    table = require_object(parser, "table name")
    options: list[exp.Expr] = []
    if parser._match(TokenType.L_PAREN):
        while parser._curr.token_type != TokenType.R_PAREN:
            options.append(_parse_like_option(parser, options))
        parser._match_r_paren()
    return mark(exp.LikeProperty(this=table, expressions=options), first, parser._prev)


def _parse_like_option(parser: ReportingParser, earlier: list[exp.Expr]) -> exp.Property:
    first = parser._curr
    strategy = match_word(parser, *STRATEGIES)
    if strategy is None:
        parser.raise_error(f"Expected {', '.join(STRATEGIES)}")
    feature = match_word(parser, *FEATURES)
    if feature is None:
        parser.raise_error("Expected what to take over", hint=f"one of {', '.join(FEATURES)}")
    if strategy not in FEATURES[feature]:
        hint = f"{feature} can be {' or '.join(FEATURES[feature])}"
        parser.raise_error(f"unexpected '{first.text}'", first, hint=hint)
    if any(option.args["value"].name == feature for option in earlier):
        parser.raise_error(f"{feature} is given twice", parser._prev)
    node = exp.Property(this=exp.var(strategy), value=exp.var(feature))
    return mark(node, first, parser._prev)


TABLE_ACTIONS = ("ADD", "MODIFY", "DROP", "RENAME", "SET", "RESET")


def parse_alter_table(parser: ReportingParser) -> exp.Alter:
    """What follows ALTER TABLE."""
    exists = bool(parser._parse_exists())
    table = require_object(parser, "table name")
    actions = _parse_table_actions(parser)
    return exp.Alter(this=table, kind="TABLE", exists=exists, actions=actions)


def _parse_table_actions(parser: ReportingParser) -> list[exp.Expr]:
    """What is to change; several are partitions that are added."""
    first = parser._curr
    actions: list[exp.Expr]
    match match_word(parser, *TABLE_ACTIONS):
        case "ADD" if _is_partition_next(parser):
            actions = _parse_added_partitions(parser)
        case "ADD" | "MODIFY" as word:
            actions = [_parse_elements(parser, word)]
        case "DROP":
            actions = [_parse_dropped(parser)]
        case "RENAME" if is_word(parser, "TO"):
            parser._advance()
            actions = [exp.AlterRename(this=require_object(parser, "a table name"))]
        case "RENAME":
            actions = [_parse_renamed_column(parser)]
        case "SET" | "RESET" as word:
            actions = [_parse_changed_options(parser, word)]
        case _:
            parser.raise_error(f"Expected {', '.join(TABLE_ACTIONS)}")
    mark(actions[0], first, parser._prev)
    return actions


def parse_table_action(parser: ReportingParser) -> exp.Expr:
    """One change, as a materialized table may have it: partitions of those come from its query."""
    action, *more = _parse_table_actions(parser)
    if more or isinstance(action, exp.AddPartition):
        parser.refuse("ADD PARTITION of a materialized table", token=parser._prev)
    return action


def parse_alter_view(parser: ReportingParser) -> exp.Alter:
    """What follows ALTER VIEW."""
    view = require_object(parser, "a view")
    first = parser._curr
    action: exp.Expr
    if match_word(parser, "RENAME"):
        require_words(parser, "TO")
        action = exp.AlterRename(this=require_object(parser, "a view name"))
    elif parser._match(TokenType.ALIAS):
        return exp.Alter(this=view, kind="VIEW", actions=[require_query(parser)])
    else:
        parser.raise_error("Expected RENAME TO or AS")
    return exp.Alter(this=view, kind="VIEW", actions=[mark(action, first, parser._prev)])


def _parse_changed_options(parser: ReportingParser, word: str) -> exp.AlterSet:
    """SET ('key' = 'value', ...) and RESET ('key', ...), behind the word."""
    if word == "SET":
        return exp.AlterSet(expressions=parse_options(parser))
    return exp.AlterSet(expressions=parse_option_keys(parser), option=exp.var("RESET"))


def _parse_elements(parser: ReportingParser, word: str) -> AlterElements:
    if parser._match(TokenType.L_PAREN):
        elements = parse_list(parser, _parse_placed_element)
        parser._match_r_paren()
    elif match_word(parser, "DISTRIBUTION", "DISTRIBUTED"):
        elements = [parse_distribution(parser)]
    else:
        elements = [_parse_placed_element(parser)]
    return AlterElements(this=exp.var(word), expressions=elements)


def _parse_placed_element(parser: ReportingParser) -> exp.Expr:
    """An element of a table; a column with FIRST or AFTER name."""
    first = parser._curr
    element = parse_table_element(parser)
    if isinstance(element, exp.Identifier):
        parser.raise_error("Expected a type")
    if not isinstance(element, exp.ColumnDef):
        return element
    if parser._match(TokenType.FIRST):
        element.set("position", exp.ColumnPosition(position="FIRST"))
    elif match_word(parser, "AFTER"):
        after = parse_name(parser, "a column")
        element.set("position", exp.ColumnPosition(this=after, position="AFTER"))
    return mark(element, first, parser._prev)


def _parse_renamed_column(parser: ReportingParser) -> exp.RenameColumn:
    column = parse_name(parser, "a column")
    require_words(parser, "TO")
    return exp.RenameColumn(this=column, to=parse_name(parser, "a column"))


def _parse_dropped(parser: ReportingParser) -> exp.Expr:
    if parser._match(TokenType.PRIMARY_KEY):
        return exp.Drop(kind="PRIMARY KEY")
    if parser._match(TokenType.CONSTRAINT):
        return exp.Drop(kind="CONSTRAINT", expressions=[parse_name(parser, "a name")])
    if _is_partition_next(parser):
        exists = bool(parser._parse_exists())
        partitions = parse_list(parser, _parse_partition_values)
        return exp.DropPartition(expressions=partitions, exists=exists)
    if word := match_word(parser, "WATERMARK", "DISTRIBUTION"):
        return exp.Drop(kind=word)
    if parser._curr.token_type == TokenType.L_PAREN:
        return exp.Drop(kind="COLUMN", expressions=parse_name_list(parser))
    return exp.Drop(kind="COLUMN", expressions=[parse_name(parser, "a column")])


# --- partitions ---


def _is_partition_next(parser: ReportingParser) -> bool:
    """PARTITION, or IF [NOT] EXISTS, which only partitions can have."""
    return is_word(parser, "PARTITION", "IF")


def _parse_added_partitions(parser: ReportingParser) -> list[exp.Expr]:
    exists = bool(parser._parse_exists(not_=True))
    partitions: list[exp.Expr] = []
    while not partitions or is_word(parser, "PARTITION"):
        values = _parse_partition_values(parser)
        options = parse_options(parser) if parser._match(TokenType.WITH) else []
        location = exp.Properties(expressions=options) if options else None
        partitions.append(exp.AddPartition(this=values, exists=exists, location=location))
    return partitions


def _parse_partition_values(parser: ReportingParser) -> exp.Partition:
    """PARTITION (column = value, ...)"""
    if not parser._match(TokenType.PARTITION):
        parser.raise_error("Expected PARTITION")
    parser._match_l_paren()
    values = parse_list(parser, _parse_partition_value)
    parser._match_r_paren()
    return exp.Partition(expressions=values)


def _parse_partition_value(parser: ReportingParser) -> exp.Expr:
    column = parse_name(parser, "a column")
    if not parser._match(TokenType.EQ):
        parser.raise_error("Expected =")
    return exp.EQ(this=column, expression=require_expression(parser))


def parse_create_container(parser: ReportingParser, kind: str) -> exp.Create:
    """What follows CREATE CATALOG or CREATE DATABASE."""
    exists = bool(parser._parse_exists(not_=True))
    name = require_object(parser, f"a {kind.lower()}")
    properties = parse_comment_clause(parser)
    if parser._match(TokenType.WITH):
        properties += parse_options(parser)
    return exp.Create(this=name, kind=kind, exists=exists, properties=properties_of(properties))


def parse_alter_container(parser: ReportingParser, kind: str) -> exp.Alter:
    """What follows ALTER CATALOG or ALTER DATABASE: SET for both, RESET and COMMENT for catalogs."""
    name = require_object(parser, f"a {kind.lower()}")
    first = parser._curr
    words = ("SET", "RESET", "COMMENT") if kind == "CATALOG" else ("SET",)
    action: exp.Expr
    match match_word(parser, *words):
        case "COMMENT":
            action = exp.SchemaCommentProperty(this=require_string(parser))
        case "SET" | "RESET" as word:
            action = _parse_changed_options(parser, word)
        case _:
            parser.raise_error(f"Expected {', '.join(words)}")
    actions = [mark(action, first, parser._prev)]
    return exp.Alter(this=name, kind=kind, actions=actions)


def parse_drop_container(parser: ReportingParser, kind: str) -> exp.Drop:
    """What follows DROP CATALOG or DROP DATABASE."""
    exists = bool(parser._parse_exists())
    name = require_object(parser, f"a {kind.lower()}")
    word = match_word(parser, "RESTRICT", "CASCADE") if kind == "DATABASE" else None
    return exp.Drop(
        kind=kind,
        tables=[name],
        exists=exists,
        cascade=word == "CASCADE",
        restrict=word == "RESTRICT",
    )


def parse_drop_object(parser: ReportingParser, kind: str, *, temporary: bool) -> exp.Drop:
    """What follows DROP [TEMPORARY] TABLE or VIEW."""
    exists = bool(parser._parse_exists())
    table = require_object(parser, f"a {kind.lower()}")
    return exp.Drop(kind=kind, tables=[table], exists=exists, temporary=temporary)
