"""Parse CREATE, ALTER and DROP of tables, views, databases and catalogs.

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

from penstock.sql.dialect.parser.statement_parts import StatementParts, properties_of
from penstock.sql.syntax.nodes import AlterElements, Distribution, ReplaceTable
from penstock.sql.syntax.positions import mark

__all__ = ["AlterParser", "CatalogParser", "CreateParser"]

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


TABLE_ACTIONS = ("ADD", "MODIFY", "DROP", "RENAME", "SET", "RESET")


class AlterParser(CreateParser):
    """The part of the parser that reads changes of tables and views."""

    def _parse_alter_table(self) -> exp.Alter:
        exists = bool(self._parse_exists())
        table = self._require_object("table name")
        actions = self._parse_table_actions()
        return exp.Alter(this=table, kind="TABLE", exists=exists, actions=actions)

    def _parse_table_actions(self) -> list[exp.Expr]:
        """What is to change; several are partitions that are added."""
        first = self._curr
        actions: list[exp.Expr]
        match self._match_word(*TABLE_ACTIONS):
            case "ADD" if self._is_partition_next():
                actions = self._parse_added_partitions()
            case "ADD" | "MODIFY" as word:
                actions = [self._parse_elements(word)]
            case "DROP":
                actions = [self._parse_dropped()]
            case "RENAME" if self._is_word("TO"):
                self._advance()
                actions = [exp.AlterRename(this=self._require_object("a table name"))]
            case "RENAME":
                actions = [self._parse_renamed_column()]
            case "SET" | "RESET" as word:
                actions = [self._parse_changed_options(word)]
            case _:
                self.raise_error(f"Expected {', '.join(TABLE_ACTIONS)}")
        mark(actions[0], first, self._prev)
        return actions

    def _parse_table_action(self) -> exp.Expr:
        """One change, as a materialized table may have it: partitions of those come from its query."""
        action, *more = self._parse_table_actions()
        if more or isinstance(action, exp.AddPartition):
            self.refuse("ADD PARTITION of a materialized table", token=self._prev)
        return action

    def _parse_alter_view(self) -> exp.Alter:
        view = self._require_object("a view")
        first = self._curr
        action: exp.Expr
        if self._match_word("RENAME"):
            self._require_words("TO")
            action = exp.AlterRename(this=self._require_object("a view name"))
        elif self._match(TokenType.ALIAS):
            return exp.Alter(this=view, kind="VIEW", actions=[self._require_query()])
        else:
            self.raise_error("Expected RENAME TO or AS")
        return exp.Alter(this=view, kind="VIEW", actions=[mark(action, first, self._prev)])

    def _parse_changed_options(self, word: str) -> exp.AlterSet:
        """SET ('key' = 'value', ...) and RESET ('key', ...), behind the word."""
        if word == "SET":
            return exp.AlterSet(expressions=self._parse_options())
        return exp.AlterSet(expressions=self._parse_option_keys(), option=exp.var("RESET"))

    def _parse_elements(self, word: str) -> AlterElements:
        if self._match(TokenType.L_PAREN):
            elements = self._parse_csv(self._parse_placed_element)
            self._match_r_paren()
        elif self._match_word("DISTRIBUTION", "DISTRIBUTED"):
            elements = [self._parse_distribution()]
        else:
            elements = [self._parse_placed_element()]
        return AlterElements(this=exp.var(word), expressions=elements)

    def _parse_placed_element(self) -> exp.Expr:
        """An element of a table; a column with FIRST or AFTER name."""
        first = self._curr
        element = self._parse_table_element()
        if isinstance(element, exp.Identifier):
            self.raise_error("Expected a type")
        if not isinstance(element, exp.ColumnDef):
            return element
        if self._match(TokenType.FIRST):
            element.set("position", exp.ColumnPosition(position="FIRST"))
        elif self._match_word("AFTER"):
            after = self._parse_name("a column")
            element.set("position", exp.ColumnPosition(this=after, position="AFTER"))
        return mark(element, first, self._prev)

    def _parse_renamed_column(self) -> exp.RenameColumn:
        column = self._parse_name("a column")
        self._require_words("TO")
        return exp.RenameColumn(this=column, to=self._parse_name("a column"))

    def _parse_dropped(self) -> exp.Expr:
        if self._match(TokenType.PRIMARY_KEY):
            return exp.Drop(kind="PRIMARY KEY")
        if self._match(TokenType.CONSTRAINT):
            return exp.Drop(kind="CONSTRAINT", expressions=[self._parse_name("a name")])
        if self._is_partition_next():
            exists = bool(self._parse_exists())
            partitions = self._parse_csv(self._parse_partition_values)
            return exp.DropPartition(expressions=partitions, exists=exists)
        if word := self._match_word("WATERMARK", "DISTRIBUTION"):
            return exp.Drop(kind=word)
        if self._curr.token_type == TokenType.L_PAREN:
            return exp.Drop(kind="COLUMN", expressions=self._parse_name_list())
        return exp.Drop(kind="COLUMN", expressions=[self._parse_name("a column")])

    # --- partitions ---

    def _is_partition_next(self) -> bool:
        """PARTITION, or IF [NOT] EXISTS, which only partitions can have."""
        return self._is_word("PARTITION", "IF")

    def _parse_added_partitions(self) -> list[exp.Expr]:
        exists = bool(self._parse_exists(not_=True))
        partitions: list[exp.Expr] = []
        while not partitions or self._is_word("PARTITION"):
            values = self._parse_partition_values()
            options = self._parse_options() if self._match(TokenType.WITH) else []
            location = exp.Properties(expressions=options) if options else None
            partitions.append(exp.AddPartition(this=values, exists=exists, location=location))
        return partitions

    def _parse_partition_values(self) -> exp.Partition:
        """PARTITION (column = value, ...)"""
        if not self._match(TokenType.PARTITION):
            self.raise_error("Expected PARTITION")
        self._match_l_paren()
        values = self._parse_csv(self._parse_partition_value)
        self._match_r_paren()
        return exp.Partition(expressions=values)

    def _parse_partition_value(self) -> exp.Expr:
        column = self._parse_name("a column")
        if not self._match(TokenType.EQ):
            self.raise_error("Expected =")
        return exp.EQ(this=column, expression=self._require_expression())


class CatalogParser(AlterParser):
    """The part of the parser that reads what tables live in."""

    def _parse_create_container(self, kind: str) -> exp.Create:
        """What follows CREATE CATALOG or CREATE DATABASE."""
        exists = bool(self._parse_exists(not_=True))
        name = self._require_object(f"a {kind.lower()}")
        properties = self._parse_comment_clause()
        if self._match(TokenType.WITH):
            properties += self._parse_options()
        return exp.Create(this=name, kind=kind, exists=exists, properties=properties_of(properties))

    def _parse_alter_container(self, kind: str) -> exp.Alter:
        """What follows ALTER CATALOG or ALTER DATABASE: SET for both, RESET and COMMENT for catalogs."""
        name = self._require_object(f"a {kind.lower()}")
        first = self._curr
        words = ("SET", "RESET", "COMMENT") if kind == "CATALOG" else ("SET",)
        action: exp.Expr
        match self._match_word(*words):
            case "COMMENT":
                action = exp.SchemaCommentProperty(this=self._require_string())
            case "SET" | "RESET" as word:
                action = self._parse_changed_options(word)
            case _:
                self.raise_error(f"Expected {', '.join(words)}")
        actions = [mark(action, first, self._prev)]
        return exp.Alter(this=name, kind=kind, actions=actions)

    def _parse_drop_container(self, kind: str) -> exp.Drop:
        """What follows DROP CATALOG or DROP DATABASE."""
        exists = bool(self._parse_exists())
        name = self._require_object(f"a {kind.lower()}")
        word = self._match_word("RESTRICT", "CASCADE") if kind == "DATABASE" else None
        return exp.Drop(
            kind=kind,
            tables=[name],
            exists=exists,
            cascade=word == "CASCADE",
            restrict=word == "RESTRICT",
        )

    def _parse_drop_object(self, kind: str, *, temporary: bool) -> exp.Drop:
        """What follows DROP [TEMPORARY] TABLE or VIEW."""
        exists = bool(self._parse_exists())
        table = self._require_object(f"a {kind.lower()}")
        return exp.Drop(kind=kind, tables=[table], exists=exists, temporary=temporary)
