"""Own the keys of SET: what they mean to the planner, to jobs, and to Spark.

Called by `plan`, `jobs`, `check` and the commands.
"""
