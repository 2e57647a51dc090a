"""Spark's catalogs: their definitions, types in Spark's JSON, and the connector `spark` for their tables.

Called by `registry`, and by `delta/log` for types.
"""
