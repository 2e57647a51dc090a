"""Own what DDL does to a catalog: apply a definition, compare it with an existing one, print it.

Needs no Spark. Called by `convert`, `check`, `execution`, `session` and `cli/commands`.
"""
