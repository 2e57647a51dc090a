"""Write JSON functions for Spark with Flink's meaning; JSON paths are spelled out for Spark's VARIANT functions.

Texts are read as VARIANTs: strictly, with all digits of a number, keys in order, as Flink writes them
(SqlJsonUtils). A path that finds nothing is an error in strict mode and empty in lax mode; without a mode it is
strict (SqlJsonUtils.jsonApiCommonSyntax).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from penstock.catalog.model.identifier import spark_literal
from penstock.sql.dialect.spark.types import IN_UTC, TEXTS, kind_of, let, operand
from penstock.sql.syntax.parse_errors import NodeError

MODE = re.compile(
    r"^\s*(?:(?P<mode>strict|lax)\s+)?(?P<steps>\$.*?)\s*$", re.IGNORECASE | re.DOTALL
)

STEP = re.compile(
    r"""\.?\[\s*(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<index>\d+)|(?P<any>\*))\s*\]"""
    r"""|\.(?P<name>[^.\[\]\s()'"*?@]+)"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPath:
    """`parts` are the paths from $ between the places where every element of an array is meant ([*])."""

    strict: bool
    parts: tuple[str, ...]


def read_json_path(node: exp.Expr) -> JsonPath:
    """The path that a node writes out. Raises NodeError for one that is not, or not in this set."""
    if not node.is_string:
        raise NodeError(
            "a JSON path that is not written out is not supported",
            node,
            "write it as a text: '$.a.b'",
        )
    match = MODE.match(node.name)
    if match is None:
        raise NodeError("a JSON path begins with $", node, "write for instance 'lax $.a[0].b'")
    parts, at, text = ["$"], 1, match["steps"]
    while at < len(text):
        step = STEP.match(text, at)
        if step is None:
            raise NodeError(
                f"'{text[at:]}' in a JSON path is not supported",
                node,
                "steps are .name, ['name'], [0] and [*]",
            )
        if step["any"]:
            parts.append("$")
        else:
            parts[-1] += _spelling(step)
        at = step.end()
    return JsonPath(strict=(match["mode"] or "strict").lower() == "strict", parts=tuple(parts))


def _spelling(step: re.Match[str]) -> str:
    if step["index"] is not None:
        return f"[{step['index']}]"
    name = next(text for text in (step["single"], step["double"], step["name"]) if text is not None)
    if re.fullmatch(r"\w+", name):
        return f".{name}"
    return f"['{name}']" if '"' in name else f'["{name}"]'


NESTED = (exp.DType.STRUCT, exp.DType.MAP, exp.DType.ARRAY)

IS_NESTED = "(left({0}, 1) IN ('{{', '[') AND schema_of_variant({1}) RLIKE '^(OBJECT|ARRAY)')"

IS_ARRAY = "(left({0}, 1) = '[' AND schema_of_variant({1}) RLIKE '^ARRAY')"

KIND_CHECKS = {
    "VALUE": "({0} IS NOT NULL)",
    "OBJECT": "coalesce(schema_of_variant({0}) RLIKE '^OBJECT', false)",
    "ARRAY": "coalesce(schema_of_variant({0}) RLIKE '^ARRAY', false)",
    "SCALAR": "({0} IS NOT NULL AND NOT schema_of_variant({0}) RLIKE '^(OBJECT|ARRAY)')",
}

RETURNED = (exp.DType.BOOLEAN, exp.DType.INT, exp.DType.DOUBLE)

KEEP_NULLS = "map('ignoreNullFields', 'false')"


# --- reading ---


def is_sql(writer: SparkGenerator, expression: exp.Is) -> str:
    """X IS JSON [kind]; any other IS is Spark's too."""
    if not isinstance(expression.expression, exp.JSON):
        return SparkGenerator.is_sql(writer, expression)
    kind = str(expression.expression.args.get("this") or "VALUE").upper()
    negated = "NOT " if expression.args.get("negate") else ""
    return negated + KIND_CHECKS[kind].format(f"try_parse_json({writer.sql(expression.this)})")


def jsonexists_sql(writer: SparkGenerator, expression: exp.JSONExists) -> str:
    """JSON_EXISTS(text, path): whether there is something else than null."""
    path = read_json_path(expression.args["path"])
    behaviour = _behaviour(expression, "error") if path.strict else None
    missing = {
        "TRUE ON ERROR": "true",
        "UNKNOWN ON ERROR": "NULL",
        "ERROR ON ERROR": _failure("JSON_EXISTS", path),
    }.get(str(behaviour), "false")

    def build(texts: Sequence[str]) -> str:
        found = _found(texts[0], path)
        there = f"{found} IS NOT NULL AND NOT is_variant_null({found})"
        return f"CASE WHEN {texts[0]} IS NULL THEN NULL WHEN {there} THEN true ELSE {missing} END"

    return let([_json_text(writer, expression.this)], build)


def jsonvalue_sql(writer: SparkGenerator, expression: exp.JSONValue) -> str:
    """JSON_VALUE of a scalar."""
    path, returning = read_json_path(expression.args["path"]), expression.args.get("returning")
    if returning is not None and returning.this not in (*RETURNED, *TEXTS):
        raise NodeError(
            "JSON_VALUE returns STRING, BOOLEAN, INT or DOUBLE",
            returning,
            "CAST what it returns",
        )

    def build(texts: Sequence[str]) -> str:
        found = _found(texts[0], path)
        text = f"CAST({found} AS STRING)"
        value = f"if({IS_NESTED.format(text, found)}, NULL, {text})"
        if returning is not None and returning.this in RETURNED:
            value = f"try_cast({value} AS {writer.sql(returning)})"
        missing = _missing(writer, expression, path, returning)
        if missing is None:
            return value
        return f"if({texts[0]} IS NULL, NULL, coalesce({value}, {missing}))"

    return let([_json_text(writer, expression.this)], build)


def _missing(
    writer: SparkGenerator, call: exp.JSONValue, path: JsonPath, returning: exp.DataType | None
) -> str | None:
    behaviour = _behaviour(call, "error" if path.strict else "empty")
    if isinstance(behaviour, exp.Expr):
        return (
            f"CAST({writer.sql(behaviour)} AS {writer.sql(returning) if returning else 'STRING'})"
        )
    if behaviour and behaviour.startswith("ERROR"):
        return _failure("JSON_VALUE", path)
    return None


def jsonextract_sql(writer: SparkGenerator, expression: exp.JSONExtract) -> str:
    """JSON_QUERY of an object or array."""
    path, returning = read_json_path(expression.expression), expression.args.get("returning")
    array = False
    if returning is not None:
        array = returning.this == exp.DType.ARRAY
        if (returning.expressions[0] if array else returning).this not in TEXTS:
            raise NodeError("JSON_QUERY returns STRING or ARRAY<STRING>", returning)
    option = expression.args.get("option")
    wrapper = option.name if option else "WITHOUT ARRAY WRAPPER"
    missing = _missing_json(expression, path, array=array)

    def build(texts: Sequence[str]) -> str:
        found = _found(texts[0], path)
        value = _items(found, wrapper) if array else _json(found, wrapper)
        if missing is None:
            return value
        return f"if({texts[0]} IS NULL, NULL, coalesce({value}, {missing}))"

    return let([_json_text(writer, expression.this)], build)


def _missing_json(call: exp.JSONExtract, path: JsonPath, *, array: bool) -> str | None:
    behaviour = str(_behaviour(call, "error" if path.strict else "empty") or "NULL")
    if behaviour.startswith("ERROR"):
        return _failure("JSON_QUERY", path)
    if behaviour.startswith("EMPTY OBJECT") and array:
        raise NodeError("JSON_QUERY that returns an array cannot give EMPTY OBJECT", call)
    if behaviour.startswith("EMPTY"):
        empty = "'{}'" if "OBJECT" in behaviour else "'[]'"
        return "CAST(array() AS ARRAY<STRING>)" if array else empty
    return None


def _json_text(writer: SparkGenerator, node: exp.Expr) -> str:
    known = kind_of(node) in (*TEXTS, exp.DType.UNKNOWN)
    return operand(writer, node) if known else f"CAST({writer.sql(node)} AS STRING)"


# --- building ---


def jsonobject_sql(writer: SparkGenerator, expression: exp.JSONObject) -> str:
    """JSON_OBJECT(KEY 'k' VALUE v, ...): keys in order, the last of equal ones wins."""
    pairs = {}
    for pair in expression.expressions:
        if not pair.this.is_string:
            raise NodeError(
                "a key of JSON_OBJECT is written out", pair, "write KEY 'name' VALUE ..."
            )
        pairs[pair.this.name] = json_item(writer, pair.expression)
    absent = expression.args.get("null_handling") == "ABSENT ON NULL"
    items = [
        _pair(writer, name, item if absent else f"coalesce({item}, 'null')")
        for name, item in sorted(pairs.items())
    ]
    return f"concat('{{', concat_ws(',', {', '.join(items)}), '}}')" if items else "'{}'"


def _pair(writer: SparkGenerator, name: str, item: str) -> str:
    key = json.dumps(name, ensure_ascii=False) + ":"
    return f"concat({writer.sql(exp.Literal.string(key))}, {item})"


def jsonarray_sql(writer: SparkGenerator, expression: exp.JSONArray) -> str:
    """JSON_ARRAY(v, ...)."""
    nulls = expression.args.get("null_handling") == "NULL ON NULL"
    items = [json_item(writer, item) for item in expression.expressions]
    texts = [f"coalesce({item}, 'null')" if nulls else item for item in items]
    return f"concat('[', concat_ws(',', {', '.join(texts)}), ']')" if texts else "'[]'"


def _json_string_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    return json_item(writer, call.expressions[0])


def json_item(writer: SparkGenerator, node: exp.Expr) -> str:
    """The JSON text of a value; NULL of NULL."""
    if isinstance(node, exp.JSONObject | exp.JSONArray | exp.JSONObjectAgg | exp.JSONArrayAgg):
        return writer.sql(node)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "JSON":
        raw = operand(writer, node.expressions[0])
        return f"CASE WHEN trim({raw}) <> '' THEN to_json(parse_json({raw})) END"
    text, kind = operand(writer, node), kind_of(node)
    if kind in NESTED:
        return f"to_json(parse_json(to_json({text}, {KEEP_NULLS})))"
    if kind == exp.DType.TIMESTAMPNTZ:
        return f"concat('\"', replace(CAST({text} AS STRING), ' ', 'T'), '\"')"
    if kind == exp.DType.TIMESTAMPLTZ:
        utc = IN_UTC.format(text)
        return f"concat('\"', replace(CAST({utc} AS STRING), ' ', 'T'), 'Z\"')"
    return f"if({text} IS NULL, NULL, regexp_replace(to_json(array({text}), {KEEP_NULLS}), '^.|.$', ''))"


def _json_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    raise NodeError(
        "JSON(...) stands where no JSON is built",
        call,
        "use it as an item of JSON_ARRAY, or as a value of JSON_OBJECT",
    )


def _parse_json_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    return _parsed(writer, "parse_json", call)


def _try_parse_json_sql(writer: SparkGenerator, call: exp.Anonymous) -> str:
    return _parsed(writer, "try_parse_json", call)


def _parsed(writer: SparkGenerator, function: str, call: exp.Anonymous) -> str:
    text, *duplicates = call.expressions
    if duplicates and not (isinstance(duplicates[0], exp.Boolean) and not duplicates[0].this):
        raise NodeError(f"{call.name} with duplicate keys is not supported", duplicates[0])
    return writer.func(function, text)


# --- forms ---


def _found(text: str, path: JsonPath) -> str:
    """The VARIANT at a path; NULL where there is none, or no JSON."""
    parsed = f"try_parse_json({text})"
    if len(path.parts) == 1:
        return _at(parsed, path.parts[0], "variant")
    return f"to_variant_object({_each(parsed, path.parts, 0)})"


def _each(value: str, parts: Sequence[str], depth: int) -> str:
    """The array of what the parts of a path with [*] find, elements that lack it left out (JsonPath)."""
    elements, name = _at(value, parts[0], "array<variant>"), f"j{depth}"
    if len(parts) > 2:
        return f"flatten(transform({elements}, {name} -> {_each(name, parts[1:], depth + 1)}))"
    if parts[1] == "$":
        return elements
    inner = f"transform({elements}, {name} -> {_at(name, parts[1], 'variant')})"
    return f"filter({inner}, {name} -> {name} IS NOT NULL)"


def _at(value: str, path: str, kind: str) -> str:
    return f"try_variant_get({value}, {spark_literal(path)}, '{kind}')"


def _json(found: str, wrapper: str) -> str:
    text = f"CAST({found} AS STRING)"
    wrapped = f"if({text} IS NULL, NULL, to_json(array({found})))"
    if wrapper.startswith("WITHOUT"):
        return f"if({IS_NESTED.format(text, found)}, {text}, NULL)"
    if "UNCONDITIONAL" in wrapper:
        return wrapped
    return f"if({IS_ARRAY.format(text, found)}, {text}, {wrapped})"


def _items(found: str, wrapper: str) -> str:
    elements = f"transform({_at(found, '$', 'array<variant>')}, x -> CAST(x AS STRING))"
    text = f"CAST({found} AS STRING)"
    wrapped = f"if({text} IS NULL, NULL, array({text}))"
    if wrapper.startswith("WITHOUT"):
        return elements
    return wrapped if "UNCONDITIONAL" in wrapper else f"coalesce({elements}, {wrapped})"


def _behaviour(call: exp.Expr, event: str) -> str | exp.Expr | None:
    """What stands in front of ON EMPTY or ON ERROR: words, or the expression of DEFAULT."""
    condition = call.args.get("on_condition")
    return condition.args.get(event) if condition else None


def _failure(function: str, path: JsonPath) -> str:
    steps = "[*]".join(path.parts).replace("]$", "]")
    what = "no value of the kind wanted at the path " + steps
    return f"raise_error('{function}: {what}')".replace("['", "[").replace("']", "]")


FUNCTION_WRITERS: dict[str, Callable[[SparkGenerator, exp.Anonymous], str]] = {
    "JSON": _json_sql,
    "JSON_STRING": _json_string_sql,
    "PARSE_JSON": _parse_json_sql,
    "TRY_PARSE_JSON": _try_parse_json_sql,
}
"""Functions of the table in `functions` whose form is no template, by their names."""
