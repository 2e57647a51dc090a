"""The Delta log read without an engine: schemas, rows of small tables, a folder of tables as a catalog.

Called by `dead_letters`, `delta`, `registry` and `cli/commands`.
"""
