"""Write types, columns, literals, calls, and what stands in FROM, as Flink SQL.

In FROM: tables with their hints, MATCH_RECOGNIZE, subqueries, LATERAL, UNNEST.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.generator import Generator

from penstock.sql.dialect.parser.table_functions import ORDER_ARGUMENT, PARTITION_ARGUMENT


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


def jsonkeyvalue_sql(generator: Generator, expression: exp.JSONKeyValue) -> str:
    """KEY k VALUE v."""
    return (
        f"KEY {generator.sql(expression, 'this')} VALUE {generator.sql(expression, 'expression')}"
    )


def jsonvalue_sql(generator: Generator, expression: exp.JSONValue) -> str:
    """JSON_VALUE(x, path [RETURNING type] [ON EMPTY] [ON ERROR])."""
    returning = expression.args.get("returning")
    middle = f" RETURNING {generator.sql(returning)}" if returning else ""
    return _json_call(generator, "JSON_VALUE", expression.this, expression.args["path"], middle)


def jsonexists_sql(generator: Generator, expression: exp.JSONExists) -> str:
    """JSON_EXISTS(x, path [ON ERROR])."""
    return _json_call(generator, "JSON_EXISTS", expression.this, expression.args["path"])


def jsonextract_sql(generator: Generator, expression: exp.JSONExtract) -> str:
    """JSON_QUERY(x, path [RETURNING type] [wrapper] [ON EMPTY] [ON ERROR])."""
    returning, option = expression.args.get("returning"), expression.args.get("option")
    middle = f" RETURNING {generator.sql(returning)}" if returning else ""
    middle += f" {option.name}" if option else ""
    return _json_call(generator, "JSON_QUERY", expression.this, expression.expression, middle)


def _json_call(
    generator: Generator, name: str, this: exp.Expr, path: exp.Expr, middle: str = ""
) -> str:
    assert this.parent is not None, "an argument has a call"
    condition = this.parent.args.get("on_condition")
    on = f" {generator.sql(condition)}" if condition else ""
    return f"{name}({generator.sql(this)}, {generator.sql(path)}{middle}{on})"


def oncondition_sql(generator: Generator, expression: exp.OnCondition) -> str:
    """NULL ON EMPTY DEFAULT 1 ON ERROR."""
    parts = []
    for event in ("empty", "error"):
        value = expression.args.get(event)
        if isinstance(value, exp.Expr):
            parts.append(f"DEFAULT {generator.sql(value)} ON {event.upper()}")
        elif value:
            parts.append(value)
    return " ".join(parts)


def json_sql(generator: Generator, expression: exp.JSON) -> str:
    """The right side of IS JSON [VALUE | SCALAR | ARRAY | OBJECT]."""
    kind = expression.args.get("this")
    return f"JSON {kind}" if kind else "JSON"


def anonymous_sql(generator: Generator, expression: exp.Anonymous) -> str:
    """A function by its own name; MAP[...], DESCRIPTOR, MODEL and tables as arguments."""
    name = expression.name.upper()
    if name == "MAP" and not _is_query(expression):
        return f"MAP[{generator.expressions(expression, flat=True)}]"
    if name == "MODEL" and all(isinstance(e, exp.Identifier) for e in expression.expressions):
        return f"MODEL {'.'.join(generator.sql(part) for part in expression.expressions)}"
    if not any(map(_is_table_argument, expression.expressions)):
        if isinstance(expression.this, exp.Identifier) and expression.this.quoted:
            # what is in backticks keeps its letters
            return generator.func(
                generator.sql(expression, "this"), *expression.expressions, normalize=False
            )
        return Generator.anonymous_sql(generator, expression)
    text = ""
    for argument in expression.expressions:
        if isinstance(argument, exp.Kwarg) and argument.name in (
            PARTITION_ARGUMENT,
            ORDER_ARGUMENT,
        ):
            text += f" {argument.name} {generator.sql(argument, 'expression')}"
            continue
        sql = _argument(generator, argument)
        text += f", {sql}" if text else sql
    return f"{generator.normalize_func(name)}({text})"


def _is_query(call: exp.Anonymous) -> bool:
    return len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Query)


def _is_table_argument(argument: exp.Expr) -> bool:
    data = argument.expression if isinstance(argument, exp.Kwarg) else argument
    return isinstance(data, exp.Table | exp.Subquery)


def _argument(generator: Generator, argument: exp.Expr) -> str:
    if isinstance(argument, exp.Kwarg):
        return f"{argument.name} => {_argument(generator, argument.expression)}"
    if not isinstance(argument, exp.Table):
        return generator.sql(argument)
    hints = generator.expressions(argument, key="hints", sep=" ", flat=True)
    return f"TABLE {generator.table_parts(argument)}" + (f" {hints}" if hints else "")


DEFAULT_PRECISION = 2
"""Digits that an interval's first field has unless its unit says more (Calcite)."""


# --- types and literals ---


def datatype_sql(generator: Generator, expression: exp.DataType) -> str:
    """A type as Flink spells it; NOT NULL where the node says so."""
    null = " NOT NULL" if expression.args.get("nullable") is False else ""
    kind = expression.this
    if expression.text("kind") == "MULTISET":
        return f"MULTISET<{generator.sql(expression.expressions[0])}>{null}"
    if kind == exp.DType.STRUCT and not expression.expressions:
        return f"ROW(){null}"
    if kind == exp.DType.USERDEFINED:
        return _opaque_type(generator, expression) + null
    if kind == exp.DType.TIMESTAMPTZ:
        size = generator.expressions(expression, flat=True)
        return f"TIMESTAMP{f'({size})' if size else ''} WITH TIME ZONE{null}"
    if kind == exp.DType.VARBINARY and not expression.expressions:
        return f"BYTES{null}"
    if kind in (exp.DType.VARCHAR, exp.DType.CHAR) and not expression.expressions:
        return f"STRING{null}"  # sqlglot's own inference gives a bare VARCHAR for any text
    return Generator.datatype_sql(generator, expression) + null


