"""Own a query's checkpoint: where it is, whose it is, what it holds, and whether a query can resume from it.

Called by `check`, `plan`, `incremental`, `jobs`, `runner`, `information_schema` and `cli/commands`.
"""
