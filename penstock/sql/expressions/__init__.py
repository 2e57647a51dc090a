"""Own the expressions of table definitions (computed columns, watermarks).

Infers their types, writes them for Spark and DuckDB. Called by `convert`, `plan` and `publish`.
"""
