"""Own the planner of incremental queries: from a logical plan to inputs and stages, or why no stage runs it.

Called by `plan/analysis`. Placement asks it through a function that it is given.
"""
