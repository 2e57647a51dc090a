"""Built-in functions of numbers: what each returns and how Spark says the same.

The answers in the tests come from ScalarFunctionsTest and MathFunctionsITCase; logarithms of zero and
less are Java's Math.log (SqlFunctionUtils), where Spark's are NULL.
"""

from __future__ import annotations

from penstock.sql.dialect.functions.row import FIRST, Family, FunctionRow, method, native, row

A = Family.ARITHMETIC
LOGARITHM = (
    "CASE WHEN {{0}} > 0 OR isnan({{0}}) THEN {0} "
    "WHEN {{0}} = 0 THEN double('-Infinity') WHEN {{0}} < 0 THEN double('NaN') END"
)
LN = LOGARITHM.format("ln({0})")
# A base of 1 has the logarithm 0, and what is divided by 0 is infinite.
LOG_OF_BASE = (
    "CASE WHEN {0} = 1 AND {1} > 0 THEN "
    "CASE WHEN {1} > 1 THEN double('Infinity') WHEN {1} < 1 THEN double('-Infinity') "
    "ELSE double('NaN') END "
    f"ELSE ({LN.replace('{0}', '{1}')}) / ({LN}) END"
)
TRIGONOMETRY = "SIN SINH COS COSH TAN TANH COT ASIN ACOS ATAN DEGREES RADIANS SQRT EXP"
OTHER_NUMBERS = "the numbers of a seed are Spark's, not Java's; the seed is a constant"

ROWS: tuple[FunctionRow, ...] = (
    *(native(A, name, "DOUBLE", f"{name}(1)", 1) for name in TRIGONOMETRY.split()),
    native(A, "POWER", "DOUBLE", "POWER(2, 3)", 2),
    native(A, "ATAN2", "DOUBLE", "ATAN2(1, 1)", 2),
    native(A, "PI", "DOUBLE", "PI()", 0),
    native(A, "E", "DOUBLE", "E()", 0),
    row(A, "LN", "DOUBLE", "LN(0)", LN),
    row(A, "LOG10", "DOUBLE", "LOG10(100)", LOGARITHM.format("log10({0})")),
    row(A, "LOG2", "DOUBLE", "LOG2(8)", LOGARITHM.format("log2({0})")),
    row(A, "LOG", "DOUBLE", "LOG(10, 100)", LN, LOG_OF_BASE),
    native(A, "ABS", FIRST, "ABS(-5)", 1),
    native(A, "MOD", FIRST, "MOD(-7, 3)", 2),
    method(A, "CEILING", FIRST, "CEILING(4.5E0)", 1, 1),
    method(A, "SIGN", FIRST, "SIGN(-4)", 1, 1),
    method(
        A,
        "ROUND",
        FIRST,
        "ROUND(-125.315, 2)",
        1,
        2,
        note="the number of digits is a constant",
    ),
    method(
        A,
        "TRUNCATE",
        FIRST,
        "TRUNCATE(42.324, 2)",
        1,
        2,
        note="the number of digits is a constant",
    ),
    row(A, "RAND", "DOUBLE", "RAND(1)", "rand()", "rand({0})", least=0, note=OTHER_NUMBERS),
    row(
        A,
        "RAND_INTEGER",
        "INT",
        "RAND_INTEGER(1, 10)",
        "CAST(floor(rand() * {0}) AS INT)",
        "CAST(floor(rand({0}) * {1}) AS INT)",
        note=OTHER_NUMBERS,
    ),
    native(A, "UUID", "STRING", "UUID()", 0),
    native(A, "BIN", "STRING", "BIN(12)", 1),
    native(A, "HEX", "STRING", "HEX(100)", 1),
)
