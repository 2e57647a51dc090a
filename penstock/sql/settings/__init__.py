"""Own the keys of SET: what they mean to the planner, to jobs, and to Spark.

Called by `sql/plan`, `jobs`, `runner`, `session`, `check` and `cli/commands`.
"""
