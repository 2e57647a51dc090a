"""Own the rows of the tables of `information_schema`, from names and checkpoints when a query is planned.

Called by `plan`, `publish` and `shell`.
"""
