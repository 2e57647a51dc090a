"""Own the run of checked files: plan all statements, execute them in order, start jobs, and summarise the results.

Called by `session`, `shell`, `notebook`, `sql/testing` and `cli/commands`.
"""
