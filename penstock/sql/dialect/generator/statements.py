"""Writes statements other than CREATE TABLE and CREATE VIEW as Flink SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from penstock.sql.syntax import nodes
from penstock.sql.syntax.nodes import AlterElements

__all__ = ["StatementWriter"]

TABLE_ACTIONS = (AlterElements, exp.AlterRename, exp.Drop, exp.RenameColumn)
"""Actions of ALTER TABLE that ALTER MATERIALIZED TABLE has too."""

NODES: tuple[type[exp.Expr], ...] = tuple(getattr(nodes, name) for name in nodes.__all__)
"""Every node of ours that is a statement, or a part of one: each has its method here."""


def _by_method(node: type[exp.Expr]) -> Callable[..., str]:
    # sqlglot finds the methods of its own nodes only
    return lambda self, expression: str(getattr(self, f"{node.key}_sql")(expression))


class StatementWriter(Generator):
    """The part of the generator that writes statements."""

    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        **Generator.TRANSFORMS,
        **{node: _by_method(node) for node in NODES},
    }

    # --- SHOW and DESCRIBE ---

    def show_sql(self, expression: exp.Show) -> str:
        """SHOW in the forms that the parser knows."""
        parts = ["SHOW", expression.name, self.sql(expression, "target")]
        if expression.args.get("db"):
            parts += ["" if expression.name == "PARTITIONS" else "FROM", self.sql(expression, "db")]
        parts.append(self.sql(expression, "partition"))
        if expression.args.get("like"):
            parts += [expression.text("scope_kind"), self.sql(expression, "like")]
        return _joined(parts)

    def describe_sql(self, expression: exp.Describe) -> str:
        """DESCRIBE [kind] [EXTENDED] name."""
        parts = ["DESCRIBE", expression.text("kind"), expression.text("style")]
        return _joined([*parts, self.sql(expression, "this")])

    def partitionspec_sql(self, expression: nodes.PartitionSpec) -> str:
        """PARTITION (column = value, column)."""
        return f"PARTITION ({', '.join(map(self._part, expression.expressions))})"

    def _part(self, part: exp.Expr) -> str:
        if isinstance(part, exp.Property):
            return f"{self.sql(part, 'this')} = {self.sql(part, 'value')}"
        return self.sql(part)

    # --- rows ---

    def insert_sql(self, expression: exp.Insert) -> str:
        """INSERT INTO | OVERWRITE target [PARTITION (...)] [(columns)] query [ON CONFLICT ...]."""
        target, columns = expression.this, ""
        if isinstance(target, exp.Schema):
            columns = f"({self.expressions(target, flat=True)})"
            target = target.this
        conflict = self.sql(expression, "conflict")
        return _joined(
            [
                "INSERT",
                "OVERWRITE" if expression.args.get("overwrite") else "INTO",
                self.sql(target),
                self.sql(expression, "partition"),
                columns,
                self.sql(expression, "expression"),
                f"ON CONFLICT {conflict}" if conflict else "",
            ]
        )

    def analyzetable_sql(self, expression: nodes.AnalyzeTable) -> str:
        """ANALYZE TABLE name [PARTITION (...)] COMPUTE STATISTICS [FOR ...]."""
        columns = self.expressions(expression, key="columns", flat=True)
        return _joined(
            [
                "ANALYZE TABLE",
                self.sql(expression, "this"),
                self.sql(expression, "partition"),
                "COMPUTE STATISTICS",
                f"FOR COLUMNS {columns}" if columns else "",
                "FOR ALL COLUMNS" if expression.args.get("all") else "",
            ]
        )

    def callprocedure_sql(self, expression: nodes.CallProcedure) -> str:
        """CALL name(arguments)."""
        return f"CALL {self.sql(expression, 'this')}({self.expressions(expression, flat=True)})"

    # --- functions ---

    def createfunction_sql(self, expression: nodes.CreateFunction) -> str:
        """CREATE [TEMPORARY [SYSTEM]] FUNCTION name AS 'text' [LANGUAGE ...] [USING ...] [WITH (...)]."""
        resources = self.expressions(expression, key="resources", flat=True)
        return _joined(
            [
                "CREATE",
                *_scope(expression),
                "FUNCTION",
                "IF NOT EXISTS" if expression.args.get("exists") else "",
                *self._body(expression),
                f"USING {resources}" if resources else "",
                self._options(expression),
            ]
        )

    def alterfunction_sql(self, expression: nodes.AlterFunction) -> str:
        """ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name AS 'text' [LANGUAGE ...]."""
        exists = "IF EXISTS" if expression.args.get("exists") else ""
        return _joined(["ALTER", *_scope(expression), "FUNCTION", exists, *self._body(expression)])

    def dropfunction_sql(self, expression: nodes.DropFunction) -> str:
        """DROP [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name."""
        exists = "IF EXISTS" if expression.args.get("exists") else ""
        return _joined(
            ["DROP", *_scope(expression), "FUNCTION", exists, self.sql(expression, "this")]
        )

    def resourceproperty_sql(self, expression: nodes.ResourceProperty) -> str:
        """JAR 'path'."""
        return f"{self.sql(expression, 'kind')} {self.sql(expression, 'this')}"

    def _body(self, expression: exp.Expr) -> list[str]:
        language = self.sql(expression, "language")
        return [
            self.sql(expression, "this"),
            "AS",
            self.sql(expression, "expression"),
            f"LANGUAGE {language}" if language else "",
        ]

    def _options(self, expression: exp.Expr) -> str:
        """WITH ('key' = 'value', ...)."""
        pairs = self._pairs(expression)
        return f"WITH ({pairs})" if pairs else ""

    def _pairs(self, expression: exp.Expr) -> str:
        return ", ".join(self._part(item) for item in expression.args.get("options") or [])

    # --- materialized tables ---

    def creatematerializedtable_sql(self, expression: nodes.CreateMaterializedTable) -> str:
        """CREATE [OR ALTER] MATERIALIZED TABLE name ... AS query."""
        partitions = self.expressions(expression, key="partitions", flat=True)
        comment = self.sql(expression, "comment")
        freshness, mode = self.sql(expression, "freshness"), self.sql(expression, "mode")
        return _joined(
            [
                "CREATE",
                "OR ALTER" if expression.args.get("alter") else "",
                "MATERIALIZED TABLE",
                self.sql(expression, "this"),
                f"COMMENT {comment}" if comment else "",
                self.sql(expression, "distribution"),
                f"PARTITIONED BY ({partitions})" if partitions else "",
                self._options(expression),
                f"FRESHNESS = {freshness}" if freshness else "",
                f"REFRESH_MODE = {mode}" if mode else "",
                f"AS {self.sql(expression, 'expression')}",
            ]
        )

    def altermaterializedtable_sql(self, expression: nodes.AlterMaterializedTable) -> str:
        """ALTER MATERIALIZED TABLE name action."""
        action, pairs = expression.text("action"), self._pairs(expression)
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
                self.sql(expression, "this"),
                action,
                self.sql(expression, "partition"),
                pairs,
                self.sql(expression, "expression"),
            ]
        )

    def dropmaterializedtable_sql(self, expression: nodes.DropMaterializedTable) -> str:
        """DROP MATERIALIZED TABLE [IF EXISTS] name."""
        exists = "IF EXISTS" if expression.args.get("exists") else ""
        return _joined(["DROP MATERIALIZED TABLE", exists, self.sql(expression, "this")])

    # --- the session ---

    def secretstatement_sql(self, expression: nodes.SecretStatement) -> str:
        """CREATE, ALTER or DROP SECRET, with its value: what is said of it is masked elsewhere."""
        action, exists = expression.text("action"), ""
        if expression.args.get("exists"):
            exists = "IF NOT EXISTS" if action == "CREATE" else "IF EXISTS"
        value = self.sql(expression, "expression")
        name = self.sql(expression, "this")
        return _joined([action, "SECRET", exists, name, f"AS {value}" if value else ""])

    def jarstatement_sql(self, expression: nodes.JarStatement) -> str:
        """ADD JAR 'path'."""
        return f"{expression.text('action')} JAR {self.sql(expression, 'this')}"

    def modulestatement_sql(self, expression: nodes.ModuleStatement) -> str:
        """LOAD MODULE name, UNLOAD MODULE name, USE MODULES names."""
        action = expression.text("action")
        noun = "MODULES" if action == "USE" else "MODULE"
        names = self.expressions(expression, flat=True)
        return _joined([action, noun, names, self._options(expression)])

    def stopjobstatement_sql(self, expression: nodes.StopJobStatement) -> str:
        """STOP JOB 'name' [WITH SAVEPOINT] [WITH DRAIN]."""
        words = [w for w in ("savepoint", "drain") if expression.args.get(w)]
        return _joined(
            ["STOP JOB", self.sql(expression, "this"), *(f"WITH {w.upper()}" for w in words)]
        )

    def explainstatement_sql(self, expression: nodes.ExplainStatement) -> str:
        """EXPLAIN [details] statement."""
        details = ", ".join(detail.name for detail in expression.args.get("details") or [])
        return _joined(["EXPLAIN", details, self.sql(expression, "this")])

    def statementsetblock_sql(self, expression: nodes.StatementSetBlock) -> str:
        """EXECUTE STATEMENT SET BEGIN insert; ... END; inside EXPLAIN without EXECUTE."""
        execute = "" if isinstance(expression.parent, nodes.ExplainStatement) else "EXECUTE "
        inserts = " ".join(f"{self.sql(insert)};" for insert in expression.expressions)
        return f"{execute}STATEMENT SET BEGIN {inserts} END"

    def refusedstatement_sql(self, expression: nodes.RefusedStatement) -> str:
        """The words as they were."""
        return _joined([expression.name, expression.text("expression")])


def _scope(expression: exp.Expr) -> list[str]:
    return [word.upper() for word in ("temporary", "system") if expression.args.get(word)]


def _joined(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part)
