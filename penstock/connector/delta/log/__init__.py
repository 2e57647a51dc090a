"""The Delta log read without an engine: schemas, rows of small tables, a folder of tables as a catalog.

Called by `dead_letters`, by the check of checkpoints in `delta` and by `sql`.
"""