def _opaque_type(generator: Generator, kind: exp.DataType) -> str:
    name, inner = kind.text("kind"), generator.expressions(kind, flat=True)
    if not inner:
        return name
    return f"{name}({inner})" if name == "RAW" else f"{name}<{inner}>"


def columndef_sql(generator: Generator, expression: exp.ColumnDef, sep: str = " ") -> str:
    """A column of a table, or a field of a ROW (whose comment is a bare string)."""
    field = isinstance(expression.parent, exp.DataType)
    parts = [generator.sql(expression, "this"), generator.sql(expression, "kind")]
    for constraint in expression.args.get("constraints") or []:
        kind = constraint.args["kind"]
        if isinstance(kind, exp.CommentColumnConstraint):
            parts.append(
                generator.sql(kind, "this") if field else f"COMMENT {generator.sql(kind, 'this')}"
            )
        elif isinstance(kind, exp.Anonymous):  # METADATA [FROM 'key']
            key = generator.expressions(kind, flat=True)
            parts.append(f"METADATA FROM {key}" if key else "METADATA")
        else:
            parts.append(generator.sql(kind))
    parts.append(generator.sql(expression, "position"))
    return sep.join(part for part in parts if part)


def computedcolumnconstraint_sql(
    generator: Generator, expression: exp.ComputedColumnConstraint
) -> str:
    """AS expression."""
    return f"AS {generator.sql(expression, 'this')}"


def primarykeycolumnconstraint_sql(
    generator: Generator, expression: exp.PrimaryKeyColumnConstraint
) -> str:
    """A key of one column, beside it."""
    return "PRIMARY KEY NOT ENFORCED"


def primarykey_sql(generator: Generator, expression: exp.PrimaryKey) -> str:
    """A key as an element of its own."""
    return f"PRIMARY KEY ({generator.expressions(expression, flat=True)}) NOT ENFORCED"


def interval_sql(generator: Generator, expression: exp.Interval) -> str:
    """INTERVAL 'text' UNIT [TO UNIT], with the precision that the text needs."""
    unit = expression.args["unit"]
    first, last = (unit.this.name, unit.expression.name) if unit.expression else (unit.name, "")
    digits = len(re.match(r"\D*(\d*)", expression.this.name)[1])  # type: ignore[index]
    words = f"{first}({digits})" if digits > DEFAULT_PRECISION else first
    words += f" TO {last}" if last else ""
    return f"INTERVAL {generator.sql(expression, 'this')} {words}"


def bracket_sql(generator: Generator, expression: exp.Bracket) -> str:
    """Access as it was written (`offset` tells other dialects that arrays count from 1)."""
    return f"{generator.sql(expression, 'this')}[{generator.expressions(expression, flat=True)}]"


# --- functions ---


def array_sql(generator: Generator, expression: exp.Array) -> str:
    """ARRAY[a, b], or ARRAY(query)."""
    items = expression.expressions
    query = len(items) == 1 and isinstance(items[0], exp.Query)
    text = generator.expressions(expression, flat=True)
    return f"ARRAY({text})" if query else f"ARRAY[{text}]"


def ignorenulls_sql(generator: Generator, expression: exp.IgnoreNulls) -> str:
    """ARRAY_AGG(x IGNORE NULLS), as Flink's page has it; behind the parenthesis of others."""
    return _null_treatment(generator, expression, "IGNORE NULLS")


def respectnulls_sql(generator: Generator, expression: exp.RespectNulls) -> str:
    """RESPECT NULLS, in the same places."""
    return _null_treatment(generator, expression, "RESPECT NULLS")


def _null_treatment(
    generator: Generator, expression: exp.IgnoreNulls | exp.RespectNulls, words: str
) -> str:
    call, text = expression.this, generator.sql(expression, "this")
    inside = isinstance(call, exp.AnonymousAggFunc) and not isinstance(
        call.expressions[0], exp.Order
    )
    return f"{text.removesuffix(')')} {words})" if inside else f"{text} {words}"


def groupconcat_sql(generator: Generator, expression: exp.GroupConcat) -> str:
    """LISTAGG(x, ',')."""
    return generator.func("LISTAGG", expression.this, expression.args.get("separator"))


def extract_sql(generator: Generator, expression: exp.Extract) -> str:
    """EXTRACT(unit FROM x)."""
    return f"EXTRACT({expression.name} FROM {generator.sql(expression, 'expression')})"


def strposition_sql(generator: Generator, expression: exp.StrPosition) -> str:
    """POSITION(x IN y)."""
    return f"POSITION({generator.sql(expression, 'substr')} IN {generator.sql(expression, 'this')})"


def trim_sql(generator: Generator, expression: exp.Trim) -> str:
    """TRIM([BOTH | LEADING | TRAILING] [x] FROM y)."""
    what = " ".join(
        filter(None, [expression.text("position"), generator.sql(expression, "expression")])
    )
    this = generator.sql(expression, "this")
    return f"TRIM({what} FROM {this})" if what else f"TRIM({this})"
