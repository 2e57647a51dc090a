"""Writes definitions as Flink SQL: CREATE, ALTER and DROP of tables, views, databases and catalogs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from penstock.sql.syntax.nodes import (
    AlterElements,
    AlterMaterializedTable,
    Distribution,
    ReplaceTable,
)

__all__ = ["DefinitionGenerator"]


class DefinitionGenerator(Generator):
    """The part of the generator that writes definitions."""

    # sqlglot finds the methods of its own nodes only, and has writers of its own for some of them
    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        **Generator.TRANSFORMS,
        AlterElements: lambda self, e: self.alterelements_sql(e),
        Distribution: lambda self, e: self.distribution_sql(e),
        ReplaceTable: lambda self, e: self.create_sql(e),
        exp.SchemaCommentProperty: lambda self, e: f"COMMENT {self.sql(e, 'this')}",
        exp.PartitionedByProperty: lambda self, e: f"PARTITIONED BY {self.sql(e, 'this')}",
    }

    def create_sql(self, expression: exp.Create) -> str:
        """CREATE of a table, view, database or catalog."""
        found = expression.args.get("properties")
        properties: list[exp.Expr] = found.expressions if found else []
        temporary = any(isinstance(p, exp.TemporaryProperty) for p in properties)
        verb = "CREATE OR REPLACE" if expression.args.get("replace") else "CREATE"
        parts = ["REPLACE" if isinstance(expression, ReplaceTable) else verb]
        parts += ["TEMPORARY" if temporary else "", expression.args["kind"]]
        parts.append("IF NOT EXISTS" if expression.args.get("exists") else "")
        parts.append(self.sql(expression, "this"))
        kinds = (exp.SchemaCommentProperty, Distribution, exp.PartitionedByProperty)
        parts += [self.sql(item) for kind in kinds for item in properties if isinstance(item, kind)]
        if options := [self.sql(item) for item in properties if type(item) is exp.Property]:
            parts.append(f"WITH ({', '.join(options)})")
        parts += [self.sql(item) for item in properties if isinstance(item, exp.LikeProperty)]
        if expression.expression:
            parts.append(f"AS {self.sql(expression, 'expression')}")
        return " ".join(part for part in parts if part)

    def schema_sql(self, expression: exp.Schema) -> str:
        """A name and what stands in parentheses behind it."""
        elements = self.expressions(expression, flat=True)
        return self.sql(expression, "this") + (f" ({elements})" if elements else "")

    def property_sql(self, expression: exp.Property) -> str:
        """'key' = 'value'."""
        return f"{self.sql(expression, 'this')} = {self.sql(expression, 'value')}"

    def distribution_sql(self, expression: Distribution) -> str:
        """DISTRIBUTED BY ... INTO n BUCKETS; only the rest of it behind ADD and MODIFY."""
        parts = []
        if expression.expressions:
            columns = self.expressions(expression, flat=True)
            kind = expression.text("kind")
            parts.append(f"BY {kind}({columns})" if kind else f"BY ({columns})")
        if expression.args.get("buckets"):
            parts.append(f"INTO {self.sql(expression, 'buckets')} BUCKETS")
        word = "DISTRIBUTION" if isinstance(expression.parent, AlterElements) else "DISTRIBUTED"
        return f"{word} {' '.join(parts)}"

    def likeproperty_sql(self, expression: exp.LikeProperty) -> str:
        """LIKE table (INCLUDING ALL ...)."""
        options = [
            f"{option.name} {option.args['value'].name}" for option in expression.expressions
        ]
        return f"LIKE {self.sql(expression, 'this')}" + (
            f" ({' '.join(options)})" if options else ""
        )

    # --- ALTER ---

    def alter_sql(self, expression: exp.Alter) -> str:
        """ALTER of a table, view, database or catalog."""
        actions: list[exp.Expr] = expression.args["actions"]
        parts = ["ALTER", expression.args["kind"]]
        parts.append("IF EXISTS" if expression.args.get("exists") else "")
        parts.append(self.sql(expression, "this"))
        match actions[0]:
            case exp.Query() | exp.Values():
                parts.append(f"AS {self.sql(actions[0])}")
            case exp.AddPartition():
                parts.append("ADD IF NOT EXISTS" if actions[0].args.get("exists") else "ADD")
                parts += [self.sql(action) for action in actions]
            case _:
                parts.append(self.sql(actions[0]))
        return " ".join(part for part in parts if part)

    def alterrename_sql(self, expression: exp.AlterRename, include_to: bool = True) -> str:  # noqa: ARG002
        """RENAME TO name."""
        return f"RENAME TO {self.sql(expression, 'this')}"

    def renamecolumn_sql(self, expression: exp.RenameColumn) -> str:
        """RENAME name TO name."""
        return f"RENAME {self.sql(expression, 'this')} TO {self.sql(expression, 'to')}"

    def alterset_sql(self, expression: exp.AlterSet) -> str:
        """SET ('key' = 'value') or RESET ('key')."""
        word = "RESET" if expression.args.get("option") else "SET"
        return f"{word} ({self.expressions(expression, flat=True)})"

    def alterelements_sql(self, expression: AlterElements) -> str:
        """ADD or MODIFY, of elements in parentheses."""
        elements = self.expressions(expression, flat=True)
        one = isinstance(expression.expressions[0], Distribution)
        return f"{expression.name} {elements if one else f'({elements})'}"

    def addpartition_sql(self, expression: exp.AddPartition) -> str:
        """PARTITION (name = value) [WITH (...)]."""
        options = expression.args.get("location")
        pairs = ", ".join(self.sql(option) for option in options.expressions) if options else ""
        return self.sql(expression, "this") + (f" WITH ({pairs})" if pairs else "")

    def droppartition_sql(self, expression: exp.DropPartition) -> str:
        """DROP [IF EXISTS] PARTITION (...), ..."""
        exists = " IF EXISTS" if expression.args.get("exists") else ""
        return f"DROP{exists} {self.expressions(expression, flat=True)}"

    def columnposition_sql(self, expression: exp.ColumnPosition) -> str:
        """FIRST, or AFTER name."""
        return f"{expression.text('position')} {self.sql(expression, 'this')}".strip()

    # --- DROP ---

    def drop_sql(self, expression: exp.Drop) -> str:
        """DROP of an object, or of a part of a table within ALTER TABLE."""
        kind: str = expression.args["kind"]
        if isinstance(expression.parent, exp.Alter | AlterMaterializedTable):
            names = self.expressions(expression, flat=True)
            return f"DROP ({names})" if kind == "COLUMN" else f"DROP {kind} {names}".rstrip()
        parts = ["DROP", "TEMPORARY" if expression.args.get("temporary") else "", kind]
        parts.append("IF EXISTS" if expression.args.get("exists") else "")
        parts.append(", ".join(self.sql(table) for table in expression.args["tables"]))
        parts += [word.upper() for word in ("cascade", "restrict") if expression.args.get(word)]
        return " ".join(part for part in parts if part)
