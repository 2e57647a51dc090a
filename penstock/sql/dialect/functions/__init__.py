"""Own Flink's built-in functions as data: result types and Spark spellings, family by family.

Imports no parser. Called by `dialect/parser`, `dialect/flink`, `dialect/spark`, `binding` and `expressions`.
"""
