"""The part of the writer for Spark that writes types and literals, and refuses what Spark cannot say."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator

from penstock.sql.dialect.problems import NodeError

__all__ = ["TYPES", "SparkTypeWriter", "kind_of"]

QUERY_HINTS = {
    "BROADCAST": "BROADCAST",
    "SHUFFLE_HASH": "SHUFFLE_HASH",
    "SHUFFLE_MERGE": "MERGE",
    "NEST_LOOP": "SHUFFLE_REPLICATE_NL",
}
TYPES = {
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.TINYINT: "TINYINT",
    exp.DType.SMALLINT: "SMALLINT",
    exp.DType.INT: "INT",
    exp.DType.BIGINT: "BIGINT",
    exp.DType.FLOAT: "FLOAT",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.TEXT: "STRING",
    exp.DType.CHAR: "STRING",
    exp.DType.VARCHAR: "STRING",
    exp.DType.BINARY: "BINARY",
    exp.DType.VARBINARY: "BINARY",
    exp.DType.DATE: "DATE",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP_NTZ",
    exp.DType.TIMESTAMPLTZ: "TIMESTAMP",
    exp.DType.VARIANT: "VARIANT",
    exp.DType.NULL: "VOID",
}


def kind_of(node: exp.Expr | None) -> exp.DType:
    """The type of a node as far as it is known."""
    found = node.type if node is not None else None
    return found.this if found and isinstance(found.this, exp.DType) else exp.DType.UNKNOWN


def _precision(kind: exp.DataType, default: int) -> int:
    return int(kind.expressions[0].name) if kind.expressions else default


class SparkTypeWriter(SparkGenerator):
    """sqlglot's writer for Spark with Flink's types."""

    # --- what is refused ---

    def version_sql(self, expression: exp.Version) -> str:
        """FOR SYSTEM_TIME AS OF."""
        raise NodeError(
            "a temporal join is not supported", expression, "a later release will run it"
        )

    def matchrecognize_sql(self, expression: exp.MatchRecognize) -> str:
        """MATCH_RECOGNIZE."""
        raise NodeError("MATCH_RECOGNIZE is not supported", expression)

    def similarto_sql(self, expression: exp.SimilarTo) -> str:
        """SIMILAR TO."""
        raise NodeError("SIMILAR TO is not supported", expression, "use REGEXP(value, pattern)")

    def lateral_sql(self, expression: exp.Lateral) -> str:
        """LATERAL (query) is Spark's too; LATERAL TABLE(function) is not."""
        if isinstance(expression.this, exp.Subquery):
            return super().lateral_sql(expression)
        raise NodeError("LATERAL TABLE(...) is not supported", expression)

    def with_sql(self, expression: exp.With) -> str:
        """WITH, not recursive."""
        if expression.args.get("recursive"):
            raise NodeError("WITH RECURSIVE is not supported", expression)
        return Generator.with_sql(self, expression)

    def hint_sql(self, expression: exp.Hint) -> str:
        """Join hints; those that steer Flink's own operators mean nothing here."""
        hints = []
        for hint in expression.expressions:
            if hint.name not in QUERY_HINTS:
                raise NodeError(f"the hint {hint.name} is not supported", hint)
            hints.append(f"{QUERY_HINTS[hint.name]}({self.expressions(hint, flat=True)})")
        return f" /*+ {', '.join(hints)} */"

    # --- types and literals ---

    def datatype_sql(self, expression: exp.DataType) -> str:
        """The Spark type that holds a Flink type's values (TIMESTAMP is without a zone in Flink)."""
        kind = expression.this
        inner = [self.sql(e) for e in expression.expressions]
        if kind in (exp.DType.ARRAY, exp.DType.MAP):
            return f"{kind.value}<{', '.join(inner)}>"
        if kind == exp.DType.STRUCT:
            fields = (
                f"{self.sql(f, 'this')}: {self.sql(f, 'kind')}" for f in expression.expressions
            )
            return f"STRUCT<{', '.join(fields)}>"
        if kind == exp.DType.DECIMAL:
            return f"DECIMAL({', '.join(inner) or '10, 0'})"
        if kind == exp.DType.TIME:
            return f"TIME({min(_precision(expression, 0), 6)})"
        if kind == exp.DType.INTERVAL:
            return f"INTERVAL {inner[0]}" if inner else "INTERVAL DAY TO SECOND"
        if kind not in TYPES:
            raise NodeError(f"the type {kind.value} has no Spark form", expression)
        return TYPES[kind]

    def interval_sql(self, expression: exp.Interval) -> str:
        """INTERVAL 'text' UNIT [TO UNIT]; Spark's spelling, WEEK and QUARTER by their parts."""
        unit = expression.args["unit"]
        text = expression.this.name
        if unit.name in ("WEEK", "QUARTER"):
            factor, name = (7, "DAY") if unit.name == "WEEK" else (3, "MONTH")
            return f"INTERVAL '{int(text) * factor}' {name}"
        words = f"{unit.this.name} TO {unit.expression.name}" if unit.expression else unit.name
        return f"INTERVAL '{text}' {words}"

    def like_sql(self, expression: exp.Like) -> str:
        r"""LIKE; Flink has no escape unless one is named, Spark has \."""
        pattern = expression.expression
        if isinstance(pattern, exp.Literal) and "\\" in pattern.name:
            doubled = exp.Literal.string(pattern.name.replace("\\", "\\\\"))
            return f"{self.sql(expression, 'this')} LIKE {self.sql(doubled)}"
        return self.binary(expression, "LIKE")

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        """CAST and TRY_CAST; lengths of CHAR and VARCHAR cut and pad, as in Flink."""
        to: exp.DataType = expression.args["to"]
        plain = f"{safe_prefix or ''}CAST({self.sql(expression, 'this')} AS {self.sql(to)})"
        if to.this not in (exp.DType.TEXT, exp.DType.CHAR, exp.DType.VARCHAR):
            return plain
        text = self._to_string(expression.this) or plain
        if to.this == exp.DType.CHAR:
            return f"rpad({text}, {_precision(to, 1)}, ' ')"
        return f"left({text}, {_precision(to, 1)})" if to.expressions else text

    def _to_string(self, value: exp.Expr) -> str | None:
        """Flink's text of a value where Spark's differs; None where they agree or nothing is known."""
        kind = kind_of(value)
        if kind == exp.DType.BOOLEAN:
            return f"upper(CAST({self.sql(value)} AS STRING))"
        if kind in (exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ):
            assert value.type is not None
            digits = min(_precision(value.type, 6), 6)
            fraction = "." + "S" * digits if digits else ""
            return f"date_format({self.sql(value)}, 'yyyy-MM-dd HH:mm:ss{fraction}')"
        return None
