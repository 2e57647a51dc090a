"""Write statements other than CREATE TABLE and CREATE VIEW as Flink SQL."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp
from sqlglot.generator import Generator

from penstock.sql.syntax import nodes
from penstock.sql.syntax.nodes import AlterElements

TABLE_ACTIONS = (AlterElements, exp.AlterRename, exp.Drop, exp.RenameColumn)
"""Actions of ALTER TABLE that ALTER MATERIALIZED TABLE has too."""


# --- SHOW and DESCRIBE ---


def show_sql(generator: Generator, expression: exp.Show) -> str:
    """SHOW in the forms that the parser knows."""
    parts = ["SHOW", expression.name, generator.sql(expression, "target")]
    if expression.args.get("db"):
        parts += [
            "" if expression.name == "PARTITIONS" else "FROM",
            generator.sql(expression, "db"),
        ]
    parts.append(generator.sql(expression, "partition"))
    if expression.args.get("like"):
        parts += [expression.text("scope_kind"), generator.sql(expression, "like")]
    return _joined(parts)


def describe_sql(generator: Generator, expression: exp.Describe) -> str:
    """DESCRIBE [kind] [EXTENDED] name."""
    parts = ["DESCRIBE", expression.text("kind"), expression.text("style")]
    return _joined([*parts, generator.sql(expression, "this")])


def partitionspec_sql(generator: Generator, expression: nodes.PartitionSpec) -> str:
    """PARTITION (column = value, column)."""
    return f"PARTITION ({', '.join(_part(generator, part) for part in expression.expressions)})"


def _part(generator: Generator, part: exp.Expr) -> str:
    if isinstance(part, exp.Property):
        return f"{generator.sql(part, 'this')} = {generator.sql(part, 'value')}"
    return generator.sql(part)


# --- rows ---


def insert_sql(generator: Generator, expression: exp.Insert) -> str:
    """INSERT INTO | OVERWRITE target [PARTITION (...)] [(columns)] query [ON CONFLICT ...]."""
    target, columns = expression.this, ""
    if isinstance(target, exp.Schema):
        columns = f"({generator.expressions(target, flat=True)})"
        target = target.this
    conflict = generator.sql(expression, "conflict")
    return _joined(
        [
            "INSERT",
            "OVERWRITE" if expression.args.get("overwrite") else "INTO",
            generator.sql(target),
            generator.sql(expression, "partition"),
            columns,
            generator.sql(expression, "expression"),
            f"ON CONFLICT {conflict}" if conflict else "",
        ]
    )


def analyzetable_sql(generator: Generator, expression: nodes.AnalyzeTable) -> str:
    """ANALYZE TABLE name [PARTITION (...)] COMPUTE STATISTICS [FOR ...]."""
    columns = generator.expressions(expression, key="columns", flat=True)
    return _joined(
        [
            "ANALYZE TABLE",
            generator.sql(expression, "this"),
            generator.sql(expression, "partition"),
            "COMPUTE STATISTICS",
            f"FOR COLUMNS {columns}" if columns else "",
            "FOR ALL COLUMNS" if expression.args.get("all") else "",
        ]
    )


def callprocedurestatement_sql(
    generator: Generator, expression: nodes.CallProcedureStatement
) -> str:
    """CALL name(arguments)."""
    return (
        f"CALL {generator.sql(expression, 'this')}({generator.expressions(expression, flat=True)})"
    )


# --- functions ---


def createfunctionstatement_sql(
    generator: Generator, expression: nodes.CreateFunctionStatement
) -> str:
    """CREATE [TEMPORARY [SYSTEM]] FUNCTION name AS 'text' [LANGUAGE ...] [USING ...] [WITH (...)]."""
    resources = generator.expressions(expression, key="resources", flat=True)
    return _joined(
        [
            "CREATE",
            *_scope(expression),
            "FUNCTION",
            "IF NOT EXISTS" if expression.args.get("exists") else "",
            *_body(generator, expression),
            f"USING {resources}" if resources else "",
            _options(generator, expression),
        ]
    )


def alterfunctionstatement_sql(
    generator: Generator, expression: nodes.AlterFunctionStatement
) -> str:
    """ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name AS 'text' [LANGUAGE ...]."""
    exists = "IF EXISTS" if expression.args.get("exists") else ""
    return _joined(
        ["ALTER", *_scope(expression), "FUNCTION", exists, *_body(generator, expression)]
    )


def dropfunctionstatement_sql(generator: Generator, expression: nodes.DropFunctionStatement) -> str:
    """DROP [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name."""
    exists = "IF EXISTS" if expression.args.get("exists") else ""
    return _joined(
        ["DROP", *_scope(expression), "FUNCTION", exists, generator.sql(expression, "this")]
    )


def resourceproperty_sql(generator: Generator, expression: nodes.ResourceProperty) -> str:
    """JAR 'path'."""
    return f"{generator.sql(expression, 'kind')} {generator.sql(expression, 'this')}"


def _body(generator: Generator, expression: exp.Expr) -> list[str]:
    language = generator.sql(expression, "language")
    return [
        generator.sql(expression, "this"),
        "AS",
        generator.sql(expression, "expression"),
        f"LANGUAGE {language}" if language else "",
    ]


def _options(generator: Generator, expression: exp.Expr) -> str:
    """WITH ('key' = 'value', ...)."""
    pairs = _pairs(generator, expression)
    return f"WITH ({pairs})" if pairs else ""


def _pairs(generator: Generator, expression: exp.Expr) -> str:
    return ", ".join(_part(generator, item) for item in expression.args.get("options") or [])


# --- materialized tables ---


def creatematerializedtablestatement_sql(
    generator: Generator, expression: nodes.CreateMaterializedTableStatement
) -> str:
    """CREATE [OR ALTER] MATERIALIZED TABLE name ... AS query."""
    partitions = generator.expressions(expression, key="partitions", flat=True)
    comment = generator.sql(expression, "comment")
    freshness, mode = generator.sql(expression, "freshness"), generator.sql(expression, "mode")
    return _joined(
        [
            "CREATE",
            "OR ALTER" if expression.args.get("alter") else "",
            "MATERIALIZED TABLE",
            generator.sql(expression, "this"),
            f"COMMENT {comment}" if comment else "",
            generator.sql(expression, "distribution"),
            f"PARTITIONED BY ({partitions})" if partitions else "",
            _options(generator, expression),
            f"FRESHNESS = {freshness}" if freshness else "",
            f"REFRESH_MODE = {mode}" if mode else "",
            f"AS {generator.sql(expression, 'expression')}",
        ]
    )


def altermaterializedtablestatement_sql(
    generator: Generator, expression: nodes.AlterMaterializedTableStatement
) -> str:
    """ALTER MATERIALIZED TABLE name action."""
    action, pairs = expression.text("action"), _pairs(generator, expression)
    if isinstance(expression.expression, TABLE_ACTIONS):
        action = ""  # it writes its own word
    elif action.startswith("SET "):
        action = f"{action} ="
    elif action in ("SET", "RESET"):
        pairs = f"({pairs})"
    elif pairs:
        pairs = f"WITH ({pairs})"
    return _joined(
        [
            "ALTER MATERIALIZED TABLE",
            generator.sql(expression, "this"),
            action,
            generator.sql(expression, "partition"),
            pairs,
            generator.sql(expression, "expression"),
        ]
    )


def dropmaterializedtablestatement_sql(
    generator: Generator, expression: nodes.DropMaterializedTableStatement
) -> str:
    """DROP MATERIALIZED TABLE [IF EXISTS] name."""
    exists = "IF EXISTS" if expression.args.get("exists") else ""
    return _joined(["DROP MATERIALIZED TABLE", exists, generator.sql(expression, "this")])


# --- the session ---


def secretstatement_sql(generator: Generator, expression: nodes.SecretStatement) -> str:
    """CREATE, ALTER or DROP SECRET, with its value: what is said of it is masked elsewhere."""
    action, exists = expression.text("action"), ""
    if expression.args.get("exists"):
        exists = "IF NOT EXISTS" if action == "CREATE" else "IF EXISTS"
    value = generator.sql(expression, "expression")
    name = generator.sql(expression, "this")
    return _joined([action, "SECRET", exists, name, f"AS {value}" if value else ""])


def jarstatement_sql(generator: Generator, expression: nodes.JarStatement) -> str:
    """ADD JAR 'path'."""
    return f"{expression.text('action')} JAR {generator.sql(expression, 'this')}"


def modulestatement_sql(generator: Generator, expression: nodes.ModuleStatement) -> str:
    """LOAD MODULE name, UNLOAD MODULE name, USE MODULES names."""
    action = expression.text("action")
    noun = "MODULES" if action == "USE" else "MODULE"
    names = generator.expressions(expression, flat=True)
    return _joined([action, noun, names, _options(generator, expression)])


def stopjobstatement_sql(generator: Generator, expression: nodes.StopJobStatement) -> str:
    """STOP JOB 'name' [WITH SAVEPOINT] [WITH DRAIN]."""
    words = [w for w in ("savepoint", "drain") if expression.args.get(w)]
    return _joined(
        ["STOP JOB", generator.sql(expression, "this"), *(f"WITH {w.upper()}" for w in words)]
    )


def explainstatement_sql(generator: Generator, expression: nodes.ExplainStatement) -> str:
    """EXPLAIN [details] statement."""
    details = ", ".join(detail.name for detail in expression.args.get("details") or [])
    return _joined(["EXPLAIN", details, generator.sql(expression, "this")])


def statementsetblock_sql(generator: Generator, expression: nodes.StatementSetBlock) -> str:
    """EXECUTE STATEMENT SET BEGIN insert; ... END; inside EXPLAIN without EXECUTE."""
    execute = "" if isinstance(expression.parent, nodes.ExplainStatement) else "EXECUTE "
    inserts = " ".join(f"{generator.sql(insert)};" for insert in expression.expressions)
    return f"{execute}STATEMENT SET BEGIN {inserts} END"


def refusedstatement_sql(generator: Generator, expression: nodes.RefusedStatement) -> str:
    """The words as they were."""
    return _joined([expression.name, expression.text("expression")])


def _scope(expression: exp.Expr) -> list[str]:
    return [word.upper() for word in ("temporary", "system") if expression.args.get(word)]


def _joined(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part)


# --- statements ---


def set_sql(generator: Generator, expression: exp.Set) -> str:
    """SET 'k' = 'v', SET, RESET 'k', RESET."""
    verb = "RESET" if expression.args.get("unset") else "SET"
    return f"{verb} {generator.expressions(expression, flat=True)}".strip()
