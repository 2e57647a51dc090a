"""Own what is found out about whole files before anything runs, without a JVM.

Errors, names of queries, EXPLAIN, connectivity. Called by `runner`, `session`, `shell`, `sql/testing`,
`lineage` and `cli/commands`.
"""
