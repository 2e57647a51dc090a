"""Own the parser of Flink SQL on top of sqlglot's: types, expressions, queries and statements.

Assembled by `dialect/flink`.
"""
