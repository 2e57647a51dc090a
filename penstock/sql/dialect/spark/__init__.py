"""Own the writer of Spark SQL: Flink's meaning where the two differ, one module per family of expressions.

Called by `plan`, `expressions`, `publish` and `incremental`.
"""
