"""Own the statements that finish at once: DDL, DML in place, SHOW, jars and users' functions.

Called by `check`, `runner`, `session`, `sql/testing`, `publish` and `lineage`.
"""
