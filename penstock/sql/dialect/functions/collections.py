"""Built-in functions of arrays, maps and rows: what each returns and how Spark says the same.

The answers in the tests come from CollectionFunctionsITCase and MapFunctionITCase. Where Flink takes a
NULL for a value among others, Spark's function mostly gives NULL: those forms are higher-order functions.
"""

from __future__ import annotations

from penstock.sql.dialect.functions.row import FIRST, Family, FunctionRow, method, native, row

C = Family.COLLECTION
# 0 and anything before the beginning is the first element, anything behind the end the last one
# (ArraySliceFunction); a NULL among the arguments makes the result NULL.
START = "greatest(if({1} < 0, {1} + size({0}) + 1, {1}), 1)"
LAST_INDEX = "if({2} < 0, {2} + size({0}) + 1, {2})"
END = f"if({LAST_INDEX} = 0, 1, least({LAST_INDEX}, size({{0}})))"
SLICE = (
    f"CASE WHEN {{0}} IS NULL OR {{1}} IS NULL OR {{2}} IS NULL THEN NULL "
    f"ELSE slice({{0}}, {START}, greatest(({END}) - {START} + 1, 0)) END"
)
SPLIT_AT = r"concat('\\Q', replace({1}, '\\E', '\\E\\\\E\\Q'), '\\E')"
SORT = (
    "CASE WHEN {1} IS NULL OR {2} IS NULL THEN NULL "
    "WHEN {1} = {2} THEN sort_array({0}, {1}) "
    "WHEN {1} THEN concat(sort_array(filter({0}, __x -> __x IS NOT NULL), true), filter({0}, __x -> __x IS NULL)) "
    "ELSE concat(filter({0}, __x -> __x IS NULL), sort_array(filter({0}, __x -> __x IS NOT NULL), false)) END"
)
ORDERED = "keys of a map are neither NULL nor twice the same: the query fails (Flink: allowed)"

ROWS: tuple[FunctionRow, ...] = (
    native(C, "CARDINALITY", "INT", "CARDINALITY(ARRAY[1, 2])", 1),
    row(
        C,
        "ELEMENT",
        None,
        "ELEMENT(ARRAY[1])",
        "CASE WHEN size({0}) > 1 THEN raise_error('ELEMENT takes an array of one element') "
        "ELSE get({0}, 0) END",
    ),
    native(C, "ARRAY_APPEND", FIRST, "ARRAY_APPEND(ARRAY[1, 2], NULL)", 2),
    native(C, "ARRAY_PREPEND", FIRST, "ARRAY_PREPEND(ARRAY[1, 2], NULL)", 2),
    row(
        C,
        "ARRAY_CONTAINS",
        "BOOLEAN",
        "ARRAY_CONTAINS(ARRAY[1, NULL, 3], 4)",
        "exists({0}, __x -> __x <=> {1})",
        least=2,
    ),
    native(C, "ARRAY_DISTINCT", FIRST, "ARRAY_DISTINCT(ARRAY[NULL, 1, 2, 1, NULL])", 1),
    row(
        C,
        "ARRAY_POSITION",
        "INT",
        "ARRAY_POSITION(ARRAY[1, 2, 2], 2)",
        "CAST(array_position({0}, {1}) AS INT)",
        least=2,
    ),
    row(
        C,
        "ARRAY_REMOVE",
        FIRST,
        "ARRAY_REMOVE(ARRAY[1, 2, 2], 2)",
        "filter({0}, __x -> NOT (__x <=> {1}))",
        least=2,
    ),
    row(C, "ARRAY_REVERSE", FIRST, "ARRAY_REVERSE(ARRAY[1, 2])", "reverse({0})"),
    row(
        C,
        "ARRAY_SLICE",
        FIRST,
        "ARRAY_SLICE(ARRAY[1, 2, 3, 4, 5], -3)",
        SLICE.replace(END, "size({0})").replace(" OR {2} IS NULL", ""),
        SLICE,
        least=2,
    ),
    row(
        C,
        "ARRAY_SORT",
        FIRST,
        "ARRAY_SORT(ARRAY[2, NULL, 1])",
        "sort_array({0})",
        "if({1} IS NULL, NULL, sort_array({0}, {1}))",
        SORT,
        note="the direction and the place of NULLs are constants",
    ),
    native(C, "ARRAY_UNION", FIRST, "ARRAY_UNION(ARRAY[1, 2], ARRAY[1, 4])", 2),
    FunctionRow(
        name="ARRAY_CONCAT",
        family=C,
        returns=FIRST,
        any_form="concat({*})",
        least=1,
        example="ARRAY_CONCAT(ARRAY[1, 2], ARRAY[1, 4])",
    ),
    native(C, "ARRAY_EXCEPT", FIRST, "ARRAY_EXCEPT(ARRAY[1, 2, 2], ARRAY[1])", 2),
    native(C, "ARRAY_INTERSECT", FIRST, "ARRAY_INTERSECT(ARRAY[1, 1, 2], ARRAY[1, 4])", 2),
    native(C, "ARRAY_MAX", None, "ARRAY_MAX(ARRAY[1, 2, NULL])", 1),
    native(C, "ARRAY_MIN", None, "ARRAY_MIN(ARRAY[1, 2, NULL])", 1),
    native(C, "ARRAY_JOIN", "STRING", "ARRAY_JOIN(ARRAY['a', 'b', NULL], '+', 'abc')", 2, 3),
    native(C, "MAP_KEYS", None, "MAP_KEYS(MAP[1, 'a'])", 1),
    native(C, "MAP_VALUES", None, "MAP_VALUES(MAP[1, 'a'])", 1),
    native(C, "MAP_ENTRIES", None, "MAP_ENTRIES(MAP[1, 'a'])", 1),
    native(
        C,
        "MAP_FROM_ARRAYS",
        None,
        "MAP_FROM_ARRAYS(ARRAY[1, 2], ARRAY['one', 'two'])",
        2,
        note=ORDERED,
    ),
    method(C, "MAP_UNION", FIRST, "MAP_UNION(MAP['a', 1], MAP['a', 2])", 1),
    row(
        C,
        "SPLIT",
        "ARRAY<STRING>",
        "SPLIT(',123,,', ',')",
        f"CASE WHEN {{1}} = '' THEN split({{0}}, '') WHEN {{0}} = '' AND {{1}} IS NOT NULL "
        f"THEN CAST(array() AS ARRAY<STRING>) ELSE split({{0}}, {SPLIT_AT}) END",
        least=2,
    ),
    method(Family.CONSTRUCTION, "ROW", None, "ROW(1, 'a')", 1),
    FunctionRow(
        name="MAP",
        family=Family.CONSTRUCTION,
        any_form="map({*})",
        least=0,
        example="MAP['a', 1]",
        note=ORDERED,
    ),
)
