"""Write definitions as Flink SQL: CREATE, ALTER and DROP of tables, views, databases and catalogs."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.generator import Generator

from penstock.sql.syntax.nodes import (
    AlterElements,
    AlterMaterializedTableStatement,
    Distribution,
    ReplaceTable,
)


def create_sql(generator: Generator, expression: exp.Create) -> str:
    """CREATE of a table, view, database or catalog."""
    found = expression.args.get("properties")
    properties: list[exp.Expr] = found.expressions if found else []
    temporary = any(isinstance(p, exp.TemporaryProperty) for p in properties)
    verb = "CREATE OR REPLACE" if expression.args.get("replace") else "CREATE"
    parts = ["REPLACE" if isinstance(expression, ReplaceTable) else verb]
    parts += ["TEMPORARY" if temporary else "", expression.args["kind"]]
    parts.append("IF NOT EXISTS" if expression.args.get("exists") else "")
    parts.append(generator.sql(expression, "this"))
    kinds = (exp.SchemaCommentProperty, Distribution, exp.PartitionedByProperty)
    parts += [
        generator.sql(item) for kind in kinds for item in properties if isinstance(item, kind)
    ]
    if options := [generator.sql(item) for item in properties if type(item) is exp.Property]:
        parts.append(f"WITH ({', '.join(options)})")
    parts += [generator.sql(item) for item in properties if isinstance(item, exp.LikeProperty)]
    if expression.expression:
        parts.append(f"AS {generator.sql(expression, 'expression')}")
    return " ".join(part for part in parts if part)


def schema_sql(generator: Generator, expression: exp.Schema) -> str:
    """A name and what stands in parentheses behind it."""
    elements = generator.expressions(expression, flat=True)
    return generator.sql(expression, "this") + (f" ({elements})" if elements else "")


def property_sql(generator: Generator, expression: exp.Property) -> str:
    """'key' = 'value'."""
    return f"{generator.sql(expression, 'this')} = {generator.sql(expression, 'value')}"


def distribution_sql(generator: Generator, expression: Distribution) -> str:
    """DISTRIBUTED BY ... INTO n BUCKETS; only the rest of it behind ADD and MODIFY."""
    parts = []
    if expression.expressions:
        columns = generator.expressions(expression, flat=True)
        kind = expression.text("kind")
        parts.append(f"BY {kind}({columns})" if kind else f"BY ({columns})")
    if expression.args.get("buckets"):
        parts.append(f"INTO {generator.sql(expression, 'buckets')} BUCKETS")
    word = "DISTRIBUTION" if isinstance(expression.parent, AlterElements) else "DISTRIBUTED"
    return f"{word} {' '.join(parts)}"


def likeproperty_sql(generator: Generator, expression: exp.LikeProperty) -> str:
    """LIKE table (INCLUDING ALL ...)."""
    options = [f"{option.name} {option.args['value'].name}" for option in expression.expressions]
    return f"LIKE {generator.sql(expression, 'this')}" + (
        f" ({' '.join(options)})" if options else ""
    )


# --- ALTER ---


def alter_sql(generator: Generator, expression: exp.Alter) -> str:
    """ALTER of a table, view, database or catalog."""
    actions: list[exp.Expr] = expression.args["actions"]
    parts = ["ALTER", expression.args["kind"]]
    parts.append("IF EXISTS" if expression.args.get("exists") else "")
    parts.append(generator.sql(expression, "this"))
    match actions[0]:
        case exp.Query() | exp.Values():
            parts.append(f"AS {generator.sql(actions[0])}")
        case exp.AddPartition():
            parts.append("ADD IF NOT EXISTS" if actions[0].args.get("exists") else "ADD")
            parts += [generator.sql(action) for action in actions]
        case _:
            parts.append(generator.sql(actions[0]))
    return " ".join(part for part in parts if part)


def alterrename_sql(
    generator: Generator, expression: exp.AlterRename, include_to: bool = True
) -> str:
    """RENAME TO name."""
    return f"RENAME TO {generator.sql(expression, 'this')}"


def renamecolumn_sql(generator: Generator, expression: exp.RenameColumn) -> str:
    """RENAME name TO name."""
    return f"RENAME {generator.sql(expression, 'this')} TO {generator.sql(expression, 'to')}"


def alterset_sql(generator: Generator, expression: exp.AlterSet) -> str:
    """SET ('key' = 'value') or RESET ('key')."""
    word = "RESET" if expression.args.get("option") else "SET"
    return f"{word} ({generator.expressions(expression, flat=True)})"


def alterelements_sql(generator: Generator, expression: AlterElements) -> str:
    """ADD or MODIFY, of elements in parentheses."""
    elements = generator.expressions(expression, flat=True)
    one = isinstance(expression.expressions[0], Distribution)
    return f"{expression.name} {elements if one else f'({elements})'}"


def addpartition_sql(generator: Generator, expression: exp.AddPartition) -> str:
    """PARTITION (name = value) [WITH (...)]."""
    options = expression.args.get("location")
    pairs = ", ".join(generator.sql(option) for option in options.expressions) if options else ""
    return generator.sql(expression, "this") + (f" WITH ({pairs})" if pairs else "")


def droppartition_sql(generator: Generator, expression: exp.DropPartition) -> str:
    """DROP [IF EXISTS] PARTITION (...), ..."""
    exists = " IF EXISTS" if expression.args.get("exists") else ""
    return f"DROP{exists} {generator.expressions(expression, flat=True)}"


def columnposition_sql(generator: Generator, expression: exp.ColumnPosition) -> str:
    """FIRST, or AFTER name."""
    return f"{expression.text('position')} {generator.sql(expression, 'this')}".strip()


# --- DROP ---


def drop_sql(generator: Generator, expression: exp.Drop) -> str:
    """DROP of an object, or of a part of a table within ALTER TABLE."""
    kind: str = expression.args["kind"]
    if isinstance(expression.parent, exp.Alter | AlterMaterializedTableStatement):
        names = generator.expressions(expression, flat=True)
        return f"DROP ({names})" if kind == "COLUMN" else f"DROP {kind} {names}".rstrip()
    parts = ["DROP", "TEMPORARY" if expression.args.get("temporary") else "", kind]
    parts.append("IF EXISTS" if expression.args.get("exists") else "")
    parts.append(", ".join(generator.sql(table) for table in expression.args["tables"]))
    parts += [word.upper() for word in ("cascade", "restrict") if expression.args.get(word)]
    return " ".join(part for part in parts if part)
