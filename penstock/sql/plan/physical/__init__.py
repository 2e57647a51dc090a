"""Own the Spark side of a plan: frames, INSERTs as streaming queries, their sinks and batch metrics.

Called by `jobs`, `runner`, `session` and `testing`.
"""
