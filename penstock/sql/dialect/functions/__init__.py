"""Own Flink's built-in functions as data: result types and Spark spellings, family by family.

Imports no parser; read by the parser, `dialect/spark`, `binding` and `expressions`.
"""
