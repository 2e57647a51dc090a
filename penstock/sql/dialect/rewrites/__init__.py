"""Own rewrites of a Flink tree into forms that Spark has: unfolded grouping sets, SESSION windows, windows as
queries.

Called by `dialect/spark`, `plan` and `publish`.
"""
