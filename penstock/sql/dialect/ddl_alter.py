"""Parses ALTER TABLE and ALTER VIEW in all their forms: an Alter whose `actions` say what to change.

RENAME TO is an AlterRename, RENAME a TO b a RenameColumn, SET an AlterSet of Properties, RESET an
AlterSet with `option` RESET, ADD and MODIFY an AlterElements, DROP a Drop whose `kind` says of what;
partitions are AddPartition and DropPartition; ALTER VIEW ... AS has the query itself.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.ddl_create import CreateParser
from penstock.sql.dialect.ddl_nodes import AlterElements
from penstock.sql.positions import mark

__all__ = ["AlterParser"]

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
