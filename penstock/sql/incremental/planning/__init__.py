"""Own the planner of incremental queries: from a bound tree to inputs and stages. Called by `plan/analysis`."""
