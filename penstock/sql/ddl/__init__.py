"""Own what DDL does to a catalog: apply a definition, compare it with an existing one, print it.

Needs no Spark; called by `convert`, `check`, `execution` and the commands.
"""
