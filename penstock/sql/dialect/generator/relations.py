"""Write what stands in FROM: tables with their hints, MATCH_RECOGNIZE, subqueries, LATERAL, UNNEST."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.generator import Generator

__all__ = [
    "hint_sql",
    "lateral_sql",
    "matchrecognize_sql",
    "propertyeq_sql",
    "subquery_sql",
    "table_sql",
    "unnest_sql",
    "version_sql",
]


def hint_sql(generator: Generator, expression: exp.Hint) -> str:
    """/*+ NAME('k'='v') */, with the space that parts it from the word in front."""
    calls = ", ".join(_hint_call(generator, call) for call in expression.expressions)
    space = " " if isinstance(expression.parent, exp.Select) else ""
    return f"{space}/*+ {calls} */"


def _hint_call(generator: Generator, call: exp.Expr) -> str:
    arguments = generator.expressions(call, flat=True)
    return f"{call.name}({arguments})" if arguments else call.name


def propertyeq_sql(generator: Generator, expression: exp.PropertyEQ) -> str:
    """'k'='v' of a hint."""
    return f"{generator.sql(expression, 'this')}={generator.sql(expression, 'expression')}"


def matchrecognize_sql(generator: Generator, expression: exp.MatchRecognize) -> str:
    """MATCH_RECOGNIZE (...) AS m."""
    measures = generator.expressions(expression, key="measures", flat=True)
    within, subset = generator.sql(expression, "within"), expression.args.get("subset")
    sets = ", ".join(
        f"{generator.sql(one, 'this')} = ({generator.expressions(one, flat=True)})"
        for one in subset or []
    )
    definitions = ", ".join(
        f"{generator.sql(one, 'alias')} AS {generator.sql(one, 'this')}"
        for one in expression.args["define"]
    )
    parts = (
        generator.partition_by_sql(expression),
        generator.sql(expression, "order").strip(),
        f"MEASURES {measures}" if measures else "",
        generator.sql(expression, "rows"),
        generator.sql(expression, "after"),
        f"PATTERN ({expression.args['pattern'].name})",
        f"WITHIN {within}" if within else "",
        f"SUBSET {sets}" if sets else "",
        f"DEFINE {definitions}",
    )
    alias = generator.sql(expression, "alias")
    text = f" MATCH_RECOGNIZE ({' '.join(part for part in parts if part)})"
    return f"{text} AS {alias}" if alias else text


def table_sql(generator: Generator, expression: exp.Table, sep: str = " AS ") -> str:
    """A table with its hints, version and alias; a table function in TABLE(...)."""
    joins = generator.expressions(expression, key="joins", sep="", flat=True)
    alias = generator.sql(expression, "alias")
    named = f"{sep}{alias}" if alias else ""
    match = generator.sql(expression, "match")
    if isinstance(expression.this, exp.Func):
        return f"TABLE({generator.sql(expression, 'this')}){named}{match}{joins}"
    hints = generator.expressions(expression, key="hints", sep=" ", flat=True)
    parts = (generator.table_parts(expression), hints, generator.sql(expression, "version"))
    return " ".join(part for part in parts if part) + named + match + joins


def subquery_sql(generator: Generator, expression: exp.Subquery, sep: str = " AS ") -> str:
    """(query) AS s."""
    match = expression.args.get("match")
    expression.set("match", None)  # sqlglot's query modifiers would write it a second time
    try:
        return Generator.subquery_sql(generator, expression, sep) + generator.sql(match)
    finally:
        expression.set("match", match)


def version_sql(generator: Generator, expression: exp.Version) -> str:
    """FOR SYSTEM_TIME AS OF of a temporal join."""
    return f"FOR SYSTEM_TIME AS OF {generator.sql(expression, 'expression')}"


def lateral_sql(generator: Generator, expression: exp.Lateral) -> str:
    """LATERAL (query), LATERAL TABLE(call)."""
    alias = generator.sql(expression, "alias")
    return f"LATERAL {generator.sql(expression, 'this')}" + (f" AS {alias}" if alias else "")


def unnest_sql(generator: Generator, expression: exp.Unnest) -> str:
    """UNNEST(value) WITH ORDINALITY AS t(x, n)."""
    alias = generator.sql(expression, "alias")
    ordinality = " WITH ORDINALITY" if expression.args.get("offset") else ""
    values = generator.expressions(expression, flat=True)
    return f"UNNEST({values}){ordinality}" + (f" AS {alias}" if alias else "")
