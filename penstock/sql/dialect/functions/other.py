"""Built-in functions of the other families, aggregates that are no nodes of sqlglot, and what is refused.

The answers in the tests come from JsonFunctionsITCase, ScalarFunctionsTest, ArrayAggFunctionITCase,
PercentileAggFunctionITCase and AggregateITCase.
"""

from __future__ import annotations

from penstock.sql.dialect.functions.row import Family, FunctionRow, aggregate, method, refused, row

# What Double.parseDouble takes (SqlFunctionUtils.isDecimal), hexadecimal numbers apart.
NUMBER = r"'^\\s*[+-]?(NaN|Infinity|([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)\\s*$'"
LEGACY_WINDOW = (
    "write a windowing table function: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), size)) "
    "GROUP BY window_start, window_end"
)
MODELS = "Penstock runs no models"
CLASSES = "a type of a Java class has no place in Spark: write ROW(...) or CAST(... AS ROW<...>)"

ROWS: tuple[FunctionRow, ...] = (
    # --- conditional ---
    row(
        Family.CONDITIONAL,
        "IS_ALPHA",
        "BOOLEAN",
        "IS_ALPHA('abc')",
        r"coalesce({0} RLIKE '^\\p{{L}}+$', false)",
    ),
    row(
        Family.CONDITIONAL,
        "IS_DIGIT",
        "BOOLEAN",
        "IS_DIGIT('123')",
        r"coalesce({0} RLIKE '^\\p{{Nd}}+$', false)",
    ),
    row(
        Family.CONDITIONAL,
        "IS_DECIMAL",
        "BOOLEAN",
        "IS_DECIMAL('11.4445')",
        f"coalesce({{0}} RLIKE {NUMBER}, false)",
    ),
    # --- JSON and VARIANT ---
    method(
        Family.JSON,
        "JSON_STRING",
        "STRING",
        "JSON_STRING(ARRAY[1, 2])",
        1,
        1,
        note="zeros at the end of a decimal number in a row or map are left out",
    ),
    method(Family.JSON, "JSON", "STRING", "JSON_OBJECT('K' VALUE JSON('{\"K2\": 42}'))", 1, 1),
    method(
        Family.VARIANT,
        "PARSE_JSON",
        None,
        "PARSE_JSON('{\"a\": 1}')",
        1,
        2,
        note="a duplicate key is always an error",
    ),
    method(
        Family.VARIANT,
        "TRY_PARSE_JSON",
        None,
        "TRY_PARSE_JSON('{')",
        1,
        2,
        note="a duplicate key always returns NULL",
    ),
    # --- grouping ---
    method(Family.GROUPING, "GROUPING_ID", "BIGINT", "GROUPING_ID(a, b)", 1),
    method(Family.GROUPING, "GROUP_ID", "BIGINT", "GROUP_ID()", 0, 0),
    # --- aggregates (COUNT, SUM, AVG, MIN, MAX, ... are nodes of sqlglot) ---
    aggregate("APPROX_COUNT_DISTINCT", "BIGINT", "APPROX_COUNT_DISTINCT(a)"),
    aggregate("ARRAY_AGG", None, "ARRAY_AGG(a)"),
    aggregate("COLLECT", None, "COLLECT(a)"),
    aggregate("PERCENTILE", None, "PERCENTILE(a, 0.25)", 2, 3),
    # --- time ---
    row(
        Family.TEMPORAL,
        "PROCTIME",
        "TIMESTAMP_LTZ(3)",
        "PROCTIME()",
        "current_timestamp()",
        least=0,
        note="the time of the micro-batch, the same for all of its rows",
    ),
    # --- what Spark cannot say ---
    *refused(
        Family.TEMPORAL,
        "late rows are dropped and counted by windows and joins themselves; information_schema.checkpoints and "
        "`penstock tail --watermarks` show the watermark; to leave out old rows, compare with the clock: "
        "ts > CURRENT_TIMESTAMP - INTERVAL '1' MINUTE",
        CURRENT_WATERMARK="CURRENT_WATERMARK(ts)",
    ),
    *refused(
        Family.TEMPORAL,
        "declare the watermark by an expression of columns",
        SOURCE_WATERMARK="SOURCE_WATERMARK()",
    ),
    *refused(
        Family.CONVERSION,
        "whether a value can be NULL is not known here: DESCRIBE a view to see the types of its columns",
        TYPEOF="TYPEOF(1)",
    ),
    *refused(
        Family.AUXILIARY,
        "write the name as a text; SHOW CURRENT DATABASE tells it",
        CURRENT_DATABASE="CURRENT_DATABASE()",
    ),
    *refused(
        Family.CONSTRUCTION,
        CLASSES,
        OBJECT_OF="OBJECT_OF('com.example.User', 'name', 'Bob')",
        OBJECT_UPDATE="OBJECT_UPDATE(OBJECT_OF('com.example.User', 'age', 14), 'age', 15)",
    ),
    *refused(
        Family.AUXILIARY,
        MODELS,
        ML_PREDICT="ML_PREDICT(1)",
        ML_EVALUATE="ML_EVALUATE(1)",
        VECTOR_SEARCH="VECTOR_SEARCH(1)",
    ),
    *refused(
        Family.GROUPING,
        LEGACY_WINDOW,
        **{
            name: f"{name}(ts, INTERVAL '1' MINUTE)"
            for name in (
                *("TUMBLE", "TUMBLE_START", "TUMBLE_END", "TUMBLE_ROWTIME", "TUMBLE_PROCTIME"),
                *("HOP", "HOP_START", "HOP_END", "HOP_ROWTIME", "HOP_PROCTIME"),
                *("SESSION", "SESSION_START", "SESSION_END", "SESSION_ROWTIME"),
                *("SESSION_PROCTIME", "CUMULATE"),
            )
        },
    ),
)
