"""Own the writer of Spark SQL: Flink's meaning where the two differ, one module per family of expressions.

Called by `sql/dialect` (`flink_to_spark`), `binding`, `expressions` and `convert`.
"""
